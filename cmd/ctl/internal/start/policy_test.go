package start

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"fairlead.dev/fairlead/cmd/ctl/internal/core"
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

func TestThePolicyNoneIsNone(t *testing.T) {
	opt := session.Options{}
	if err := (&judgeFlags{file: "none"}).set(new(core.App), &opt); err != nil || opt.Policy != "" {
		t.Errorf("none is %q, %v", opt.Policy, err)
	}
}
