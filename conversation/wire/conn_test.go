package wire

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A peer is the other end of a Conn, driven by hand.
type peer struct {
	t    *testing.T
	pipe net.Conn
	in   *bufio.Reader
}

func connect(t *testing.T, cfg ConnConfig) (*Conn, *peer) {
	t.Helper()
	a, b := net.Pipe()
	c := NewConn(a, cfg)
	t.Cleanup(func() { c.Close(); b.Close() })
	return c, &peer{t: t, pipe: b, in: bufio.NewReader(b)}
}

func (p *peer) say(lines ...string) {
	p.t.Helper()
	for _, l := range lines {
		if _, err := p.pipe.Write([]byte(l + "\n")); err != nil {
			p.t.Error(err)
		}
	}
}

func (p *peer) hear() string {
	p.t.Helper()
	line, err := p.in.ReadString('\n')
	if err != nil {
		p.t.Error(err)
	}
	return strings.TrimSuffix(line, "\n")
}

func TestCallGetsItsOwnAnswer(t *testing.T) {
	c, p := connect(t, ConnConfig{})
	go func() {
		one, two := p.hear(), p.hear()
		if strings.Contains(one, "jsonrpc") {
			t.Errorf("the wire has no jsonrpc member: %s", one)
		}
		var a, b Message
		if json.Unmarshal([]byte(one), &a) != nil || json.Unmarshal([]byte(two), &b) != nil {
			t.Errorf("not JSON: %s, %s", one, two)
		}
		// The answers come in the other order, and one of them is an error.
		p.say(`{"id":`+string(b.ID)+`,"result":"`+b.Method+`"}`, `{"id":`+string(a.ID)+`,"error":{"code":-32600,"message":"no `+a.Method+`"}}`)
	}()
	got := make(chan string, 2)
	for _, method := range []string{"first", "second"} {
		go func() {
			var s string
			err := c.Call(t.Context(), method, nil, &s)
			var e *RPCError
			if errors.As(err, &e) {
				s = e.Message
			} else if err != nil {
				t.Error(err)
			}
			got <- method + ": " + s
		}()
	}
	all := []string{<-got, <-got}
	slices.Sort(all)
	if all[0] != "first: first" && all[0] != "first: no first" || all[1] != "second: second" && all[1] != "second: no second" {
		t.Errorf("answers %q", all)
	}
}

func TestNotificationsKeepTheOrderOfTheWire(t *testing.T) {
	const n = 5000
	var got []int
	done := make(chan struct{})
	_, p := connect(t, ConnConfig{Notify: func(method string, params json.RawMessage) {
		var i int
		if err := json.Unmarshal(params, &i); err != nil {
			t.Error(err)
		}
		if got = append(got, i); len(got) == n {
			close(done)
		}
	}})
	for i := range n {
		p.say(fmt.Sprintf(`{"method":"n","params":%d}`, i))
	}
	<-done
	if !slices.IsSorted(got) {
		t.Error("notifications changed places")
	}
}

func TestHandlerMayCallBack(t *testing.T) {
	var c *Conn
	answered := make(chan error, 1)
	ready := make(chan struct{})
	c, p := connect(t, ConnConfig{Notify: func(string, json.RawMessage) {
		<-ready
		answered <- c.Call(t.Context(), "back", nil, nil)
	}})
	close(ready)
	p.say(`{"method":"go","params":{}}`)
	var m Message
	if err := json.Unmarshal([]byte(p.hear()), &m); err != nil {
		t.Fatal(err)
	}
	p.say(`{"id":` + string(m.ID) + `,"result":{}}`)
	if err := <-answered; err != nil {
		t.Error(err)
	}
}

func TestApprovalMayTakeAnHourWhileEventsFlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var kept *Incoming
		var events int
		a, b := net.Pipe()
		c := NewConn(a, ConnConfig{
			Ask:    func(in *Incoming) { kept = in },
			Notify: func(string, json.RawMessage) { events++ },
		})
		p := &peer{t: t, pipe: b, in: bufio.NewReader(b)}
		p.say(`{"id":"a-7","method":"ask","params":{}}`)
		for range 3 {
			time.Sleep(20 * time.Minute)
			p.say(`{"method":"event","params":{}}`)
		}
		synctest.Wait()
		if events != 3 || kept == nil {
			t.Errorf("%d events while the request %v waits", events, kept)
		}
		go func() {
			if err := kept.Reply(map[string]string{"decision": "accept"}); err != nil {
				t.Error(err)
			}
		}()
		if got := p.hear(); got != `{"id":"a-7","result":{"decision":"accept"}}` {
			t.Errorf("answer %s", got)
		}
		if err := kept.Reply(nil); !errors.Is(err, ErrAnswered) {
			t.Errorf("second answer: %v", err)
		}
		c.Close()
		b.Close()
	})
}

func TestCancelledCallReturnsAtOnceAndLeavesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := net.Pipe()
		c := NewConn(a, ConnConfig{})
		why := errors.New("nobody wants to know any more")
		for _, mute := range []bool{true, false} { // true: the peer reads nothing; false: it does not answer
			ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, why)
			if !mute {
				go func() { _, _ = bufio.NewReader(b).ReadString('\n') }() // two lines, perhaps
			}
			begun := time.Now()
			err := c.Call(ctx, "slow", nil, nil)
			cancel()
			if !errors.Is(err, why) || time.Since(begun) != time.Minute {
				t.Errorf("mute %t: %v after %s", mute, err, time.Since(begun))
			}
		}
		c.mu.Lock()
		if n := len(c.pending); n != 0 {
			t.Errorf("%d calls still wait", n)
		}
		c.mu.Unlock()
		c.Close()
		b.Close()
	})
}

