package start

import (
	"context"

	"github.com/spf13/cobra"

	"fairlead.dev/fairlead/activities/site"
	"fairlead.dev/fairlead/cmd/ctl/internal/conn"
	"fairlead.dev/fairlead/cmd/ctl/internal/core"
	"fairlead.dev/fairlead/internal/policy"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/snapshots"
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

// SamePolicy gives a session that continues from a snapshot the former policy, unless
// --policy is given. An unknown one must be stated.
func SamePolicy(ctx context.Context, t *conn.Conn, opt *session.Options, m snapshots.Manifest, known bool, given func(flag string) bool) error {
	if given("policy") {
		return nil
	}
	var texts protocol.PolicyTexts
	if known {
		if _, err := t.AskEither(ctx, "show the policy of session "+m.Session, protocol.SessionID(m.Session), protocol.QueryPolicy, &texts); err != nil {
			return err
		}
	}
	var err error
	opt.Policy, err = policyAsItWas(m, texts.Session, known)
	return err
}

// policyAsItWas returns a snapshot's policy; text is what the session reports, if known. A
// later session may have the id, so the snapshot's digest decides.
func policyAsItWas(m snapshots.Manifest, text string, known bool) (string, error) {
	was := snapshots.NoPolicy
	if text != "" {
		was = site.PolicyDigest(text)
	}
	switch {
	case known && (m.Policy == "" || m.Policy == was):
		return text, nil
	case m.Policy == snapshots.NoPolicy:
		return "", nil
	case m.Policy == "":
		return "", core.Usage("restore snapshot %s: neither the snapshot nor session %s says what the policy was", m.ID, m.Session).
			Hinted("say it with --policy FILE or --policy none")
	}
	return "", core.Usage("restore snapshot %s: its session had the policy %s, and session %s cannot supply that policy", m.ID, m.Policy[:min(12, len(m.Policy))], m.Session).
		Hinted("give it with --policy FILE (`sha256sum FILE` begins with the same digits), or say --policy none")
}
