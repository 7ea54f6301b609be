package main

import (
	"context"

	"github.com/spf13/cobra"

	"fairlead.dev/fairlead/activities"
	"fairlead.dev/fairlead/internal/policy"
	"fairlead.dev/fairlead/snapshots"
	"fairlead.dev/fairlead/workflows"
)

// judgeFlags name the policy of a session.
type judgeFlags struct{ file string }

func (f *judgeFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&f.file, "policy", "", "rules that decide what codex asks for, in `FILE`, or - for standard input (`ctl policy check` says what is wrong with it); none: by no rules")
}

// set reads the policy; one that is broken starts nothing.
func (f *judgeFlags) set(a *app, opt *workflows.SessionOptions) error {
	if f.file == "" || f.file == noPolicy {
		return nil
	}
	text, err := a.readPolicy(f.file)
	opt.Policy = text
	return err
}

// readPolicy is a policy's file as it is, if it holds.
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

// noPolicy is said of a session that is to have none.
const noPolicy = "none"

// samePolicy gives a session that goes on from another one that one's policy,
// unless something else was said: nobody loses it by going on elsewhere. Where
// the other one is not there to say it, somebody has to.
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

// policyAsItWas is the policy that a snapshot's session had; text is what the
// session says of it, if it is known. An id may be another session's by now:
// what the snapshot says counts.
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

// policyLine is a policy of a session's in a line.
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
