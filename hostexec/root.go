package hostexec

import (
	"context"
	"fmt"
	"path"
	"strings"

	"fairlead.dev/fairlead/internal/protocol"
)

// Root returns the absolute path of the folder on the host that holds our files: Spec.Root,
// or .fairlead in the user's home. It does not create the folder. A Spec.Root that begins
// with ~/ or is relative lies below the user's home.
func Root(ctx context.Context, h Host, spec protocol.HostSpec) (string, error) {
	root := spec.Root
	if root == "" {
		root = ".fairlead"
	}
	if strings.ContainsRune(root, 0) {
		return "", fmt.Errorf("root of %s: %q holds a NUL byte", h.Name(), root)
	}
	root = strings.TrimPrefix(root, "~/")
	if !path.IsAbs(root) {
		res, err := h.Run(ctx, Command{Script: `cd && [ -n "$HOME" ] && printf %s "$HOME"`})
		if err != nil {
			return "", fmt.Errorf("root of %s: home folder: %w", h.Name(), err)
		}
		home := string(res.Stdout)
		if !path.IsAbs(home) {
			return "", fmt.Errorf("root of %s: the user's home %q is not an absolute path: name a root", h.Name(), home)
		}
		root = path.Join(home, root)
	}
	if root = path.Clean(root); root == "/" {
		return "", fmt.Errorf("root of %s: / cannot be it: name a folder", h.Name())
	}
	return root, nil
}
