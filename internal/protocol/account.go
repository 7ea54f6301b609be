package protocol

import (
	"time"
)

// SeedAccount is what is known of the account of a ChatGPT login.
type SeedAccount struct {
	// Identity is the e-mail address that the login's own claims name, or the account's id.
	Identity string `json:"identity,omitempty"`
	Plan     string `json:"plan,omitempty"`
	// Limits are the newest usage windows that a session or a verification has seen.
	Limits *RateLimits `json:"limits,omitempty"`
	// ReadAt is when a verification last read the limits.
	ReadAt time.Time `json:"read_at,omitzero"`
	SeedQuota
}

// SeedQuota says that a turn with a seed met the end of its quota.
type SeedQuota struct {
	// Met is when that was; zero means that nothing is known.
	Met time.Time `json:"met,omitzero"`
	// Until is when the quota is there again; zero means that codex did not say.
	Until time.Time `json:"until,omitzero"`
}

// SeedUse is what a session saw of the use of its seed.
type SeedUse struct {
	Limits *RateLimits `json:"limits,omitempty"`
	SeedQuota
}

// States of an account.
const (
	// NearlyUsedUp means that pools lend the login only if no other is better.
	NearlyUsedUp = "nearly_used_up"
	// UsedUp means that pools do not lend the login before its window resets.
	UsedUp = "used_up"
)

const (
	// NearlyUsedPercent is the percentage from which a window counts as nearly used up.
	NearlyUsedPercent = 95
	// UnknownQuotaEnd is how long pools avoid a seed whose quota ended, if codex did not
	// say when it is there again.
	UnknownQuotaEnd = time.Hour
	// longestAvoided bounds how long pools avoid a seed on what codex said on a host, from when
	// that was learned.
	longestAvoided = 35 * 24 * time.Hour
	// maxResetsAt, in seconds since 1970, is from when on an end of a window is none.
	maxResetsAt = 1 << 40
)

// An AccountUse is the use of an account at one time.
type AccountUse struct {
	State   string    // "", NearlyUsedUp or UsedUp
	Until   time.Time // end of that state
	Percent int       // of the window that is used most, if Known
	Resets  time.Time // end of that window; zero if not known
	Known   bool
}

