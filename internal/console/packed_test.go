package console

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
)

// TestAnInboxWith200ApprovalsIsSmall: 120 KB over the wire in all, with one request for each kind of
// file. Each of the commands, digests and reasons is another one.
func TestAnInboxWith200ApprovalsIsSmall(t *testing.T) {
	c := newConsole(&fakeAPI{answers: manyApprovals(200)})
	cookie := loggedIn(t, c, "ann")
	total, kinds := 0, map[string]int{}
	get := func(path string) string {
		w := ask(c, "GET", path, cookie, nil, "Accept-Encoding", "gzip, deflate, br, zstd")
		if w.Code != http.StatusOK || w.Header().Get("Content-Encoding") != "gzip" && w.Body.Len() >= leastPacked {
			t.Fatalf("%s: %d, %v", path, w.Code, w.Header())
		}
		total += w.Body.Len()
		kinds[w.Header().Get("Content-Type")]++
		if w.Header().Get("Content-Encoding") != "gzip" {
			return w.Body.String()
		}
		z, err := gzip.NewReader(bytes.NewReader(w.Body.Bytes()))
		if err != nil {
			t.Fatal(err)
		}
		raw, err := io.ReadAll(z)
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	page := get("/?cards=200")
	if n := strings.Count(page, `class="card `); n != 200 {
		t.Fatalf("the inbox has %d cards", n)
	}
	for path, want := range map[string]int{"/": fewCards, "/?cards=60": 60, "/?cards=0": fewCards, "/?cards=100000": maxCards, "/?cards=many": fewCards} {
		few := ask(c, "GET", path, cookie, nil).Body.String()
		if n := strings.Count(few, `class="card `); n != want || !strings.Contains(few, "200 approvals wait") || strings.Contains(few, "data-more") != (want < 200) {
			t.Errorf("%s has %d cards, want %d, and a link to more", path, n, want)
		}
	}
	for _, m := range regexp.MustCompile(`(?:src|href)="(/assets/[^"]+)"`).FindAllStringSubmatch(page, -1) {
		get(m[1])
	}
	for kind, n := range kinds {
		if n > 1 {
			t.Errorf("%d requests for %s", n, kind)
		}
	}
	if total > 120_000 {
		t.Errorf("the inbox has %d bytes over the wire", total)
	}
	t.Logf("%d bytes over the wire, %d of HTML without compression, %d kinds", total, len(page), len(kinds))
}

// manyApprovals are answers of the API with n open approvals, each of a session of its own.
func manyApprovals(n int) map[string]string {
	var items []string
	answers := map[string]string{}
	for i := range n {
		word := func(n int) string {
			sum := sha256.Sum256(fmt.Appendf(nil, "%d %d", i, n))
			return hex.EncodeToString(sum[:])
		}
		session := fmt.Sprintf("session-%d", i)
		items = append(items, fmt.Sprintf(`{"id":"%s.1","session":"%s","turn":1,"kind":"command","summary":"make %s","command":"cd /srv/%.8s && make %.12s && ./run --with %.16s","cwd":"/srv/%[4]s","reason":"to find out whether %.12[5]s holds","digest":"%[7]s","digest_check":"given","offered":["accept","accept_for_session","decline","cancel"],"state":"open","asked_at":"2026-01-01T00:%02d:00Z","expires_at":"2099-01-01T00:%02[8]d:00Z"}`,
			session, session, word(1), word(2), word(3), word(4), word(5), i%60))
		answers["GET /v1/sessions/"+session] = fmt.Sprintf(`{"id":%q,"state":"waiting","host":"web-%d","options":{"sandbox":"workspace-write"}}`, session, i%7)
	}
	answers["GET /v1/approvals"] = `{"items":[` + strings.Join(items, ",") + `]}`
	return answers
}

func TestWhoTakesNoGzipGetsNone(t *testing.T) {
	c := newConsole(&fakeAPI{answers: map[string]string{"GET /v1/approvals": `{"items":[]}`}})
	cookie := loggedIn(t, c, "ann")
	for accepts, packed := range map[string]bool{"": false, "br": false, "gzip;q=0": false, "gzip; q=0.000": false, "br, GZIP;q=0.5": true, "gzip": true, "xgzip": false} {
		w := ask(c, "GET", "/", cookie, nil, "Accept-Encoding", accepts)
		if got := w.Header().Get("Content-Encoding") == "gzip"; got != packed || w.Header().Get("Vary") == "" {
			t.Errorf("Accept-Encoding %q: compressed %t, %v", accepts, got, w.Header())
		}
	}
}
