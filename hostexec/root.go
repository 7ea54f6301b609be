package hostexec

import (
	"context"
	"fmt"
	"path"
	"strings"

	"fairlead.dev/fairlead/internal/protocol"
)

// Root returns the absolute path of the root folder on the host, which it does not create.
// Spec.Root may be relative to the user's home or begin with ~/; the default is .fairlead.
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
			return "", fmt.Errorf("root of %s: the user's home %q is not an absolute path: set an absolute root for the host", h.Name(), home)
		}
		root = path.Join(home, root)
	}
	if root = path.Clean(root); root == "/" {
		return "", fmt.Errorf("root of %s: the root folder cannot be /: set root to another folder", h.Name())
	}
	return root, nil
}
