package console

import (
	"fmt"
	"net/http"
	"net/url"
	"time"

	"fairlead.dev/fairlead/internal/protocol"
)

type seedList struct {
	Seeds []seedRow
	More  bool
}

// A seedRow is a seed with the windows of its account.
type seedRow struct {
	protocol.SeedView
	Windows []usageWindow
}

// A usageWindow is how much of an account is used, in one of its windows.
type usageWindow struct {
	Name   string
	Strip  strip
	Resets time.Time
}

func windowsOf(s protocol.SeedView) (all []usageWindow) {
	if s.Account == nil {
		return nil
	}
	all = windowsIn(s.Account.Limits)
	if len(all) == 0 && s.Account.UsedPercent != nil {
		u := usageWindow{Name: "window", Strip: percentStrip(*s.Account.UsedPercent)}
		if s.Account.ResetsAt != nil {
			u.Resets = *s.Account.ResetsAt
		}
		all = append(all, u)
	}
	return all
}

// windowsIn returns the windows that codex reported.
func windowsIn(l *protocol.RateLimitsView) (all []usageWindow) {
	if l == nil {
		return nil
	}
	for _, w := range []*protocol.RateWindowView{l.Primary, l.Secondary} {
		if w == nil {
			continue
		}
		u := usageWindow{Name: "window", Strip: percentStrip(w.UsedPercent), Resets: w.ResetsAt}
		if w.WindowMinutes > 0 {
			u.Name = windowName(w.WindowMinutes)
		}
		all = append(all, u)
	}
	return all
}

func windowName(minutes int64) string {
	switch {
	case minutes%(24*60) == 0:
		return fmt.Sprintf("%d days", minutes/(24*60))
	case minutes%60 == 0:
		return fmt.Sprintf("%d hours", minutes/60)
	}
	return fmt.Sprintf("%d minutes", minutes)
}

// seeds lists the seeds that the person may read: health, use and holders, never a secret.
func (v *visit) seeds() error {
	var page struct {
		Items  []protocol.SeedView `json:"items"`
		Cursor string              `json:"cursor"`
	}
	if err := v.get("/v1/seeds?limit=500", &page); err != nil {
		return err
	}
	list := seedList{More: page.Cursor != ""}
	for _, s := range page.Items {
		list.Seeds = append(list.Seeds, seedRow{s, windowsOf(s)})
	}
	return v.show(http.StatusOK, "seeds", "Seeds", "seeds", "/live?of=seeds", list)
}

func (v *visit) seed() error {
	var s protocol.SeedView
	if err := v.get("/v1/seeds/"+url.PathEscape(v.r.PathValue("name")), &s); err != nil {
		return err
	}
	return v.show(http.StatusOK, "seed", "Seed "+s.Name, "seeds", "/live?"+url.Values{"of": {"seed"}, "id": {s.Name}}.Encode(), seedRow{s, windowsOf(s)})
}
