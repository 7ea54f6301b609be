package conversation

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"fairlead.dev/fairlead/conversation/wire"
	"fairlead.dev/fairlead/internal/protocol"
)

// A replayer does what the recorded codex did. It writes the next line only when it got the
// lines that the recorded codex had got. It outlives the pumps that are attached to it, and
// records lines that would have had an effect twice.
type replayer struct {
	steps   []step
	keys    map[string]bool // keys of the lines that it may get
	pace    pace
	next    int
	journal []byte
	visible int               // how much of the journal is written yet
	inbox   []string          // lines that it has not handled yet
	got     map[string]string // lines that it got, by key
	partial []byte            // a line without its end
	told    map[string]bool   // all complete lines from the pump, handled or not
	faults  []string
}

// A pace says when the replayer acts. With the pace eager, an attachment finds all lines
// that codex writes until it gets another line. With the lazy paces, an attachment finds
// only the lines that an earlier attachment has read.
type pace int

const (
	eager     pace = iota
	listening      // lazy: handles the lines that it got before it writes more
	talkative      // lazy: first writes all lines that it can
)

var paces = []pace{eager, listening, talkative}

func newReplayer(steps []step, p pace) *replayer {
	r := &replayer{steps: steps, pace: p, keys: map[string]bool{}, got: map[string]string{}, told: map[string]bool{}}
	for _, s := range steps {
		if s.In != "" {
			key, _ := keyOf(s.In)
			r.keys[key] = true
		}
	}
	r.hurry()
	return r
}

func (r *replayer) clone() *replayer {
	c := *r
	c.journal, c.partial, c.got, c.told = bytes.Clone(r.journal), bytes.Clone(r.partial), maps.Clone(r.got), maps.Clone(r.told)
	c.inbox = slices.Clone(r.inbox)
	return &c
}

// hurry lets an eager replayer act at once.
func (r *replayer) hurry() {
	for r.pace == eager && r.act() {
	}
}

// act does one thing, and reports whether there was anything to do.
func (r *replayer) act() bool {
	switch {
	case r.visible < len(r.journal):
		r.visible = len(r.journal)
		return true
	case r.pace == talkative && r.talk():
		return true
	case len(r.inbox) > 0:
		line := r.inbox[0]
		r.inbox = r.inbox[1:]
		r.line(line)
		return true
	}
	return r.talk()
}

// talk writes the next line, unless the recorded codex had before got a line that this one
// has not got.
func (r *replayer) talk() bool {
	for r.next < len(r.steps) {
		s := r.steps[r.next]
		if r.beside(s) {
			r.next++
			continue
		}
		if s.In == "" {
			r.next++
			r.say(s.Out)
			return true
		}
		if k, _ := keyOf(s.In); r.got[k] == "" {
			return false
		}
		r.next++
	}
	return false
}

// beside reports whether a step is a question that does not belong to the opening, or the
// answer to one. No other step waits for these steps, and they wait for no other.
func (r *replayer) beside(s step) bool {
	key, id := keyOf(s.In + s.Out)
	if s.In != "" {
		method, _, _ := strings.Cut(key, " ")
		return method == wire.MethodAccountRead || method == wire.MethodModelList
	}
	return r.keys[wire.MethodAccountRead+" "+id] || r.keys[wire.MethodModelList+" "+id]
}

// keyOf returns a key that identifies a line within the recording, and the line's JSON-RPC
// id.
func keyOf(line string) (key, id string) {
	var m wire.Message
	if err := json.Unmarshal([]byte(line), &m); err != nil {
		return "", ""
	}
	switch {
	case m.IsRequest():
		return m.Method + " " + wire.IDKey(m.ID), wire.IDKey(m.ID)
	case m.IsResponse():
		return "answer " + wire.IDKey(m.ID), wire.IDKey(m.ID)
	}
	return m.Method, ""
}

// tell takes bytes that the pump wrote.
func (r *replayer) tell(p []byte) {
	r.partial = append(r.partial, p...)
	for {
		i := bytes.IndexByte(r.partial, '\n')
		if i < 0 {
			return
		}
		r.inbox = append(r.inbox, string(r.partial[:i]))
		if key, _ := keyOf(string(r.partial[:i])); key != "" {
			r.told[key] = true
		}
		r.partial = r.partial[i+1:]
		r.hurry()
	}
}

