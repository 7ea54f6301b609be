package main

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// --policy accepts "-", like `ctl policy check`.
func TestAPolicyIsReadFromStandardInput(t *testing.T) {
	const text = "rules:\n- name: all\n  when: \"true\"\n  outcome: ask\n"
	var f startFlags
	cmd := &cobra.Command{}
	f.add(cmd, "")
	if err := cmd.ParseFlags([]string{"--policy", "-"}); err != nil {
		t.Fatal(err)
	}
	t.Setenv("FAIRLEAD_CONFIG", "")
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	if opt, err := (&app{in: strings.NewReader(text)}).sessionOptions(&f); err != nil || opt.Policy != text {
		t.Errorf("the policy is %q (%v)", opt.Policy, err)
	}
	if _, err := (&app{in: strings.NewReader("rules: 7")}).sessionOptions(&f); exitOf(err) != exitUsage {
		t.Errorf("a broken one: %v", err)
	}
}
