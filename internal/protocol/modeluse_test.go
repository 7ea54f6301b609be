package protocol

import "testing"

// A count has what is held for requests under way, so that a newer one may be lower.
func TestWhatASessionHasSpentIsTheNewestCount(t *testing.T) {
	var u ModelUse
	for _, c := range []struct{ told, want Money }{{5, 5}, {9, 9}, {7, 7}, {0, 7}} {
		if u.Add(&ModelUse{Spent: c.told}); u.Spent != c.want {
			t.Errorf("after a count of %s it is %s, expected %s", c.told, u.Spent, c.want)
		}
	}
	if u.Add(nil); u.Spent != 7 {
		t.Errorf("it is %s", u.Spent)
	}
}
