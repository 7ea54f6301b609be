package budget

import (
	"testing"

	"fairlead.dev/fairlead/internal/errkind"
)

func TestABudgetIsRead(t *testing.T) {
	b, err := Parse("tokens=500, time=90m,turn=2h,turns=3,approvals=4,commands=0")
	if err != nil || *b.Tokens != 500 || b.Time != "1h30m0s" || b.TurnTimeout != "2h0m0s" || *b.Turns != 3 || *b.Approvals != 4 || *b.Commands != 0 {
		t.Errorf("%+v, %v", b, err)
	}
	if b, err = Parse("tokens=0"); err != nil || b.Tokens == nil || *b.Tokens != 0 || b.Time != "" || b.TurnTimeout != "" || b.Turns != nil || b.Money != nil {
		t.Errorf("%+v, %v", b, err)
	}
	if b, err = Parse("money=2.50"); err != nil || b.Money == nil || *b.Money != 2_500_000 {
		t.Errorf("%+v, %v", b, err)
	}
	for _, bad := range []string{"", "500", "tokens=many", "tokens=-1", "turn=0", "turn=-1h", "time=soon", "time=-1s", "turns=1.5", "tokens=1,tokens=2", "approvals=", "commands=x", "money=-5", "money=1,5", "tokens=1,"} {
		if _, err := Parse(bad); errkind.ExitCode(err) != errkind.ExitUsage || err == nil {
			t.Errorf("%q: %v", bad, err)
		}
	}
}
