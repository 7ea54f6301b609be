package conversation

import (
	"strings"
	"testing"
	"time"

	"fairlead.dev/fairlead/internal/protocol"
)

// A Tell reaches codex once, before the next turn. If codex may have received it, it is
// never sent again.

const (
	toldLine   = `{"id":"send/t-1/0","result":{}}`
	tellLine   = `{"id":"send/t-1/0","method":"thread/inject_items","params":{"threadId":"thread-1","items":[{"type":"message","role":"developer","content":[{"type":"input_text","text":"you have moved"}]}]}}`
	turnLine   = `"method":"turn/start"`
	tellBarred = `{"id":"g1.p9.barrier-n.0","result":{}}`
)

func telling(incarnation int) PumpInput {
	return PumpInput{State: opened(), Tell: &Tell{ID: "t-1", Text: "you have moved", Incarnation: incarnation}, Sends: []Send{turn(5, "m-5", "hello")}}
}

func count(said []string, what string) (n int) {
	for _, l := range said {
		n += strings.Count(l, what)
	}
	return n
}

func TestTurnWaitsUntilCodexHasBeenTold(t *testing.T) {
	s := perform(t, telling(0), Options{})
	s.heard(tellLine)
	s.hear(toldLine)
	if len(s.said) != 2 || !strings.Contains(s.said[1], turnLine) {
		t.Fatalf("once it was told, said to codex:\n%s", strings.Join(s.said, "\n"))
	}
	s.m.cancel(s.m.now)
	if got := delivered(t, s.result(PumpCancelled), "t-1"); got != protocol.Acknowledged {
		t.Errorf("told, and it is %s", got)
	}
	if got := s.sink.text(protocol.EntryUser); len(got) != 0 {
		t.Errorf("the transcript has it as a person's words: %q", got)
	}
	e := s.sink.entries[0]
	if e.Type != protocol.EntryState || e.Status != "told" || e.Text != "you have moved" || e.Data["tell"] != "t-1" {
		t.Errorf("on record as %+v", e)
	}
}

func TestTellIsLookedForInTheJournalBeforeItIsSaidAgain(t *testing.T) {
	for name, in := range map[string]PumpInput{"a second attempt": telling(0), "another pump": telling(3)} {
		opt := Options{Attempt: 2, Nonce: "n"}
		if name == "another pump" {
			opt.Attempt = 1
		}
		s := perform(t, in, opt, toldLine)
		s.hear(tellBarred)
		if count(s.said, "inject_items") != 0 || count(s.said, turnLine) != 1 {
			t.Errorf("%s, codex's answer is there: said\n%s", name, strings.Join(s.said, "\n"))
		}
		s = perform(t, in, opt)
		if count(s.said, "inject_items") != 0 || count(s.said, turnLine) != 0 {
			t.Errorf("%s, nothing known: said\n%s", name, strings.Join(s.said, "\n"))
		}
		s.hear(tellBarred)
		if count(s.said, "inject_items") != 1 {
			t.Errorf("%s, codex has not had it for certain: said\n%s", name, strings.Join(s.said, "\n"))
		}
	}
}

func TestTellThatADeadProcessMayHaveHadIsNotRepeated(t *testing.T) {
	in := telling(2) // the current process is the third
	s := perform(t, in, Options{})
	if count(s.said, "inject_items") != 0 || count(s.said, turnLine) != 1 {
		t.Errorf("said to codex:\n%s", strings.Join(s.said, "\n"))
	}
	s.m.cancel(s.m.now)
	r := s.result(PumpCancelled)
	if got := delivered(t, r, "t-1"); got != protocol.Void {
		t.Errorf("it is %s", got)
	}
	e := s.sink.entries[0]
	if e.Type != protocol.EntryState || e.Status != "warning" || e.Seq != in.State.Seq+1 || !strings.Contains(e.Text, "you have moved") {
		t.Errorf("on record as %+v", e)
	}
	again := perform(t, in, Options{Attempt: 2})
	if again.sink.entries[0].ID != e.ID || again.sink.entries[0].Seq != e.Seq {
		t.Errorf("a second attempt says %+v, the first said %+v", again.sink.entries[0], e)
	}
}

