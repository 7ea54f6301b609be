package console

import (
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"fairlead.dev/fairlead/internal/protocol"
)

// A recentInbox knows open approvals, and remembers of which sessions it was told that they changed.
type recentInbox struct {
	emptyInbox
	open    []protocol.Approval
	stirred []string
}

func (b *recentInbox) Recent() ([]protocol.Approval, map[string]string, bool) {
	asks := map[string]string{}
	for _, ap := range b.open {
		asks[ap.Session] = ap.ID
	}
	return b.open, asks, true
}

func (b *recentInbox) Stir(session string) { b.stirred = append(b.stirred, session) }

func newRecentInbox(t *testing.T, n int) *recentInbox {
	t.Helper()
	var page struct{ Items []protocol.Approval }
	if err := json.Unmarshal([]byte(manyApprovals(n)["GET /v1/approvals"]), &page); err != nil || len(page.Items) != n {
		t.Fatal(len(page.Items), err)
	}
	for i := range page.Items {
		page.Items[i].Host = "web-1"
	}
	return &recentInbox{open: page.Items}
}

// An inbox of what is known asks nothing, shows each person only what that person may read, and says
// which state it shows.
func TestAnInboxOfWhatIsKnownAsksNothing(t *testing.T) {
	f := &fakeAPI{asked: func(at string) { t.Errorf("the API is asked: %s", at) }}
	c := newConsole(f)
	known := newRecentInbox(t, 3)
	c.opts.Inbox = known
	cookie := loggedIn(t, c, "ann")
	f.reads = func(session string) bool { return session != "session-1" }
	w := ask(c, "GET", "/", cookie, nil)
	page := w.Body.String()
	if w.Code != http.StatusOK || !strings.Contains(page, "session-0.1") || !strings.Contains(page, "session-2.1") || strings.Contains(page, "data-shows=\"\"") || !strings.Contains(page, "data-shows=") {
		t.Errorf("status %d: %s", w.Code, page)
	}
	if strings.Contains(page, "session-1") {
		t.Error("the page shows what the person may not read")
	}
	if known.open[0].ID != "session-0.1" || len(known.open) != 3 {
		t.Errorf("the page changed what is known to %v", known.open)
	}
}

// After a decision, the session counts as changed: the inbox asks before it shows it again.
func TestADecisionChangesWhatIsKnown(t *testing.T) {
	known := newRecentInbox(t, 1)
	ap, err := json.Marshal(known.open[0])
	if err != nil {
		t.Fatal(err)
	}
	f := &fakeAPI{answers: map[string]string{"GET /v1/approvals/session-0.1": string(ap), "POST /v1/approvals/session-0.1/decision": string(ap)}}
	c := newConsole(f)
	c.opts.Inbox = known
	form := url.Values{"digest": {known.open[0].Digest}, "outcome": {"decline"}, "key": {newKey()}}
	if w := ask(c, "POST", "/approvals/session-0.1/decision", loggedIn(t, c, "ann"), form); w.Code != http.StatusSeeOther {
		t.Fatalf("the decision is answered %d %s", w.Code, w.Body)
	}
	if !slices.Equal(known.stirred, []string{"session-0"}) {
		t.Errorf("changed are %q", known.stirred)
	}
}
