package start

import (
	"errors"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"fairlead.dev/fairlead/activities/site"
	"fairlead.dev/fairlead/cmd/ctl/internal/core"
	"fairlead.dev/fairlead/snapshots"
	"fairlead.dev/fairlead/workflows/session"
)

// --policy accepts "-", like `ctl policy check`.
func TestAPolicyIsReadFromStandardInput(t *testing.T) {
	const text = "rules:\n- name: all\n  when: \"true\"\n  outcome: ask\n"
	var f Flags
	cmd := &cobra.Command{}
	f.Add(cmd, "")
	if err := cmd.ParseFlags([]string{"--policy", "-"}); err != nil {
		t.Fatal(err)
	}
	t.Setenv("FAIRLEAD_CONFIG", "")
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	if opt, err := Options((&core.App{In: strings.NewReader(text)}), &f); err != nil || opt.Policy != text {
		t.Errorf("the policy is %q (%v)", opt.Policy, err)
	}
	if _, err := Options((&core.App{In: strings.NewReader("rules: 7")}), &f); core.ExitCode(err) != core.ExitUsage {
		t.Errorf("a broken one: %v", err)
	}
}

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
			var e *core.Error
			if !errors.As(err, &e) || e.Code != core.ExitUsage || got != "" || !strings.Contains(e.Hint, "--policy none") {
				t.Errorf("%s: %q, %v", name, got, err)
			}
		} else if err != nil || got != c.want {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	opt := session.Options{}
	if err := (&judgeFlags{file: "none"}).set(new(core.App), &opt); err != nil || opt.Policy != "" {
		t.Errorf("none is %q, %v", opt.Policy, err)
	}
}
