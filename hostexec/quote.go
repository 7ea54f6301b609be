package hostexec

import (
	"fmt"
	"strings"

	"fairlead.dev/fairlead/hostexec/internal/script"
)

// check returns an error if a shell cannot be given c. Its errors do not repeat values,
// which may be secret.
func (c Command) check() error {
	if c.Script == "" {
		return fmt.Errorf("command has no script")
	}
	if strings.ContainsRune(c.Script, 0) {
		return fmt.Errorf("script holds a NUL byte")
	}
	for i, a := range c.Args {
		if strings.ContainsRune(a, 0) {
			return fmt.Errorf("argument %d holds a NUL byte", i+1)
		}
	}
	for k, v := range c.Env {
		if !script.EnvName.MatchString(k) {
			return fmt.Errorf("environment name %q is not a shell name", k)
		}
		if strings.ContainsRune(v, 0) {
			return fmt.Errorf("environment value of %s holds a NUL byte", k)
		}
	}
	if c.Fence != nil {
		return c.Fence.Check()
	}
	return nil
}
