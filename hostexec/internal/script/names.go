package script

import (
	"fmt"
	"path"
	"regexp"
	"strings"
)

// EnvName is what a shell accepts as the name of a variable.
var EnvName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// CheckPath rejects ambiguous paths on a host.
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