func (r *replayer) line(line string) {
	key, id := keyOf(line)
	if key == "" {
		return // codex does not answer blank or torn lines
	}
	method, _, _ := strings.Cut(key, " ")
	before, again := r.got[key]
	switch {
	case method == "thread/read":
		r.say(`{"id":` + id + `,"result":{"thread":{"id":"x"}}}`)
	case again && method == wire.MethodInitialize:
		r.say(`{"id":` + id + `,"error":{"code":-32600,"message":"Already initialized"}}`)
	case again && method == wire.MethodStart:
		r.say(`{"id":` + id + `,"result":{"thread":{"id":"another thread"},"model":"m"}}`)
	case again && method == "answer":
		if before != line {
			r.faults = append(r.faults, "answered differently: "+before+" and "+line)
		}
	case again && (method == wire.MethodAccountRead || method == wire.MethodModelList || method == wire.MethodInitialized):
	case again:
		r.faults = append(r.faults, "told twice: "+line)
	case !r.keys[key]:
		r.faults = append(r.faults, "surprise: "+line)
	default:
		r.got[key] = line
		if id == "" || method == "answer" {
			return
		}
		if method == wire.MethodAccountRead || method == wire.MethodModelList {
			i := slices.IndexFunc(r.steps, func(s step) bool { k, _ := keyOf(s.Out); return k == "answer "+id })
			r.say(r.steps[i].Out)
			return
		}
		// Requests are answered in order, so no other answer comes before this one.
		for r.talk() {
			if k, _ := keyOf(r.steps[r.next-1].Out); k == "answer "+id {
				return
			}
		}
	}
}

func (r *replayer) say(line string) { r.journal = append(r.journal, line+"\n"...) }

var errCut = errors.New("cut")

// A knife says where an attempt dies: after a number of bytes were read from the
// journal in total, or at the n-th write.
type knife struct {
	read  int // offset in the journal; -1: never
	write int // count of writes; -1: never
	torn  int // number of bytes of that write that still arrive; -1: all
	wrote int

	// At the offset callBack the pump is cancelled. At the offset dead the process is dead
	// and has written no more. 0 means never.
	callBack int
	dead     int
}

var noKnife = &knife{read: -1, write: -1}

// simulate is the driver without goroutines and without a clock: time passes only
// when nothing else is left to do.
func simulate(r *replayer, in PumpInput, sink Sink, opt Options, k *knife) (PumpResult, error) {
	m, err := newMachine(in, sink, opt, int64(r.visible))
	if err != nil {
		return PumpResult{}, err
	}
	d := &driver{m: m}
	split := wire.NewSplitter(m.in.From(), m.lim.Line)
	size := m.size
	behind := split.Pos < size
	write := func() error {
		d.collect()
		for _, line := range d.queue {
			k.wrote++
			if k.wrote-1 == k.write {
				if k.torn < 0 || k.torn > len(line) {
					r.tell(line)
				} else {
					r.tell(line[:k.torn])
				}
				return errCut
			}
			r.tell(line)
		}
		d.queue = nil
		return nil
	}
	m.atStart()
	for rounds := 0; ; rounds++ {
		if rounds > 10000 {
			return PumpResult{}, errors.New("the pump does not return")
		}
		if m.err != nil {
			return PumpResult{}, m.err
		}
		if err := write(); err != nil {
			return PumpResult{}, err
		}
		if m.result != nil {
			return *m.result, nil
		}
		end := r.visible
		for _, at := range []int{k.read, k.callBack, k.dead} {
			if at > 0 {
				end = min(end, at)
			}
		}
		if int(split.Pos) < end {
			var lines []wire.Line
			split.Feed(r.journal[split.Pos:end], func(l wire.Line) { lines = append(lines, l) })
			for _, l := range lines {
				m.read(l, m.now)
				if m.result != nil || m.err != nil {
					break
				}
				if err := write(); err != nil {
					return PumpResult{}, err
				}
			}
			if behind && split.Pos >= size {
				behind = false
				m.caughtUp(m.now)
			}
			continue
		}
		if k.read >= 0 && int(split.Pos) >= k.read {
			k.read = -1 // the attempt dies only once
			if r.pace != eager {
				r.visible = int(split.Pos) // the rest is not written yet
			}
			return PumpResult{}, errCut
		}
		if k.callBack > 0 && int(split.Pos) >= k.callBack {
			k.callBack = 0 // the pump is cancelled only once
			m.cancel(m.now)
			continue
		}
		if k.dead > 0 && int(split.Pos) >= k.dead {
			m.ended(m.now)
			continue
		}
		if !r.act() {
			m.tick(m.wake())
		}
	}
}