func TestAllCallsFailForTheOneReason(t *testing.T) {
	c, p := connect(t, ConnConfig{})
	errs := make(chan error, 3)
	for range 3 {
		go func() { errs <- c.Call(t.Context(), "wait", nil, nil) }()
	}
	for range 3 {
		p.hear()
	}
	p.pipe.Close()
	reason := ""
	for range 3 {
		err := <-errs
		if !errors.Is(err, ErrClosed) {
			t.Errorf("call failed with %v", err)
		}
		if reason != "" && err.Error() != reason {
			t.Errorf("two reasons: %q and %q", reason, err)
		}
		reason = err.Error()
	}
	if err := c.Call(t.Context(), "late", nil, nil); !errors.Is(err, ErrClosed) {
		t.Errorf("late call: %v", err)
	}
	<-c.Done()
	if !errors.Is(c.Err(), ErrClosed) {
		t.Errorf("reason %v", c.Err())
	}
}

func TestStrayAndLongLinesAreReportedAndSkipped(t *testing.T) {
	strays := make(chan Line, 10)
	notes := make(chan string, 10)
	c, p := connect(t, ConnConfig{
		MaxLine: 100,
		Stray:   func(l Line) { strays <- l },
		Notify:  func(m string, _ json.RawMessage) { notes <- m },
	})
	long := strings.Repeat("x", 200)
	go p.say(
		"", "not JSON", `[1]`, `{"id":{}}`, "\xff\xfe{",
		`{"method":"ask","params":"`+long+`","id":"q-1"}`,
		`{"method":"tell","params":"`+long+`"}`,
		`{"method":"fine","params":{}}`,
	)
	if got := p.hear(); !strings.Contains(got, `"q-1"`) || !strings.Contains(got, `"error"`) {
		t.Errorf("the long request got %s", got)
	}
	if got := <-notes; got != "fine" {
		t.Errorf("notification %q", got)
	}
	var all []string
	for range 6 {
		l := <-strays
		all = append(all, fmt.Sprintf("%t %s %s", l.Oversize, l.Method, l.ID))
	}
	want := []string{"false  ", "false  ", "false  ", "false  ", `true ask "q-1"`, "true tell "}
	if !slices.Equal(all, want) {
		t.Errorf("strays %q, want %q", all, want)
	}
	// An answer that is too long still counts as an answer.
	done := make(chan error, 1)
	go func() { done <- c.Call(t.Context(), "big", nil, nil) }()
	var m Message
	if err := json.Unmarshal([]byte(p.hear()), &m); err != nil {
		t.Fatal(err)
	}
	p.say(`{"result":"` + long + `","id":` + string(m.ID) + `}`)
	var e *RPCError
	if err := <-done; !errors.As(err, &e) {
		t.Errorf("long answer: %v", err)
	}
}

func TestCloseJoinsEverything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // fails if a goroutine is left
		a, b := net.Pipe()
		c := NewConn(a, ConnConfig{})
		call := make(chan error, 1)
		go func() { call <- c.Call(t.Context(), "m", nil, nil) }() // the peer never reads
		synctest.Wait()
		before := runtime.NumGoroutine()
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		if err := <-call; !errors.Is(err, ErrClosed) {
			t.Errorf("the call ended with %v", err)
		}
		synctest.Wait()
		if after := runtime.NumGoroutine(); after > before-3 {
			t.Errorf("%d goroutines, %d before Close", after, before)
		}
		b.Close()
	})
}

func TestHandshakeChecksTheVersion(t *testing.T) {
	for agent, want := range map[string]string{
		"fairlead/0.169.0 (Debian 12.0.0; x86_64) xterm": "",
		"fairlead/0.125.0 (x)":                           "",
		"fairlead/0.169.0-alpha.3 (x)":                   "",
		"fairlead/1.0.0 (x)":                             "1.0.0",
		"fairlead/0.170.0 (x)":                           "0.170.0",
		"fairlead/0.169.1 (x)":                           "",
		"fairlead/0.170.0-alpha.3 (x)":                   "0.170.0-alpha.3",
		"fairlead/0.124.9 (x)":                           "0.124.9",
		"fairlead/0.99.0 (x)":                            "0.99.0",
		"who knows":                                      "none",
	} {
		c, p := connect(t, ConnConfig{})
		heard := make(chan struct{})
		go func() {
			defer close(heard)
			p.hear()
			p.say(`{"id":1,"result":{"userAgent":"` + agent + `","codexHome":"/h","platformFamily":"unix","platformOs":"linux"}}`)
			if want == "" {
				if got := p.hear(); got != `{"method":"initialized"}` {
					t.Errorf("%s: then %s", agent, got)
				}
			}
		}()
		s, err := Handshake(t.Context(), c, ClientInfo{})
		<-heard // the test's end closes the wire
		var ve *VersionError
		switch {
		case want == "" && (err != nil || s.CodexHome != "/h"):
			t.Errorf("%s: %+v, %v", agent, s, err)
		case want != "" && !errors.As(err, &ve):
			t.Errorf("%s: %v, want a *VersionError", agent, err)
		case want != "" && want != "none" && ve.Found != want:
			t.Errorf("%s: found %q", agent, ve.Found)
		}
	}
}
