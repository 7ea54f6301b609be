package console

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// A change of thousands of files is on the page of its approval, whole, and in a size that a browser
// can hold. Nobody is offered to accept one that the page cuts.
func TestACardOfThousandsOfFilesIsWholeOrNotAccepted(t *testing.T) {
	for lines, accepts := range map[int]bool{1: true, 5: false} {
		var changes []string
		for i := range 5000 {
			changes = append(changes, fmt.Sprintf(`{"path":"f%d.txt","kind":"add","diff":"%s"}`, i, strings.Repeat("made by codex\\n", lines)))
		}
		ap := `{"id":"s.1","session":"s","kind":"file_change","state":"open","digest":"` + strings.Repeat("0", 64) + `","digest_check":"given","offered":["accept","decline"],"changes":[` + strings.Join(changes, ",") + `]}`
		c := newConsole(&fakeAPI{answers: map[string]string{"GET /v1/approvals/s.1": ap, "GET /v1/sessions/s": `{"id":"s","state":"waiting"}`}})
		w := ask(c, "GET", "/approvals/s.1", loggedIn(t, c, "ann"), nil)
		body := w.Body.String()
		if w.Code != http.StatusOK || !strings.Contains(body, "5000 files") || !strings.Contains(body, "f4999.txt") {
			t.Errorf("%d lines each: %d %.300s", lines, w.Code, body)
		}
		if got := strings.Contains(body, "data-accept"); got != accepts || len(body) > 8<<20 {
			t.Errorf("%d lines each: accept is offered: %t; the page has %d bytes", lines, got, len(body))
		}
	}
}