type outcome struct {
	Entries []protocol.Entry
	Turns   []TurnEnd
	Answers []string
	State   PumpState
}

// replay runs the recorded conversation. If the knife cuts a pump, the pump runs again from
// its input, as a new attempt on a new attachment.
func replay(t testing.TB, steps []step, p pace, k *knife) (outcome, error) {
	t.Helper()
	r := newReplayer(steps, p)
	sink := newKeeper()
	l := &leader{
		state: PumpState{Cursor: protocol.Cursor{Incarnation: 1}},
		spec:  ThreadSpec{CWD: "/srv/work", Sandbox: "read-only", ApprovalPolicy: "on-request", Model: functions},
	}
	l.pump = func(in PumpInput) (PumpResult, error) { return attempts(r, in, sink, k) }
	if err := l.lead(recordedTurns); err != nil {
		return outcome{}, err
	}
	if len(r.faults) > 0 {
		return outcome{}, errors.New(strings.Join(r.faults, "; "))
	}
	entries, err := merged(sink.entries, 0)
	return outcome{Turns: l.turns, Answers: l.answers, State: l.state, Entries: entries}, err
}

// attempts runs a pump again from its input until the knife no longer cuts it, each
// time as a new attempt on a new attachment.
func attempts(r *replayer, in PumpInput, sink Sink, k *knife) (PumpResult, error) {
	text, err := json.Marshal(in) // as it travels through a workflow
	if err != nil {
		return PumpResult{}, err
	}
	for attempt := 1; ; attempt++ {
		var in PumpInput
		if err := json.Unmarshal(text, &in); err != nil {
			return PumpResult{}, err
		}
		res, err := simulate(r, in, sink, Options{Attempt: attempt}, k)
		if !errors.Is(err, errCut) {
			return res, err
		}
	}
}

// merged keeps the first entry of each id, as a reader does. It checks that other entries
// with the same id are equal, and that the sequence numbers rise by one, beginning behind
// after.
func merged(all []protocol.Entry, after int64) ([]protocol.Entry, error) {
	var entries []protocol.Entry
	seen := map[string]protocol.Entry{}
	for _, e := range all {
		if before, again := seen[e.ID]; again {
			if !reflect.DeepEqual(before, e) {
				return nil, fmt.Errorf("entry %s came again as %+v, was %+v", e.ID, e, before)
			}
			continue
		}
		seen[e.ID] = e
		if e.Seq != after+int64(len(entries)+1) {
			return nil, fmt.Errorf("entry %s has seq %d, %d entries after %d", e.ID, e.Seq, len(entries), after)
		}
		entries = append(entries, e)
	}
	return entries, nil
}

func recordedOutcome(t testing.TB, steps []step) (outcome, int, int) {
	t.Helper()
	k := *noKnife
	o, err := replay(t, steps, eager, &k)
	if err != nil {
		t.Fatal(err)
	}
	length := 0
	for _, s := range steps {
		if s.Out != "" {
			length += len(s.Out) + 1
		}
	}
	return o, length, k.wrote
}

// sameOutcome compares two outcomes, except the fields of the state that depend on how the
// journal was read. For example, the answers to barriers make the journal longer.
func sameOutcome(a, b outcome) bool {
	strip := func(o outcome) outcome {
		o.State.Cursor, o.State.Rewind = protocol.Cursor{}, 0
		for i := range o.Entries {
			o.Entries[i].ID = ""
		}
		for i := range o.State.Items {
			o.State.Items[i].Offset, o.State.Items[i].Kept, o.State.Items[i].Half = 0, 0, 0
		}
		return o
	}
	return reflect.DeepEqual(strip(clone(a)), strip(clone(b)))
}

func clone(o outcome) outcome {
	o.Entries = append([]protocol.Entry(nil), o.Entries...)
	o.State.Items = append([]OpenItem(nil), o.State.Items...)
	return o
}

