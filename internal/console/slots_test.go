package console

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

func TestSlotsAreDrawnOverTime(t *testing.T) {
	begin := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	at := func(minutes int, slots, used, waiting int) SlotSample {
		return SlotSample{begin.Add(time.Duration(minutes) * time.Minute), slots, used, waiting}
	}
	g := graphOf([]SlotSample{at(0, 4, 1, 0), at(5, 4, 4, 2), at(8, 4, 2, 0)}, begin.Add(10*time.Minute))
	if g.Used != "M0.0 75.0H500.0V0.0H800.0V50.0H1000V100H0Z" || g.Waiting != "M0.0 100.0H500.0V50.0H800.0V100.0H1000" || g.Slots != "M0.0 0.0H500.0V0.0H800.0V0.0H1000" {
		t.Errorf("drawn: %+v", g)
	}
	if want := "slots from 2026-11-29 12:00:00 UTC to 2026-11-29 12:10:00 UTC: now 2 of 4 used, at most 4; at most 2 sessions waited"; g.Label != want {
		t.Errorf("it says %q", g.Label)
	}
	if graphOf(nil, begin) != nil {
		t.Error("nothing is drawn of nothing")
	}
	if one := graphOf([]SlotSample{at(0, 0, 0, 0)}, begin); one.Used != "M0.0 100.0H1000V100H0Z" {
		t.Errorf("one sample of a zone without slots: %q", one.Used)
	}
}

// The page has the pictures of the zones that the API shows to the person, and no others.
func TestAPageHasThePicturesOfZonesThatThePersonMaySee(t *testing.T) {
	f := fleet()
	c := newConsole(f)
	asked := ""
	c.opts.Slots = func(zone string) []SlotSample {
		asked += zone + " "
		return []SlotSample{{At: time.Now().Add(-time.Hour), Slots: 4, Used: 4}}
	}
	cookie := loggedIn(t, c, "ann")
	w := ask(c, "GET", "/hosts", cookie, nil)
	if body := w.Body.String(); w.Code != http.StatusOK || !strings.Contains(body, "now 3 of 4 used, at most 4") || asked != "eu " {
		t.Errorf("%d, asked for %q: %.600s", w.Code, asked, body)
	}
	delete(f.answers, "GET /v1/pools")
	asked = ""
	if w := ask(c, "GET", "/hosts", cookie, nil); w.Code != http.StatusOK || asked != "" {
		t.Errorf("%d, asked for %q", w.Code, asked)
	}
}