func TestTellIsNeverCalledUnsaidWhereItMayHaveBeenSaid(t *testing.T) {
	for _, c := range []struct {
		attempt, incarnation int
		want                 protocol.DeliveryState
	}{{1, 0, protocol.Decided}, {2, 0, protocol.Sent}, {1, 3, protocol.Sent}} {
		s := behind(t, telling(c.incarnation), Options{Attempt: c.attempt})
		s.m.ended(time.Second)
		if got := delivered(t, s.result(ProcessEnded), "t-1"); got != c.want {
			t.Errorf("attempt %d, told to process %d, at its end: %s, want %s", c.attempt, c.incarnation, got, c.want)
		}
	}
	// The Tell was written, and the process died before it answered.
	s := perform(t, telling(0), Options{})
	s.m.ended(time.Second)
	if got := delivered(t, s.result(ProcessEnded), "t-1"); got != protocol.Sent {
		t.Errorf("written and not answered: %s", got)
	}
	// Codex does not answer the Tell.
	s = perform(t, telling(0), Options{})
	s.wait(2 * time.Minute)
	if r := s.result(TimedOut); delivered(t, r, "t-1") != protocol.Sent || delivered(t, r, "m-5") != protocol.Decided {
		t.Errorf("deliveries %+v", r.Deliveries)
	}
}

func TestRunningTurnIsNotTold(t *testing.T) {
	in := PumpInput{State: running(), Tell: &Tell{ID: "t-1", Text: "you have moved"}}
	s := perform(t, in, Options{})
	s.attached()
	s.hear(turnDone("completed", ""))
	if got := delivered(t, s.result(TurnEnded), "t-1"); got != protocol.Decided || len(s.said) != 0 {
		t.Errorf("it is %s, said %q", got, s.said)
	}
	// The Tell does not delay the report of requests.
	s = perform(t, in, Options{}, asking(1, "c", "ls"))
	s.wait(time.Minute)
	if r := s.result(RequestsOpen); len(r.Requests) != 1 {
		t.Errorf("requests %+v", r.Requests)
	}
	// A second attempt does not guess.
	s = perform(t, in, Options{Attempt: 2, Nonce: "n"}, turnDone("completed", ""))
	s.attached()
	s.hear(tellBarred)
	if got := delivered(t, s.result(TurnEnded), "t-1"); got != protocol.Decided {
		t.Errorf("never written, for certain: %s", got)
	}
}

// If an earlier pump may have sent the Tell, and the journal shows that it did not, the
// next process gets the Tell.
func TestTellThatWasProvedUnsaidIsToldToTheNextProcess(t *testing.T) {
	in := PumpInput{State: running(), Tell: &Tell{ID: "t-1", Text: "you have moved", Incarnation: 3}}
	s := perform(t, in, Options{Nonce: "n"}, turnDone("completed", ""))
	s.attached()
	s.hear(tellBarred)
	if got := delivered(t, s.result(TurnEnded), "t-1"); got != protocol.Decided {
		t.Fatalf("proved unsaid, and it is %s", got)
	}
	next := telling(0) // the workflow passes the Tell on like this if its state was Decided
	next.State.Cursor.Incarnation, next.State.Opened = 4, 4
	s = perform(t, next, Options{})
	s.heard(tellLine)
	s.hear(toldLine)
	if count(s.said, "inject_items") != 1 || count(s.said, turnLine) != 1 {
		t.Errorf("said to the next process:\n%s", strings.Join(s.said, "\n"))
	}
}

func TestRefusedTellIsOnRecordAndTheTurnGoesOn(t *testing.T) {
	s := perform(t, telling(0), Options{})
	s.hear(`{"id":"send/t-1/0","error":{"code":-32600,"message":"Invalid request: unknown variant"}}`)
	if count(s.said, turnLine) != 1 || len(s.sink.text(protocol.EntryError)) != 1 {
		t.Errorf("said %q, entries %+v", s.said, s.sink.entries)
	}
	s.m.cancel(s.m.now)
	if r := s.result(PumpCancelled); delivered(t, r, "t-1") != protocol.Rejected || r.Problem != nil {
		t.Errorf("result %+v", r)
	}
	// After an overload the Tell is sent again, because codex did not take it.
	s = perform(t, telling(0), Options{})
	s.hear(`{"id":"send/t-1/0","error":{"code":-32001,"message":"Server overloaded; retry later."}}`)
	s.wait(time.Second)
	if count(s.said, "inject_items") != 2 || count(s.said, turnLine) != 0 {
		t.Errorf("said %q", s.said)
	}
}

func TestTellWithoutIDOrTextIsRefused(t *testing.T) {
	for _, tell := range []Tell{{Text: "x"}, {ID: "x"}, {ID: "m-5", Text: "x"}} {
		in := telling(0)
		in.Tell, in.Prefix = &tell, "g1.p9"
		if _, err := newMachine(in, newKeeper(), Options{}, 0); err == nil {
			t.Errorf("%+v was taken", tell)
		}
	}
}