func TestReplayOfTheRecordingEndsAsItDid(t *testing.T) {
	o, _, _ := recordedOutcome(t, loadRecording(t, recordingOf(wire.TestedVersion)))
	if len(o.Turns) != 2 || len(o.Answers) != 4 || o.State.CodexVersion != wire.TestedVersion {
		t.Fatalf("codex %s, turns %+v, answers %q", o.State.CodexVersion, o.Turns, o.Answers)
	}
	one := o.Turns[0]
	if one.Status != "completed" || !strings.HasPrefix(one.FinalText, "I shall run two commands: größer, 更大.\n\nDone: ") {
		t.Errorf("first turn %+v", one)
	}
	if one.DiffStat != "1 file changed, 1 insertion(+)" || one.Usage.Input == 0 || one.Usage.Input+o.Turns[1].Usage.Input != o.State.Usage.Input {
		t.Errorf("first turn %+v, session's usage %+v", one, o.State.Usage)
	}
	var kinds []string
	for _, e := range o.Entries {
		kinds = append(kinds, string(e.Type))
	}
	want := "state user reasoning assistant request request command command request file_change request file_change assistant state user assistant state"
	if got := strings.Join(kinds, " "); got != want {
		t.Errorf("entries\n%s, want\n%s", got, want)
	}
}

// TestReplayOfEveryVersionEndsAsItDid checks that the recordings of the older versions have
// the same outcome, wherever they are cut.
func TestReplayOfEveryVersionEndsAsItDid(t *testing.T) {
	for _, v := range published()[:len(published())-1] {
		steps := loadRecording(t, recordingOf(v))
		want, length, _ := recordedOutcome(t, steps)
		if len(want.Turns) != 2 || len(want.Answers) != 4 || want.State.CodexVersion != v {
			t.Fatalf("%s: turns %+v, answers %q", v, want.Turns, want.Answers)
		}
		if one := want.Turns[0]; one.Status != "completed" || one.DiffStat != "1 file changed, 1 insertion(+)" || one.StartedAtMS == 0 || want.Turns[1].FinalText != "You began with change things." {
			t.Errorf("%s: turns %+v", v, want.Turns)
		}
		step := 997
		if testing.Short() {
			step = 9973
		}
		for _, p := range paces {
			for at := 0; at <= length; at += step {
				got, err := replay(t, steps, p, &knife{read: at, write: -1})
				if err != nil {
					t.Fatalf("%s, pace %d, cut at byte %d: %v", v, p, at, err)
				}
				if !sameOutcome(got, want) {
					t.Fatalf("%s, pace %d, cut at byte %d:\n%+v, want\n%+v", v, p, at, got, want)
				}
			}
		}
	}
}

// sameResult compares the fields that a workflow uses.
func sameResult(a, b PumpResult) bool {
	a.State, b.State = PumpState{}, PumpState{}
	a.Waited, b.Waited = 0, 0 // this depends on the clock of the last attempt
	for _, rs := range [][]protocol.Request{a.Requests, b.Requests} {
		for i := range rs {
			rs[i].Whole = nil
		}
	}
	return reflect.DeepEqual(a, b)
}

// This test makes some of the same cuts, and runs the whole conversation after each.
func TestCutLeavesTheSameConversation(t *testing.T) {
	steps := loadRecording(t, "approvals.jsonl")
	want, length, _ := recordedOutcome(t, steps)
	step := 97
	if testing.Short() {
		step = 1999
	}
	for _, p := range paces {
		for at := 0; at <= length; at += step {
			got, err := replay(t, steps, p, &knife{read: at, write: -1})
			if err != nil {
				t.Fatalf("pace %d, cut at byte %d: %v", p, at, err)
			}
			if !sameOutcome(got, want) {
				t.Fatalf("pace %d, cut at byte %d:\n%+v, want\n%+v", p, at, got, want)
			}
		}
	}
}

// The worker dies before, within and after every write.
func TestCutAtEveryWriteSendsNothingTwice(t *testing.T) {
	steps := loadRecording(t, "approvals.jsonl")
	want, _, writes := recordedOutcome(t, steps)
	torns := []int{0, 1, 2, 20, -1}
	if testing.Short() {
		torns = []int{0, 20, -1}
	}
	for _, p := range paces {
		for n := range writes {
			for _, torn := range torns {
				got, err := replay(t, steps, p, &knife{read: -1, write: n, torn: torn})
				if err != nil {
					t.Fatalf("pace %d, cut at write %d (%d bytes through): %v", p, n, torn, err)
				}
				if !sameOutcome(got, want) {
					t.Fatalf("pace %d, cut at write %d (%d bytes through):\n%+v, want\n%+v", p, n, torn, got, want)
				}
			}
		}
	}
}
