package seed

import (
	"testing"

	"fairlead.dev/fairlead/activities/inquiry"
)

func TestOnlyTheNewestLeasesAreToldFromForgottenOnes(t *testing.T) {
	g := grants{after: 100}
	for epoch := int64(101); epoch <= 103; epoch++ {
		g.add(epoch, "early")
	}
	last := int64(1000)
	for range maxGrants - 1 {
		last++
		g.add(last, "late")
	}
	all := g.until(last)
	if len(all.Granted) != maxGrants || all.First != 103 || all.Last != last {
		t.Fatalf("the range is %+v", all)
	}
	for _, of := range []struct {
		holder string
		epoch  int64
		want   bool
	}{{"early", 103, false}, {"other", 103, true}, {"other", 102, false}, {"late", 500, true}, {"late", last, false}, {"other", last, true}, {"late", last + 1, false}} {
		if got := inquiry.InAny([]inquiry.Epochs{all}, of.holder, of.epoch); got != of.want {
			t.Errorf("epoch %d of %s: %v", of.epoch, of.holder, got)
		}
	}
}
