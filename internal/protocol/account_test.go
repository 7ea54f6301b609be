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
	a.Learn(SeedUse{Limits: limits(noon, 50, resets, ""), SeedQuota: SeedQuota{Met: noon, Until: resets}}, time.Time{}, noon)
	a.Learn(SeedUse{Limits: limits(noon.Add(-time.Minute), 20, resets, ""), SeedQuota: SeedQuota{Met: noon.Add(-time.Hour)}}, noon.Add(-time.Hour), noon)
	if a.Limits.Primary.UsedPercent != 50 || !a.Until.Equal(resets) {
		t.Errorf("older news count: %+v", a)
	}
	b := a
	if b.Learn(SeedUse{}, noon.Add(time.Minute), noon.Add(time.Minute)); !b.Met.IsZero() {
		t.Errorf("a turn that completed later leaves it used up: %+v", b)
	}
	b = a
	b.Read(SeedAccount{Plan: "pro", Limits: limits(noon.Add(time.Minute), 3, resets, "")}, noon.Add(time.Minute))
	if !b.Met.IsZero() || b.Plan != "pro" || b.Identity != "ann@example.com" || b.Limits.Primary.UsedPercent != 3 {
		t.Errorf("a verification that finds room leaves %+v", b)
	}
	b.Read(SeedAccount{Identity: strings.Repeat("é", 500)}, noon)
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

func TestATimeThatAHostWroteCountsOnlyUntilNow(t *testing.T) {
	far := time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)
	lie := SeedUse{Limits: limits(far, 100, far, "rate_limit_reached"), SeedQuota: SeedQuota{Met: far, Until: far}}
	var a SeedAccount
	a.Learn(lie, far, noon)
	learned := noon.Add(longestAvoided)
	if u := a.Use(noon); u.State != UsedUp || u.Until.After(learned) || u.Resets.After(learned) {
		t.Errorf("at once it is %+v", u)
	}
	if u := a.Use(learned.Add(-time.Hour)); u.State != UsedUp || u.Until.After(learned) {
		t.Errorf("an hour before the end of 35 days it is %+v", u)
	}
	if u := a.Use(learned); u.State != "" {
		t.Errorf("35 days after it was learned it is %+v", u)
	}
	next := noon.Add(time.Minute)
	b := a
	if b.Learn(SeedUse{Limits: limits(next, 7, next.Add(time.Hour), "")}, next, next); b.Use(next).Percent != 10 || b.Use(next).State != "" {
		t.Errorf("after the news of another session it is %+v", b.Use(next))
	}
	b = a
	b.Read(SeedAccount{Limits: limits(noon.Add(-time.Minute), 3, noon.Add(time.Hour), "")}, next) // by a slow clock
	if u := b.Use(next); u.State != "" || u.Percent != 10 {
		t.Errorf("after a verification it is %+v", u)
	}
	b.Learn(SeedUse{Limits: lie.Limits, SeedQuota: SeedQuota{Met: noon, Until: far}}, time.Time{}, next)
	if u := b.Use(next); u.State != "" {
		t.Errorf("a session overrules the verification: %+v", u)
	}
	b.Read(SeedAccount{Limits: &RateLimits{Plan: "pro", AtMS: next.UnixMilli()}}, next)
	if b.Limits.Primary == nil {
		t.Error("a verification that read no windows takes away those that are known")
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
