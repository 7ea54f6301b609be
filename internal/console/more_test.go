package console

import (
	"fmt"
	"log/slog"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"fairlead.dev/fairlead/internal/lab/browser"
)

// The inbox opens with few cards. A person who comes to the last one, by keys or by scrolling, gets
// more cards. A card that somebody works in stays as it is.
func TestTheInboxShowsMoreCardsToWhoComesToItsEnd(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts Chromium")
	}
	const all = 2*fewCards + 5
	server := httptest.NewUnstartedServer(nil)
	addr := server.Listener.Addr().String()
	c := New(Options{API: &fakeAPI{answers: manyApprovals(all)}, Inbox: emptyInbox{}, Store: &memory{m: map[string][]byte{}}, Hosts: []string{addr}, URL: "http://" + addr,
		Cookie: "c", Logger: slog.New(slog.NewTextHandler(os.Stderr, nil)), Link: func() ([]byte, error) { return linkSecret, nil }})
	server.Config.Handler = c
	server.Start()
	defer server.Close()
	token, _ := NewLink(linkSecret, "ann", time.Now())
	b := browser.Open(t, server.URL, 1280, 800)
	defer server.CloseClientConnections() // the inbox follows a stream
	b.GoTo(LinkPath + "?token=" + token)
	cards := func() int { return browser.Eval[int](b, `document.querySelectorAll(".card").length`) }
	b.Sees(fmt.Sprintf("%d approvals wait", all), fmt.Sprintf("%d wait below", all-fewCards))
	if n := cards(); n != fewCards {
		t.Fatalf("the inbox opens with %d cards, want %d", n, fewCards)
	}
	browser.Eval[bool](b, `(document.querySelector(".card input[name=reason]").value = "half a word", true)`)
	browser.Eval[bool](b, `([...document.querySelectorAll(".card")].at(-1).focus(), true)`)
	b.Until("more cards", func() bool { return cards() == 2*fewCards })
	browser.Eval[bool](b, `(scrollTo(0, document.documentElement.scrollHeight), true)`)
	b.Until("all cards", func() bool { return cards() == all })
	if browser.Eval[bool](b, `!!document.querySelector("[data-more]")`) {
		t.Error("there is a link to more although all are shown")
	}
	if got := browser.Eval[string](b, `document.querySelector(".card input[name=reason]").value`); got != "half a word" {
		t.Errorf("what was typed is now %q", got)
	}
	if got := browser.Eval[string](b, `[...document.querySelectorAll(".card")].map(c => c.dataset.item).join(" ")`); len(strings.Fields(got)) != all {
		t.Errorf("cards are %s", got)
	}
}
