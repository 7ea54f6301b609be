package httpapi_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"fairlead.dev/fairlead/activities/records"
	"fairlead.dev/fairlead/internal/httpapi"
	"fairlead.dev/fairlead/internal/protocol"
)

// An event as it came.
type event struct{ name, id, data string }

// A listener reads a stream of events.
type listener struct {
	*place
	lines  *bufio.Scanner
	cancel context.CancelFunc
	alive  bool // a comment came
}

func (p *place) listen(target string, header ...string) *listener {
	p.Helper()
	ctx, cancel := context.WithCancel(p.Context())
	p.Cleanup(cancel)
	resp := p.open(ctx, "viewer", "GET", target, "", header...)
	p.Cleanup(func() { resp.Body.Close() })
	if kind := resp.Header.Get("Content-Type"); resp.StatusCode != 200 || kind != "text/event-stream" {
		p.Fatalf("%s: %d %s", target, resp.StatusCode, kind)
	}
	return &listener{place: p, lines: bufio.NewScanner(resp.Body), cancel: cancel}
}

// next returns the next event.
func (l *listener) next() (e event) {
	l.Helper()
	for l.lines.Scan() {
		field, value, _ := strings.Cut(l.lines.Text(), ":")
		value = strings.TrimPrefix(value, " ")
		switch field {
		case "":
			l.alive = l.alive || value != ""
			if e.name != "" {
				return e
			}
		case "event":
			e.name = value
		case "id":
			e.id = value
		case "data":
			e.data = value
		}
	}
	l.Fatalf("the stream ended: %v", l.lines.Err())
	return e
}

// entry reads past states, and returns the next entry.
func (l *listener) until(name string) event {
	l.Helper()
	for {
		if e := l.next(); e.name == name {
			return e
		} else if e.name != httpapi.EventState {
			l.Fatalf("%+v instead of %s", e, name)
		}
	}
}

func TestEachEntryIsAnEventWhoseIDIsItsSeq(t *testing.T) {
	p := serve(t)
	for seq := range int64(3) {
		p.publish("s1", seq+1)
	}
	l := p.listen("/v1/sessions/s1/events")
	for n := 1; n <= 3; n++ {
		e := l.until(httpapi.EventEntry)
		var got protocol.Entry
		if err := json.Unmarshal([]byte(e.data), &got); err != nil || e.id != fmt.Sprint(n) || got.Seq != int64(n) {
			t.Errorf("event %d: %+v", n, e)
		}
	}
	// Comments come while nothing happens; then the next entry.
	for !l.alive {
		l.lines.Scan()
		l.alive = strings.HasPrefix(l.lines.Text(), ":")
	}
	p.publish("s1", 4)
	if e := l.until(httpapi.EventEntry); e.id != "4" {
		t.Errorf("then %+v", e)
	}
	l = p.listen("/v1/sessions/s1/events?from=3")
	if e := l.until(httpapi.EventEntry); e.id != "3" {
		t.Errorf("from 3: %+v", e)
	}
}

// A client that connects again gets what it does not have, and can tell whether the session
// still has what it has.
func TestAClientThatConnectsAgainGoesOnAfterItsLastEvent(t *testing.T) {
	p := serve(t)
	for seq := range int64(3) {
		p.publish("s1", seq+1)
	}
	l := p.listen("/v1/sessions/s1/events", "Last-Event-ID", "2")
	var at httpapi.Place
	if e := l.until(httpapi.EventResumed); json.Unmarshal([]byte(e.data), &at) != nil || at != (httpapi.Place{Seq: 2, ID: "e2"}) || e.id != "" {
		t.Errorf("resumed: %+v", e)
	}
	if e := l.until(httpapi.EventEntry); e.id != "3" {
		t.Errorf("then %+v", e)
	}
	for _, bad := range []string{"x", "0", "-1"} {
		if r := p.ask("viewer", "GET", "/v1/sessions/s1/events", "", "Last-Event-ID", bad); r.status != 400 || r.problem(t).Kind != "bad_input" {
			t.Errorf("Last-Event-ID %s: %d %s", bad, r.status, r.body)
		}
	}
}

func TestAClientIsToldWhichEntriesAreVoid(t *testing.T) {
	p := serve(t)
	for seq := range int64(3) {
		p.publish("s1", seq+1)
	}
	l := p.listen("/v1/sessions/s1/events")
	for range 3 {
		l.until(httpapi.EventEntry)
	}
	// Another attempt of the pump has other entries from 2 on.
	data, err := json.Marshal(protocol.Entry{Seq: 2, ID: "other", At: noon, Type: protocol.EntryAssistant, Text: "another"})
	if err != nil {
		t.Fatal(err)
	}
	p.hub.Publish(records.SessionTopic("s1"), records.LiveEvent{Kind: records.LiveEntry, Seq: 2, Data: data})
	var at httpapi.Place
	if e := l.until(httpapi.EventResync); json.Unmarshal([]byte(e.data), &at) != nil || at.Seq != 2 {
		t.Errorf("resync: %+v", e)
	}
	if e := l.until(httpapi.EventEntry); e.id != "2" || !strings.Contains(e.data, "another") {
		t.Errorf("then %+v", e)
	}
}

func TestOnlyReadersFollow(t *testing.T) {
	p := serve(t)
	r := p.ask("", "GET", "/v1/sessions/s1/events", "")
	if r.status != 401 || r.problem(t).Kind != "unauthorized" {
		t.Errorf("%d %s", r.status, r.body)
	}
}
