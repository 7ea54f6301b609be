package conversation

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"fairlead.dev/fairlead/conversation/wire"
	"fairlead.dev/fairlead/internal/protocol"
)

// These tests cut the recording at every byte that codex wrote, in each way in which a
// worker, a pump or the process can end there.

func TestRecordingHoldsWhatTheCutsAreFor(t *testing.T) {
	deltas, open, most, changed := 0, 0, 0, 0
	for _, s := range loadRecording(t, "approvals.jsonl") {
		var m wire.Message
		if s.Out == "" || json.Unmarshal([]byte(s.Out), &m) != nil {
			continue
		}
		switch {
		case m.IsRequest():
			open++
			most = max(most, open)
		case m.Method == "serverRequest/resolved":
			open--
		case m.Method == "item/agentMessage/delta":
			deltas++
		case m.Method == "item/completed" && strings.Contains(s.Out, `"type":"fileChange"`) && strings.Contains(s.Out, `"status":"completed"`):
			changed++
		}
	}
	if deltas < 10 || most != 2 || changed != 1 {
		t.Errorf("%d deltas, at most %d requests open, %d file changes", deltas, most, changed)
	}
}

// A leg is one pump of the recorded conversation, and its result.
type leg struct {
	n       int
	in      PumpInput
	before  *replayer
	want    PumpResult
	entries []protocol.Entry
	deltas  []protocol.Delta
}

// legs runs the conversation once, without a cut.
func legs(t *testing.T) (all []leg) {
	t.Helper()
	r, sink := newReplayer(loadRecording(t, "approvals.jsonl"), listening), newKeeper()
	l := &leader{
		state: PumpState{Cursor: protocol.Cursor{Incarnation: 1}},
		spec:  ThreadSpec{CWD: "/srv/work", Sandbox: "read-only", ApprovalPolicy: "on-request", Model: functions},
	}
	l.pump = func(in PumpInput) (PumpResult, error) {
		before, entries, deltas := r.clone(), len(sink.entries), len(sink.deltas)
		k := *noKnife
		want, err := attempts(r, in, sink, &k)
		all = append(all, leg{l.pumps, in, before, want, sink.entries[entries:], sink.deltas[deltas:]})
		return want, err
	}
	if err := l.lead(recordedTurns); err != nil {
		t.Fatal(err)
	}
	return all
}

// atEveryByte runs try at every offset of the journal, with the legs in parallel.
// Under -short it tries every 97th byte.
func atEveryByte(t *testing.T, try func(l leg, at int) error) {
	t.Helper()
	step := 1
	if testing.Short() {
		step = 97
	}
	cuts, length := 0, 0
	for _, l := range legs(t) {
		cuts += int(l.want.State.Cursor.Offset-l.in.State.Rewind) + 1
		length = int(l.want.State.Cursor.Offset)
		t.Run(fmt.Sprint("pump ", l.n), func(t *testing.T) {
			t.Parallel()
			for at := int(l.in.State.Rewind); at <= int(l.want.State.Cursor.Offset); at += step {
				if err := try(l, at); err != nil {
					t.Fatalf("cut at byte %d: %v", at, err)
				}
			}
		})
	}
	if cuts < length {
		t.Errorf("%d cuts in %d bytes", cuts, length)
	}
}

// same checks that the result after a cut is the same as without a cut.
func (l leg) same(r *replayer, kept *keeper, got PumpResult) error {
	if len(r.faults) > 0 {
		return fmt.Errorf("%s", r.faults)
	}
	all, err := merged(kept.entries, l.in.State.Seq)
	if err != nil {
		return err
	}
	if !sameOutcome(outcome{Entries: all, State: got.State}, outcome{Entries: l.entries, State: l.want.State}) || !sameResult(got, l.want) {
		return fmt.Errorf("\n%+v\n%+v, want\n%+v\n%+v", got, all, l.want, l.entries)
	}
	return nil
}

// The worker dies, and another attempt runs the same input.
func TestCutAtEveryByteChangesNothing(t *testing.T) {
	atEveryByte(t, func(l leg, at int) error {
		r, kept := l.before.clone(), newKeeper()
		got, err := attempts(r, l.in, kept, &knife{read: at, write: -1})
		if err != nil {
			return err
		}
		return l.same(r, kept, got)
	})
}

// The pump is cancelled, and its result is passed to the next pump, as a workflow does.
func TestHandOverAtEveryByteChangesNothing(t *testing.T) {
	atEveryByte(t, func(l leg, at int) error {
		if at <= int(l.in.State.Cursor.Offset) {
			return nil // it would return before it wrote anything
		}
		r, kept := l.before.clone(), newKeeper()
		sum := PumpResult{}
		in, k := l.in, &knife{read: -1, write: -1, callBack: at}
		for pumps := 1; ; pumps++ {
			got, err := attempts(r, in, kept, k)
			if err != nil {
				return err
			}
			if got.State.ThreadID == "" {
				return nil // the next pump starts a thread of its own, which is not in the recording
			}
			sum.add(got)
			if got.Reason == l.want.Reason && got.State.Cursor.Offset >= l.want.State.Cursor.Offset {
				return l.same(r, kept, sum)
			}
			if pumps > 5 {
				return fmt.Errorf("the pumps do not come to %s: %+v", l.want.Reason, got)
			}
			for r.act() { // a later pump finds the lines that were written meanwhile
			}
			in = PumpInput{
				Session: in.Session, State: got.State, Thread: in.Thread, Resume: true,
				Sends: unsettled(in.Sends, got.Deliveries), Prefix: fmt.Sprint(l.in.Prefix, "+", pumps),
			}
		}
	})
}