// Use returns the use of an account now. A window that has reset counts as unused.
func (a *SeedAccount) Use(now time.Time) AccountUse {
	var u AccountUse
	if a == nil {
		return u
	}
	full := time.Time{} // when no window is nearly used up any more
	if l := a.Limits; l != nil {
		at := time.UnixMilli(l.AtMS)
		for _, w := range []*RateWindow{l.Primary, l.Secondary} {
			if w == nil {
				continue
			}
			ends, known := w.ends(at)
			if most := at.Add(longestAvoided); ends.After(most) {
				ends = most
			}
			used := min(max(w.UsedPercent, 0), 100)
			if !ends.After(now) {
				used, known = 0, false
			}
			if !u.Known || used > u.Percent {
				u.Percent, u.Resets = used, time.Time{}
				if known {
					u.Resets = ends
				}
			}
			u.Known = true
			if used >= NearlyUsedPercent && ends.After(full) {
				full = ends
			}
		}
		switch {
		case !full.IsZero():
			u.State, u.Until = NearlyUsedUp, full
			if l.Reached != "" {
				u.State = UsedUp
			}
		case l.Reached != "" && now.Before(at.Add(UnknownQuotaEnd)) && !u.Known:
			u.State, u.Until = NearlyUsedUp, at.Add(UnknownQuotaEnd)
		}
	}
	until := a.Until
	if most := a.Met.Add(longestAvoided); until.After(most) {
		until = most
	}
	switch {
	case a.Met.IsZero():
	case until.After(now):
		u.State, u.Until = UsedUp, later(until, full)
	case a.Until.IsZero() && !full.IsZero():
		u.State = UsedUp
	case a.Until.IsZero() && u.State == "" && now.Before(a.Met.Add(UnknownQuotaEnd)):
		u.State, u.Until = NearlyUsedUp, a.Met.Add(UnknownQuotaEnd)
	}
	u.Until, u.Resets = u.Until.UTC(), u.Resets.UTC()
	return u
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// ends returns when a window that was reported at a time ends. Without a word about it, it
// ends a window's length after that.
func (w *RateWindow) ends(at time.Time) (ends time.Time, known bool) {
	switch {
	case w.ResetsAt > 0 && w.ResetsAt < maxResetsAt:
		return time.Unix(w.ResetsAt, 0), true
	case w.WindowMinutes > 0 && w.WindowMinutes <= int64(longestAvoided/time.Minute):
		return at.Add(time.Duration(w.WindowMinutes) * time.Minute), false
	}
	return at.Add(UnknownQuotaEnd), false
}

// Learn takes what a session saw. Proven is the start of the newest turn that completed
// with the seed. Older news, and those from before a verification, change nothing. A host wrote these times: those after now count
// as now, and none is further ahead than longestAvoided.
func (a *SeedAccount) Learn(u SeedUse, proven, now time.Time) {
	if l := u.Limits.bounded(now); l != nil && time.UnixMilli(l.AtMS).After(a.ReadAt) && (a.Limits == nil || l.AtMS >= a.Limits.AtMS) {
		a.Limits = l
		if l.Plan != "" {
			a.Plan = l.Plan
		}
	}
	if met := earlier(u.Met, now); met.After(a.Met) && met.After(a.ReadAt) {
		a.SeedQuota = SeedQuota{Met: met, Until: earlier(u.Until, now.Add(longestAvoided))}
	}
	if earlier(proven, now).After(a.Met) {
		a.SeedQuota = SeedQuota{}
	}
}

// Read takes what a verification read: the account's own word, which replaces all that
// sessions saw. An answer without limits leaves those that are known.
func (a *SeedAccount) Read(said SeedAccount, now time.Time) {
	if said.Identity != "" {
		a.Identity = cutWord(said.Identity)
	}
	if said.Plan != "" {
		a.Plan = cutWord(said.Plan)
	}
	if l := said.Limits.bounded(now); l != nil && (l.Primary != nil || l.Secondary != nil || l.Reached != "") {
		a.Limits, a.SeedQuota, a.ReadAt = l, SeedQuota{}, now
	}
}

// maxAccountWord bounds each word of an account, in bytes.
const maxAccountWord = 200

func cutWord(s string) string {
	if len(s) <= maxAccountWord {
		return s
	}
	for n := maxAccountWord; ; n-- {
		if s[n]&0xc0 != 0x80 { // the start of a character
			return s[:n]
		}
	}
}

// bounded returns limits as they are kept if they are learned now.
func (l *RateLimits) bounded(now time.Time) *RateLimits {
	if l == nil {
		return nil
	}
	b := *l
	b.Plan, b.Reached = cutWord(l.Plan), cutWord(l.Reached)
	b.AtMS = min(l.AtMS, now.UnixMilli())
	b.Primary, b.Secondary = l.Primary.bounded(now), l.Secondary.bounded(now)
	return &b
}

func (w *RateWindow) bounded(now time.Time) *RateWindow {
	if w == nil {
		return nil
	}
	b := *w
	if b.ResetsAt < maxResetsAt {
		b.ResetsAt = min(b.ResetsAt, now.Add(longestAvoided).Unix())
	}
	return &b
}

// SeedAccountView shows what is known of the account of a seed's login.
type SeedAccountView struct {
	Identity string `json:"identity,omitempty"`
	Plan     string `json:"plan,omitempty"`
	// UsedPercent and ResetsAt are of the window that is used most.
	UsedPercent *int       `json:"used_percent,omitempty"`
	ResetsAt    *time.Time `json:"resets_at,omitempty"`
	// State is nearly_used_up, used_up, or empty; Until is when that ends.
	State  string          `json:"state,omitempty"`
	Until  *time.Time      `json:"until,omitempty"`
	Limits *RateLimitsView `json:"rate_limits,omitempty"`
}

// View returns nil if nothing is known.
func (a *SeedAccount) View(now time.Time) *SeedAccountView {
	if a == nil || *a == (SeedAccount{}) {
		return nil
	}
	u := a.Use(now)
	v := &SeedAccountView{Identity: a.Identity, Plan: a.Plan, State: u.State, Limits: ViewRateLimits(a.Limits)}
	if u.Known {
		v.UsedPercent = &u.Percent
	}
	if !u.Resets.IsZero() {
		v.ResetsAt = &u.Resets
	}
	if u.State != "" {
		v.Until = &u.Until
	}
	return v
}

// With returns v with limits that are newer than those it has.
func (v *SeedAccountView) With(l *RateLimitsView, now time.Time) *SeedAccountView {
	if l == nil || v != nil && v.Limits != nil && !l.At.After(v.Limits.At) {
		return v
	}
	var out SeedAccountView
	if v != nil {
		out = *v
	}
	a := SeedAccount{Identity: out.Identity, Plan: out.Plan}
	a.Learn(SeedUse{Limits: l.limits()}, time.Time{}, now)
	fresh := a.View(now)
	if out.State != "" && out.Until != nil && out.Until.After(now) && fresh.State == "" {
		fresh.State, fresh.Until = out.State, out.Until
	}
	return fresh
}

func (l *RateLimitsView) limits() *RateLimits {
	ours := func(w *RateWindowView) *RateWindow {
		if w == nil {
			return nil
		}
		o := &RateWindow{UsedPercent: w.UsedPercent, WindowMinutes: w.WindowMinutes}
		if !w.ResetsAt.IsZero() {
			o.ResetsAt = w.ResetsAt.Unix()
		}
		return o
	}
	return &RateLimits{Primary: ours(l.Primary), Secondary: ours(l.Secondary), Plan: l.Plan, Reached: l.Reached, AtMS: l.At.UnixMilli()}
}
