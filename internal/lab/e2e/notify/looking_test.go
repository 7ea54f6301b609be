package notify

import (
	"strings"
	"testing"

	"fairlead.dev/fairlead/internal/lab/browser"
	"fairlead.dev/fairlead/internal/lab/e2e"
	"fairlead.dev/fairlead/internal/protocol"
)

// TestWhoeverHasTheInboxOpenInABrowserIsNotToldAtOnce: a request that comes while a person has the inbox open in
// a browser is held back from that person, and the log says why. Others are told at once.
func TestWhoeverHasTheInboxOpenInABrowserIsNotToldAtOnce(t *testing.T) {
	link := strings.TrimSpace(e2e.OK(t, "ui"))
	base, _, _ := strings.Cut(link, "/login")
	b := browser.Open(t, base, 1440, 900)
	b.GoTo(link)
	b.Sees("Inbox")
	// The first event of a stream comes after it is known that the person looks. The stream stays.
	browser.Eval[bool](b, `new Promise(done => { window.looks = new EventSource("/live?of=inbox"); looks.addEventListener("changed", () => done(true)); })`)
	ap := asks(t, "seen-now")
	b.Sees(ap.ID)
	var mine, others protocol.Notice
	e2e.Until(t, "both notices", func() (bool, error) {
		for _, n := range about(t, "seen-now") {
			if n.Person == "bob" {
				others = n
			} else {
				mine = n
			}
		}
		return mine.ID != "" && others.State == protocol.NoticeSent, nil
	})
	if mine.Person != ownerName() || mine.State != protocol.NoticePending || mine.NotBefore.IsZero() || mine.Reason != "the person has the inbox open" {
		t.Errorf("the notice for who looks is %+v", mine)
	}
	if got := mailed("owner@example.com", "seen-now"); len(got) > 0 {
		t.Errorf("who looks got %q", got)
	}
}
