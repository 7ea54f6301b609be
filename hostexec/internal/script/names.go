package script

import (
	"fmt"
	"path"
	"regexp"
	"strings"
)

// EnvName matches the names of variables that a shell accepts.
var EnvName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// CheckPath returns an error if p is not a clean absolute path, or is /.
func CheckPath(p string) error {
	switch {
	case !path.IsAbs(p):
		return fmt.Errorf("%q is not an absolute path", p)
	case path.Clean(p) != p:
		return fmt.Errorf("%q is not a clean path; %q would be", p, path.Clean(p))
	case p == "/":
		return fmt.Errorf("path is /")
	case strings.ContainsRune(p, 0):
		return fmt.Errorf("%q holds a NUL byte", p)
	}
	return nil
}
