package restores

import (
	"context"

	"fairlead.dev/fairlead/activities/site"
	"fairlead.dev/fairlead/cmd/internal/flows"
	"fairlead.dev/fairlead/internal/errkind"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/snapshots"
	"fairlead.dev/fairlead/workflows/session"
)

// samePolicy gives a session that continues from a snapshot the former policy, unless
// --policy is given. An unknown one must be stated.
func samePolicy(ctx context.Context, t *flows.Conn, opt *session.Options, m snapshots.Manifest, known bool, given func(flag string) bool) error {
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
		return "", errkind.Usage("restore snapshot %s: neither the snapshot nor session %s says what the policy was", m.ID, m.Session).
			Hinted("say it with --policy FILE or --policy none")
	}
	return "", errkind.Usage("restore snapshot %s: its session had the policy %s, and session %s cannot supply that policy", m.ID, m.Policy[:min(12, len(m.Policy))], m.Session).
		Hinted("give it with --policy FILE (`sha256sum FILE` begins with the same digits), or say --policy none")
}
