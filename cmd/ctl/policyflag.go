package main

import (
	"context"

	"github.com/spf13/cobra"

	"fairlead.dev/fairlead/activities"
	"fairlead.dev/fairlead/internal/policy"
	"fairlead.dev/fairlead/snapshots"
	"fairlead.dev/fairlead/workflows"
)

// judgeFlags names the policy of a session.
type judgeFlags struct{ file string }

func (f *judgeFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&f.file, "policy", "", "rules that decide what codex asks for, in `FILE`, or - for standard input (`ctl policy check` says what is wrong with it); none: by no rules")
}

// set reads the policy. With a broken policy no session is started.
func (f *judgeFlags) set(a *app, opt *workflows.SessionOptions) error {
	if f.file == "" || f.file == noPolicy {
		return nil
	}
	text, err := a.readPolicy(f.file)
	opt.Policy = text
	return err
}

// readPolicy returns the text of a policy file, if the policy is valid.
func (a *app) readPolicy(name string) (string, error) {
	data, err := a.input("--policy", name)
	switch {
	case err != nil:
		return "", err
	case len(data) > workflows.MaxPolicy:
		return "", usage("--policy %s: it is %d bytes long, at most %d", name, len(data), workflows.MaxPolicy)
	case len(data) == 0:
		return "", usage("--policy %s: it is empty", name)
	}
	if _, err := policy.Parse(data); err != nil {
		return "", usage("--policy %s: %v", name, err).hinted("mend the file: a session with a broken policy declines everything").because(err)
	}
	return string(data), nil
}

// noPolicy is the value of --policy for a session without a policy.
const noPolicy = "none"

// samePolicy gives a session that continues from a snapshot the former session's policy,
// unless --policy was given. This way a policy is not lost by accident. If the former
// policy is unknown, the user must state one.
func (a *app) samePolicy(ctx context.Context, t *temporal, opt *workflows.SessionOptions, m snapshots.Manifest, known bool, given func(flag string) bool) error {
	if given("policy") {
		return nil
	}
	var texts workflows.PolicyTexts
	if known {
		if _, err := t.askEither(ctx, "show the policy of session "+m.Session, workflows.SessionID(m.Session), workflows.QueryPolicy, &texts); err != nil {
			return err
		}
	}
	var err error
	opt.Policy, err = policyAsItWas(m, texts.Session, known)
	return err
}

// policyAsItWas returns the policy of a snapshot's session. text is the policy that the
// session reports, if known. The session's id may belong to a later session by now, so the
// digest in the snapshot decides.
func policyAsItWas(m snapshots.Manifest, text string, known bool) (string, error) {
	was := snapshots.NoPolicy
	if text != "" {
		was = activities.PolicyDigest(text)
	}
	switch {
	case known && (m.Policy == "" || m.Policy == was):
		return text, nil
	case m.Policy == snapshots.NoPolicy:
		return "", nil
	case m.Policy == "":
		return "", usage("restore snapshot %s: it does not say by which policy its session was judged, and session %s, as it was then, is not there to say it", m.ID, m.Session).
			hinted("say it with --policy FILE or --policy none")
	}
	return "", usage("restore snapshot %s: its session was judged by the policy %s, and session %s, as it was then, is not there to give it", m.ID, m.Policy[:min(12, len(m.Policy))], m.Session).
		hinted("give it with --policy FILE (`sha256sum FILE` begins so), or say --policy none")
}

// policyLine describes a session's policy in one line.
func policyLine(v *workflows.PolicyView) string {
	if v == nil {
		return ""
	}
	text := v.State + " " + v.Digest[:min(12, len(v.Digest))]
	if v.Error != "" {
		text += ": everything is declined: " + v.Error
	}
	return text
}
