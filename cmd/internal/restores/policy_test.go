package restores

import (
	"errors"
	"strings"
	"testing"

	"fairlead.dev/fairlead/activities/site"
	"fairlead.dev/fairlead/internal/errkind"
	"fairlead.dev/fairlead/snapshots"
)

// Continuing from a snapshot keeps the policy, unless the user states one.
func TestNoPolicyIsLostByGoingOnElsewhere(t *testing.T) {
	const text, refused = "default: decline\n", "refused"
	digest := site.PolicyDigest(text)
	for name, c := range map[string]struct {
		says, text string
		known      bool
		want       string
	}{
		"the session has it":                          {digest, text, true, text},
		"the session has it, the snapshot is older":   {"", text, true, text},
		"the session has none":                        {"none", "", true, ""},
		"the session has none, the snapshot is older": {"", "", true, ""},
		"the session is gone, it had none":            {"none", "", false, ""},
		"the session is gone, it had one":             {digest, "", false, refused},
		"the session is gone, nobody knows":           {"", "", false, refused},
		"the session there is another":                {digest, "default: ask\n", true, refused},
		"the session there is another, without any":   {digest, "", true, refused},
	} {
		got, err := policyAsItWas(snapshots.Manifest{ID: "s1.snap-x", Session: "s1", Facts: snapshots.Facts{Policy: c.says}}, c.text, c.known)
		if c.want == refused {
			var e *errkind.Error
			if !errors.As(err, &e) || e.Code != errkind.ExitUsage || got != "" || !strings.Contains(e.Hint, "--policy none") {
				t.Errorf("%s: %q, %v", name, got, err)
			}
		} else if err != nil || got != c.want {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}
