package protocol

import (
	"encoding/json"
	"testing"
)

func TestAmountsOfMoneyAreExactDecimals(t *testing.T) {
	for text, want := range map[string]struct {
		is   Money
		says string
	}{
		"5": {5 * Unit, "5.00"}, "2.5": {2_500_000, "2.50"}, "0.000001": {1, "0.000001"}, "0": {0, "0.00"}, "1000000000": {MostMoney, "1000000000.00"},
	} {
		m, err := ParseMoney(text)
		if err != nil || m != want.is || m.String() != want.says {
			t.Errorf("%s: %d %s, %v", text, m, m, err)
		}
		var back Money
		raw, err := json.Marshal(m)
		if err == nil {
			err = json.Unmarshal(raw, &back)
		}
		if err != nil || back != m {
			t.Errorf("%s: %s became %d, %v", text, raw, back, err)
		}
	}
	for _, text := range []string{"", ".", "1.", ".5", "-1", "+1", "1e3", "1.0000001", "1000000001", "99999999999999999999", "1 ", "$1", "1,5"} {
		if m, err := ParseMoney(text); err == nil {
			t.Errorf("%q is taken as %s", text, m)
		}
	}
	if c := Cost(1_000_000, 1.25); c != 1_250_000 {
		t.Errorf("a million tokens cost %s", c)
	}
	if c := Cost(1, 0.125); c != 1 {
		t.Errorf("the least cost is %d millionths", c)
	}
}