func (sum *PumpResult) add(r PumpResult) {
	deliveries := sum.Deliveries
	for _, d := range r.Deliveries {
		if i := slices.IndexFunc(deliveries, func(e protocol.Delivery) bool { return e.ID == d.ID }); i >= 0 {
			deliveries[i] = d
		} else {
			deliveries = append(deliveries, d)
		}
	}
	requests, resolved := append(sum.Requests, r.Requests...), append(sum.Resolved, r.Resolved...)
	busy, models := r.Busy, sum.Models
	if r.Models.Models != nil {
		models = r.Models
	}
	*sum = r
	sum.Models = models
	sum.Deliveries, sum.Requests, sum.Resolved, sum.Busy = deliveries, requests, resolved, busy
}

// unsettled returns the sends that a workflow passes to the next pump.
func unsettled(sends []Send, ds []protocol.Delivery) (left []Send) {
	for _, s := range sends {
		for _, d := range ds {
			if d.ID == s.ID && (d.State == protocol.Decided || d.State == protocol.Sent) {
				s.Uncertain = d.State == protocol.Sent
				left = append(left, s)
			}
		}
	}
	return left
}

// The process dies after that byte. A line that the process got is never reported as
// unwritten, and a line that it did not get is never reported as acknowledged. The
// transcript has all entries until that byte, and the text that was left unfinished. The
// result is the same if the worker dies too.
func TestDeathOfTheProcessAtEveryByteIsToldAsItWas(t *testing.T) {
	atEveryByte(t, func(l leg, at int) error {
		if at == 0 {
			return nil // the process died before a pump was attached
		}
		r, kept := l.before.clone(), newKeeper()
		got, err := attempts(r, l.in, kept, &knife{read: -1, write: -1, dead: at})
		if err != nil {
			return err
		}
		entries, err := merged(kept.entries, l.in.State.Seq)
		if err != nil {
			return err
		}
		if err := l.died(r, got, entries, kept.deltas); err != nil {
			return err
		}
		if got.Reason != ProcessEnded {
			return nil
		}
		// The worker died at the same time or before. The next attempt finds a dead process
		// and its journal.
		r.visible = at
		kept = newKeeper()
		again, err := simulate(r, l.in, kept, Options{Attempt: 2}, &knife{read: -1, write: -1, dead: at})
		if err != nil {
			return err
		}
		twice, err := merged(kept.entries, l.in.State.Seq)
		if err != nil {
			return err
		}
		if err := certain(r, l.in, again); err != nil {
			return err
		}
		got.Deliveries, again.Deliveries = nil, nil // the second attempt is less certain
		if !sameOutcome(outcome{Entries: twice, State: again.State}, outcome{Entries: entries, State: got.State}) || !sameResult(again, got) {
			return fmt.Errorf("with a dead worker\n%+v\n%+v, want\n%+v\n%+v", again, twice, got, entries)
		}
		return nil
	})
}

func (l leg) died(r *replayer, got PumpResult, entries []protocol.Entry, deltas []protocol.Delta) error {
	if got.Reason == l.want.Reason && got.State.Cursor == l.want.State.Cursor {
		return nil // it had returned by then
	}
	if got.Reason != ProcessEnded && got.Reason != TurnEnded || len(got.Requests) > 0 || len(got.State.Open) > 0 && got.Reason == ProcessEnded {
		return fmt.Errorf("returned %+v", got)
	}
	if err := certain(r, l.in, got); err != nil {
		return err
	}
	finished, said := map[string]bool{}, map[string]string{}
	var whole []protocol.Entry
	parts := map[string]string{}
	for _, e := range entries {
		if strings.HasSuffix(e.ID, "-part") {
			parts[e.Item] = e.Text
			continue
		}
		whole = append(whole, e)
		finished[e.Item] = true
	}
	if len(whole) > len(l.entries) || !sameOutcome(outcome{Entries: whole}, outcome{Entries: l.entries[:len(whole)]}) {
		return fmt.Errorf("on record is %+v, was %+v", whole, l.entries)
	}
	for _, d := range deltas {
		if !finished[d.Item] && d.Type != protocol.EntryCommand {
			said[d.Item] += d.Text
		}
	}
	for item, text := range said {
		if parts[item] != text {
			return fmt.Errorf("%s said %q, on record is %q", item, text, parts[item])
		}
	}
	if len(parts) != len(said) {
		return fmt.Errorf("on record are %q, said was %q", parts, said)
	}
	return nil
}

// certain compares the deliveries in a result with the lines that codex got.
func certain(r *replayer, in PumpInput, got PumpResult) error {
	for i, s := range in.Sends {
		key := wire.MethodTurnStart + ` "` + sendPrefix + s.ID + `/0"`
		if s.Kind == SendDecision {
			key = "answer " + string(s.RPC)
		}
		state := got.Deliveries[i].State
		if state == protocol.Decided && r.told[key] || state == protocol.Acknowledged && r.got[key] == "" {
			return fmt.Errorf("%s is called %s; written: %v, taken: %q", s.ID, state, r.told[key], r.got[key])
		}
	}
	return nil
}
