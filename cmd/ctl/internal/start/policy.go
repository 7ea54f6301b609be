package start

import (
	"github.com/spf13/cobra"

	"fairlead.dev/fairlead/cmd/ctl/internal/core"
	"fairlead.dev/fairlead/internal/policy"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/session"
)

type judgeFlags struct{ file string }

func (f *judgeFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&f.file, "policy", "", "rules that decide what codex asks for, in `FILE`, or - for standard input (`ctl policy check` says what is wrong with it); the word none means no policy")
}

// set refuses a broken policy.
func (f *judgeFlags) set(a *core.App, opt *session.Options) error {
	if f.file == "" || f.file == noPolicy {
		return nil
	}
	text, err := ReadPolicy(a, f.file)
	opt.Policy = text
	return err
}

// ReadPolicy returns the text of a valid policy file.
func ReadPolicy(a *core.App, name string) (string, error) {
	data, err := a.Input("--policy", name)
	switch {
	case err != nil:
		return "", err
	case len(data) > protocol.MaxPolicy:
		return "", core.Usage("--policy %s: it is %d bytes long, at most %d", name, len(data), protocol.MaxPolicy)
	case len(data) == 0:
		return "", core.Usage("--policy %s: it is empty", name)
	}
	if _, err := policy.Parse(data); err != nil {
		return "", core.Usage("--policy %s: %v", name, err).Hinted("fix the file; a session with a broken policy declines everything").Because(err)
	}
	return string(data), nil
}

// noPolicy is the value of --policy for no policy.
const noPolicy = "none"
