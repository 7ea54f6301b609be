package notify

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"fairlead.dev/fairlead/internal/lab/receivers"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/internal/realparts"
)

const small = `channels:
  hook: {kind: webhook, url: "http://127.0.0.1:1/x", secret_file: s}
  post: {kind: mail, server: "127.0.0.1:25", tls: none, from: f@example.com}
people:
  - {name: ann, mail: ann@example.com, quiet: {from: "22:00", to: "07:00", zone: Europe/Berlin}}
rules:
  - {name: all, events: [approval.opened, approval.expiring], before: 10m, to: [ann, "channel:hook"]}
`

func parsed(t *testing.T, text string) *Rules {
	t.Helper()
	r, err := Parse([]byte(text), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestTheRulesOfTheHowToAreRight(t *testing.T) {
	page, err := os.ReadFile(realparts.Path(t, "docs", "how-to", "get-notified.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(page), "```yaml\n")
	text, _, found := strings.Cut(text, "```")
	if !found {
		t.Fatal("the page shows no rules")
	}
	parsed(t, text)
}

func TestEveryMistakeIsToldWithItsLine(t *testing.T) {
	for text, want := range map[string]string{
		strings.Replace(small, "kind: mail", "kind: letter", 1):                   "line 3: channels.post.kind: kind is one of",
		strings.Replace(small, "secret_file: s", "token_file: s", 1):              "line 2: channels.hook.token_file: a channel of kind webhook has no such key",
		strings.Replace(small, "http://127.0.0.1:1/x", "http://example.com/x", 1): "line 2: channels.hook.url",
		strings.Replace(small, "Europe/Berlin", "Europe/Berlim", 1):               "line 5: people[0].quiet.zone: want a time zone",
		strings.Replace(small, "approval.opened", "approval.open", 1):             "line 7: rules[0].events[0]: it is none of",
		strings.Replace(small, "before: 10m, ", "", 1):                            "line 7: rules[0]: approval.expiring needs before",
		strings.Replace(small, "to: [ann,", "to: [bob,", 1):                       "line 7: rules[0].to[0]: bob is none of the people",
		strings.Replace(small, "channel:hook", "channel:post", 1):                 "line 7: rules[0].to[1]: channel post does not say where",
		small + "colour: red\n":                                                   "line 8: colour: no such key",
		small + "allow_private: [10.0.0.0/99]\n":                                  "line 8: allow_private[0]: want an IP address",
		small + "limit: {messages: 0}\n":                                          "line 8: limit: messages is between",
		chat("decide: true"):                                                      "decide: it needs app_token_file",
		chat("decide: true, app_token_file: a"):                                   "decide: Slack then shows the command that is accepted, so it needs details: summary",
		"details: summary\n" + chat("app_token_file: a"):                          "app_token_file: it is only for channels with decide: true",
	} {
		_, err := Parse([]byte(text), ".")
		var broken *BrokenError
		if !errors.As(err, &broken) || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
}

func TestARuleThatMakesTooManyNoticesOfOneEventIsRefused(t *testing.T) {
	text := func(people int) string {
		all, members := "", ""
		for i := range people {
			all += fmt.Sprintf("  - {name: p%d, mail: p@example.com, slack: U01}\n", i)
			members += fmt.Sprintf("p%d, ", i)
		}
		return "channels:\n  post: {kind: mail, server: \"127.0.0.1:25\", from: f@example.com}\n  chat: {kind: slack, token_file: t}\npeople:\n" + all +
			"teams:\n  - {name: all, members: [" + members + "]}\nrules:\n  - {name: many, events: [approval.opened], to: [\"team:all\", p0]}\n"
	}
	parsed(t, text(MaxNotices/2))
	if _, err := Parse([]byte(text(MaxNotices/2+1)), "."); err == nil || !strings.Contains(err.Error(), "rule many makes 402 notices of one event") {
		t.Errorf("the error is %v", err)
	}
}

func TestQuietHoursHoldANoticeUntilTheyEnd(t *testing.T) {
	e := protocol.NotifyEvent{Key: "k", Kind: protocol.EventApprovalOpened, Session: "s1", Approval: "s1.1"}
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ now, until string }{
		{"2026-11-29 21:59", ""}, {"2026-11-29 22:00", "2026-11-30 07:00"}, {"2026-11-30 06:59", "2026-11-30 07:00"}, {"2026-11-30 07:00", ""},
		{"2026-10-25 01:30", "2026-10-25 07:00"}, // the clock is moved in this night
	} {
		now, err := time.ParseInLocation("2006-01-02 15:04", c.now, berlin)
		if err != nil {
			t.Fatal(err)
		}
		all := parsed(t, small).Plan(e, Facts{}, 0, now)
		if len(all) != 2 {
			t.Fatalf("the notices are %+v", all)
		}
		got := ""
		if at := all[0].NotBefore; !at.IsZero() {
			got = at.In(berlin).Format("2006-01-02 15:04")
		}
		if got != c.until || all[0].State != protocol.NoticePending || !all[1].NotBefore.IsZero() {
			t.Errorf("at %s, a notice is held until %q, want %q", c.now, got, c.until)
		}
	}
	dropped := parsed(t, strings.Replace(small, `zone: Europe/Berlin`, `then: drop`, 1)).Plan(e, Facts{}, 0, time.Date(2026, 1, 1, 23, 0, 0, 0, time.UTC))
	if dropped[0].State != protocol.NoticeSuppressed || dropped[0].Reason != "quiet hours" {
		t.Errorf("the notice is %+v", dropped[0])
	}
}

// Whoever has the inbox open is told of a new approval only if it is still open some time later, well
// before it expires. What is urgent, about to expire, or not for a person is told at once.
func TestWhoeverHasTheInboxOpenIsNotToldAtOnce(t *testing.T) {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	f := Facts{Looks: func(person string) bool { return person == "ann" }}
	opened := protocol.NotifyEvent{Key: "k", Kind: protocol.EventApprovalOpened}
	expires := func(in time.Duration) protocol.NotifyEvent {
		e := opened
		e.ExpiresAt = now.Add(in)
		return e
	}
	for _, c := range []struct {
		rules string
		e     protocol.NotifyEvent
		f     Facts
		lead  time.Duration
		hold  time.Duration
	}{
		{small, opened, f, 0, 2 * time.Minute},
		{small, opened, Facts{}, 0, 0},
		{small + "looking: 5m\n", opened, f, 0, 5 * time.Minute},
		{small + "looking: 0s\n", opened, f, 0, 0},
		{small, expires(time.Hour), f, 0, 2 * time.Minute},
		{small, expires(8 * time.Minute), f, 0, 2 * time.Minute},
		{small, expires(2 * time.Minute), f, 0, 30 * time.Second},
		{small + "looking: 1h\n", expires(time.Hour), f, 0, 15 * time.Minute},
		{small, expires(20 * time.Second), f, 0, 5 * time.Second},
		{small, expires(19 * time.Second), f, 0, 0},
		{small, expires(-time.Second), f, 0, 0},
		{small + "looking: 2s\n", opened, f, 0, 2 * time.Second},
		{small + "looking: 2s\n", expires(time.Hour), f, 0, 2 * time.Second},
		{small + "  - {name: urgent, events: [approval.opened], to: [ann], urgent: true}\n", opened, f, 0, 0},
		{small, protocol.NotifyEvent{Key: "k", Kind: protocol.EventApprovalExpiring}, f, 10 * time.Minute, 0},
	} {
		all := parsed(t, c.rules).Plan(c.e, c.f, c.lead, now)
		held := time.Duration(0)
		if len(all) > 0 && !all[0].NotBefore.IsZero() {
			held = all[0].NotBefore.Sub(now)
		}
		if len(all) != 2 || all[0].Person != "ann" || all[0].State != protocol.NoticePending || held != c.hold || !all[1].NotBefore.IsZero() {
			t.Errorf("held back for %s, want %s: %+v", held, c.hold, all)
		}
	}
	if _, err := Parse([]byte(small+"looking: 2h\n"), "."); err == nil || !strings.Contains(err.Error(), "looking: 2h0m0s is not between") {
		t.Errorf("the error is %v", err)
	}
}

func TestTwoRulesTellAPersonOnce(t *testing.T) {
	r := parsed(t, small+"  - {name: urgent, events: [approval.opened], to: [ann], urgent: true}\n")
	all := r.Plan(protocol.NotifyEvent{Key: "k", Kind: protocol.EventApprovalOpened}, Facts{}, 0, time.Date(2026, 1, 1, 23, 0, 0, 0, time.UTC))
	if len(all) != 2 || all[0].Rule != "urgent" || !all[0].NotBefore.IsZero() {
		t.Errorf("the notices are %+v", all)
	}
}

func TestPrivateAddressesAreRefusedUnlessAllowed(t *testing.T) {
	r := parsed(t, small+"allow_private: [10.1.0.0/16, \"::1\"]\n")
	for _, ip := range []string{"127.0.0.1", "10.2.0.1", "192.168.1.1", "172.16.0.1", "169.254.169.254", "100.64.0.1", "0.0.0.0", "::ffff:127.0.0.1", "fe80::1", "fd00::1", "64:ff9b::7f00:1", "224.0.0.1", "::"} {
		if r.allowed(netip.MustParseAddr(ip)) == nil {
			t.Errorf("%s is allowed", ip)
		}
	}
	for _, ip := range []string{"10.1.2.3", "::1", "1.1.1.1", "2606:4700::1111"} {
		if err := r.allowed(netip.MustParseAddr(ip)); err != nil {
			t.Errorf("%s: %v", ip, err)
		}
	}
}

// sends sends a message to a webhook by a name that resolves to this machine.
func sends(t *testing.T, h *receivers.HTTP, more string) Outcome {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "s"), []byte("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := Parse([]byte(strings.Replace(small, "http://127.0.0.1:1", strings.Replace(h.URL, "127.0.0.1", "localhost", 1), 1)+more), dir)
	if err != nil {
		t.Fatal(err)
	}
	s := Sender{Now: time.Now}
	o, err := s.Send(context.Background(), r, "hook", Message{ID: "msg_1", At: time.Now(), Events: []Told{{NotifyEvent: protocol.NotifyEvent{Kind: protocol.EventTest}}}})
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func TestAWebhookInAPrivateRangeIsRefusedAfterItsNameIsResolved(t *testing.T) {
	h := receivers.NewWebhook()
	defer h.Close()
	if o := sends(t, h, ""); o.Result != Failed || !strings.Contains(o.Reason, "private") || len(h.Got()) != 0 {
		t.Errorf("the outcome is %+v, and %d messages came", o, len(h.Got()))
	}
	if o := sends(t, h, "allow_private: [127.0.0.0/8, \"::1\"]\n"); o.Result != Sent {
		t.Errorf("the outcome is %+v", o)
	}
	h.Fail(&receivers.Fault{Status: 302})
	if o := sends(t, h, "allow_private: [127.0.0.0/8, \"::1\"]\n"); o.Result != Failed || !strings.Contains(o.Reason, "redirects") {
		t.Errorf("the outcome of a redirect is %+v", o)
	}
}

func TestAKeeperGoesOnWithTheLastGoodRulesWhateverTheClockDoes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rules.yaml")
	write := func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(small)
	k, err := Open(path, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	k.now = func() time.Time { return now }
	good := k.Current().Digest
	write("channels: [\n")
	now = now.Add(reread)
	if k.Current().Digest != good || k.Standing().Broken == "" {
		t.Errorf("the rules in force are %+v", k.Standing())
	}
	write(small + "retry_for: 1h\n")
	now = now.Add(-time.Hour) // the clock is set back
	if s := k.Standing(); s.Broken != "" || s.Digest == good {
		t.Errorf("the rules in force are %+v", s)
	}
}

func TestAServiceThatDialsByItselfDialsOnlyIfThatIsAllowed(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	var dialled atomic.Int32
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			dialled.Add(1)
			_ = c.Close()
		}
	}()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "u"), []byte("matrix://user:verysecret@"+l.Addr().String()+"/?rooms=!r&disableTLS=yes"), 0o600); err != nil {
		t.Fatal(err)
	}
	for more, want := range map[string]Result{"": Failed, ", unguarded: true": Retry} { // a login that fails is tried again
		dialled.Store(0)
		r, err := Parse([]byte("channels:\n  m: {kind: shoutrrr, url_file: u"+more+"}\n"), dir)
		if err != nil {
			t.Fatal(err)
		}
		s := Sender{Now: time.Now}
		o, err := s.Send(context.Background(), r, "m", Message{ID: "msg_1", Events: []Told{{NotifyEvent: protocol.NotifyEvent{Kind: protocol.EventTest}}}})
		if err != nil || o.Result != want || strings.Contains(o.Reason, "verysecret") || (dialled.Load() > 0) != (more != "") {
			t.Errorf("with %q, the outcome is %+v (%v), and it dialled %d times", more, o, err, dialled.Load())
		}
	}
}

func TestNoErrorHasASecretOrAnAddress(t *testing.T) {
	dir := t.TempDir()
	const url = "ntfy://:tk_verysecret@127.0.0.1:1/topic?scheme=http"
	if err := os.WriteFile(filepath.Join(dir, "u"), []byte(url), 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := Parse([]byte("channels:\n  n: {kind: shoutrrr, url_file: u}\nallow_private: [127.0.0.1]\n"), dir)
	if err != nil {
		t.Fatal(err)
	}
	s := Sender{Now: time.Now}
	o, err := s.Send(context.Background(), r, "n", Message{ID: "msg_1", Events: []Told{{NotifyEvent: protocol.NotifyEvent{Kind: protocol.EventTest}}}})
	if err != nil || o.Result != Retry || strings.Contains(o.Reason, "verysecret") {
		t.Errorf("the outcome is %+v (%v)", o, err)
	}
	if err := os.Chmod(filepath.Join(dir, "u"), 0o644); err != nil {
		t.Fatal(err)
	}
	if o, _ := s.Send(context.Background(), r, "n", Message{ID: "msg_1"}); o.Result != Retry || !strings.Contains(o.Reason, "chmod 600") {
		t.Errorf("with a file that others may read, the outcome is %+v", o)
	}
}
