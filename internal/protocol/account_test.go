package protocol

import (
	"strings"
	"testing"
	"time"
)

var noon = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)

func limits(at time.Time, used int, resets time.Time, reached string) *RateLimits {
	return &RateLimits{Primary: &RateWindow{UsedPercent: used, WindowMinutes: 300, ResetsAt: resets.Unix()},
		Secondary: &RateWindow{UsedPercent: 10, WindowMinutes: 10080, ResetsAt: resets.Add(72 * time.Hour).Unix()}, Reached: reached, AtMS: at.UnixMilli()}
}

func TestAnAccountIsAvoidedUntilItsWindowResets(t *testing.T) {
	resets := noon.Add(2 * time.Hour)
	met := SeedQuota{Met: noon, Until: resets}
	for name, c := range map[string]struct {
		account *SeedAccount
		at      time.Time
		state   string
		until   time.Time
		percent int
	}{
		"nothing is known":               {nil, noon, "", time.Time{}, 0},
		"well below":                     {&SeedAccount{Limits: limits(noon, 94, resets, "")}, noon, "", time.Time{}, 94},
		"nearly used up":                 {&SeedAccount{Limits: limits(noon, 95, resets, "")}, noon, NearlyUsedUp, resets, 95},
		"its window has reset":           {&SeedAccount{Limits: limits(noon, 95, resets, "")}, resets, "", time.Time{}, 10},
		"codex says it is reached":       {&SeedAccount{Limits: limits(noon, 100, resets, "rate_limit_reached")}, noon, UsedUp, resets, 100},
		"reached, and reset":             {&SeedAccount{Limits: limits(noon, 100, resets, "rate_limit_reached")}, resets, "", time.Time{}, 10},
		"a turn met the end":             {&SeedAccount{SeedQuota: met}, noon, UsedUp, resets, 0},
		"the quota is there again":       {&SeedAccount{SeedQuota: met}, resets, "", time.Time{}, 0},
		"met, the end is not known":      {&SeedAccount{SeedQuota: SeedQuota{Met: noon}}, noon, NearlyUsedUp, noon.Add(time.Hour), 0},
		"met, the windows tell the end":  {&SeedAccount{SeedQuota: SeedQuota{Met: noon}, Limits: limits(noon, 99, resets, "")}, noon, UsedUp, resets, 99},
		"an end in the year 30,000":      {&SeedAccount{SeedQuota: SeedQuota{Met: noon, Until: noon.AddDate(28000, 0, 0)}}, noon, UsedUp, noon.Add(longestAvoided), 0},
		"more than all, and a false end": {&SeedAccount{Limits: &RateLimits{Primary: &RateWindow{UsedPercent: 1 << 30, ResetsAt: 1 << 62}, AtMS: noon.UnixMilli()}}, noon, NearlyUsedUp, noon.Add(time.Hour), 100},
	} {
		got := c.account.Use(c.at)
		if got.State != c.state || !got.Until.Equal(c.until) || got.Percent != c.percent {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestOnlyNewerNewsOfAnAccountCount(t *testing.T) {
	resets := noon.Add(2 * time.Hour)
	a := SeedAccount{Identity: "ann@example.com", Plan: "plus"}
	a.Learn(SeedUse{Limits: limits(noon, 50, resets, ""), SeedQuota: SeedQuota{Met: noon, Until: resets}}, time.Time{})
	a.Learn(SeedUse{Limits: limits(noon.Add(-time.Minute), 20, resets, ""), SeedQuota: SeedQuota{Met: noon.Add(-time.Hour)}}, noon.Add(-time.Hour))
	if a.Limits.Primary.UsedPercent != 50 || !a.Until.Equal(resets) {
		t.Errorf("older news count: %+v", a)
	}
	b := a
	if b.Learn(SeedUse{}, noon.Add(time.Minute)); !b.Met.IsZero() {
		t.Errorf("a turn that completed later leaves it used up: %+v", b)
	}
	b = a
	b.Read(SeedAccount{Plan: "pro", Limits: limits(noon.Add(time.Minute), 3, resets, "")})
	if !b.Met.IsZero() || b.Plan != "pro" || b.Identity != "ann@example.com" || b.Limits.Primary.UsedPercent != 3 {
		t.Errorf("a verification that finds room leaves %+v", b)
	}
	b.Read(SeedAccount{Identity: strings.Repeat("é", 500)})
	if len(b.Identity) > maxAccountWord || strings.Contains(b.Identity, "\uFFFD") || b.Limits == nil {
		t.Errorf("a long identity gives %q", b.Identity)
	}
	v := a.View(noon)
	if v.Identity != "ann@example.com" || *v.UsedPercent != 50 || !v.ResetsAt.Equal(resets) || v.State != UsedUp || !v.Until.Equal(resets) {
		t.Errorf("it is shown as %+v", v)
	}
	if (&SeedAccount{}).View(noon) != nil {
		t.Error("an account of which nothing is known is shown")
	}
}

func TestAViewTakesOnlyNewerLimits(t *testing.T) {
	resets := noon.Add(2 * time.Hour)
	a := SeedAccount{Identity: "ann@example.com", Limits: limits(noon, 50, resets, ""), SeedQuota: SeedQuota{Met: noon, Until: resets}}
	v := a.View(noon)
	if got := v.With(ViewRateLimits(limits(noon, 70, resets, "")), noon); *got.UsedPercent != 50 {
		t.Errorf("limits that are not newer give %d", *got.UsedPercent)
	}
	if got := v.With(ViewRateLimits(limits(noon.Add(time.Minute), 70, resets, "")), noon.Add(time.Minute)); *got.UsedPercent != 70 || got.Identity != "ann@example.com" || got.State != UsedUp {
		t.Errorf("newer limits give %+v", got)
	}
	var none *SeedAccountView
	if got := none.With(ViewRateLimits(limits(noon, 96, resets, "")), noon); got.State != NearlyUsedUp || none.With(nil, noon) != nil {
		t.Errorf("the first limits give %+v", got)
	}
}
