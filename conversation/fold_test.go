package conversation

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"fairlead.dev/fairlead/conversation/wire"
	"fairlead.dev/fairlead/internal/protocol"
)

// splitFold runs the recorded journal through pumps that are cancelled at lines that a seed
// chooses. With seed 0 they are cancelled as late as possible.
func splitFold(t *testing.T, journal []string, seed uint64) (outcome, int) {
	t.Helper()
	random := rand.New(rand.NewPCG(seed, 7))
	state := PumpState{Cursor: protocol.Cursor{Incarnation: 1}}
	spec := ThreadSpec{CWD: "/srv/work", Sandbox: "read-only", ApprovalPolicy: "on-request"}
	sink := newKeeper()
	var offsets []int64
	at := int64(0)
	for _, l := range journal {
		offsets = append(offsets, at)
		at += int64(len(l)) + 1
	}
	o := outcome{}
	pumps := 0
	messages := []Send{turn(1, "m-1", recordedTurns[0]), turn(2, "m-2", recordedTurns[1])}
	for state.Cursor.Offset < at {
		if pumps++; pumps > 2*len(journal) {
			t.Fatalf("pumps come no further than %+v", state.Cursor)
		}
		in := PumpInput{State: state, Thread: spec, Prefix: "g1.p1"}
		if n := len(o.Turns); n < len(messages) && state.TurnID == "" {
			in.Sends = messages[n : n+1]
		}
		text, err := json.Marshal(in)
		if err != nil {
			t.Fatal(err)
		}
		in = PumpInput{}
		if err := json.Unmarshal(text, &in); err != nil {
			t.Fatal(err)
		}
		// A pump that is cancelled returns where its backlog ends.
		size := at
		if seed > 0 {
			i, _ := slices.BinarySearch(offsets, state.Cursor.Offset)
			if i += 1 + random.IntN(4); i < len(offsets) {
				size = offsets[i]
			}
		}
		m, err := newMachine(in, sink, Options{}, size)
		if err != nil {
			t.Fatal(err)
		}
		m.cancel(0)
		m.atStart()
		for i, l := range journal {
			if offsets[i] >= in.From() {
				m.read(wire.Line{Offset: offsets[i], End: offsets[i] + int64(len(l)) + 1, Raw: []byte(l)}, 0)
			}
		}
		if m.err != nil || m.result == nil {
			t.Fatalf("pump %d: %v", pumps, m.err)
		}
		if m.result.Turn != nil {
			o.Turns = append(o.Turns, *m.result.Turn)
		}
		state = m.result.State
	}
	o.State = state
	for i := range o.State.Open {
		o.State.Open[i].Reported = false
	}
	entries, err := merged(sink.entries, 0)
	if err != nil {
		t.Fatal(err)
	}
	o.Entries = entries
	return o, pumps
}

func TestFoldInAnySplitOfPumpsIsTheSame(t *testing.T) {
	var journal []string
	for _, s := range loadRecording(t, "approvals.jsonl") {
		if s.Out != "" {
			journal = append(journal, s.Out)
		}
	}
	want, _ := splitFold(t, journal, 0)
	if len(want.Turns) != 2 || len(want.Entries) < 15 {
		t.Fatalf("in one: %+v", want)
	}
	most, seeds := 0, uint64(300)
	if testing.Short() {
		seeds = 30
	}
	for seed := range seeds {
		got, pumps := splitFold(t, journal, seed+1)
		most = max(most, pumps)
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("seed %d, %d pumps:\n%+v, want\n%+v", seed, pumps, got, want)
		}
	}
	if most < 15 {
		t.Errorf("at most %d pumps: nothing was split", most)
	}
}

// FuzzFold feeds arbitrary input to a pump within a turn. The pump must not panic or lose
// its place, and must number its entries without a gap.
func FuzzFold(f *testing.F) {
	for _, s := range loadRecording(f, "approvals.jsonl") {
		if s.Out != "" {
			f.Add([]byte(strings.NewReplacer("01a1fe19", ourThread).Replace(s.Out)+"\n"), uint8(0))
		}
	}
	f.Add([]byte(turnDone("completed", "")+"\n"+asking(1, "c", "x")+"\n"), uint8(3))
	f.Add([]byte(started("f", "fileChange", `,"changes":[{"path":1}]`)+"\n"+completed("f", "fileChange", `,"changes":null`)+"\n"), uint8(1))
	f.Add([]byte(`{"id":"send/m/0","result":null}`+"\n"+`{"id":"g1.p9.thread.0","result":[]}`+"\n"), uint8(2))
	f.Fuzz(func(t *testing.T, text []byte, how uint8) {
		in := PumpInput{Prefix: "g1.p9", State: running(), Limits: Limits{Line: 4 << 10}, Sends: []Send{
			{ID: "m", Kind: SendSteer, Text: "x"}, {ID: "i", Kind: SendInterrupt}, decision("d", 0, protocol.Accept),
		}}
		if how&1 != 0 {
			in.State.Opened, in.Thread = 0, ThreadSpec{CWD: "/w", Sandbox: "read-only", ApprovalPolicy: "never"}
		}
		opt := Options{Attempt: 1 + int(how>>1&1)}
		if how&4 != 0 {
			opt.Redactor = NewRedactor("thread-1 and so on", "completed")
		}
		size := in.State.Rewind
		if how&8 != 0 {
			size += int64(len(text))
		}
		k := newKeeper()
		m, err := newMachine(in, k, opt, size)
		if err != nil {
			t.Fatal(err)
		}
		m.atStart()
		split := wire.NewSplitter(in.State.Rewind, in.Limits.Line)
		split.Feed(text, func(l wire.Line) { m.read(l, m.now); m.out = nil })
		m.caughtUp(m.now)
		if m.result == nil {
			m.tick(m.wake())
		}
		m.ended(m.now)
		if m.result == nil {
			t.Fatalf("no result, %v", m.err)
		}
		for i, e := range k.entries {
			if e.Seq != in.State.Seq+int64(i)+1 {
				t.Fatalf("entry %d has seq %d", i, e.Seq)
			}
		}
		if c := m.result.State.Cursor.Offset; c < in.State.Cursor.Offset || c > split.Start {
			t.Fatalf("cursor %d of %d", c, split.Start)
		}
		if _, err := json.Marshal(m.result); err != nil {
			t.Fatal(err)
		}
		for _, o := range m.result.State.Open {
			if !wire.ValidID(o.RPC) {
				t.Fatalf("open request %s", o.RPC)
			}
		}
		_ = fmt.Sprintf("%+v", m.result)
	})
}

// FuzzAnySplit adds lines to the recorded turn. For any lines, it makes no difference where
// one pump ends and another continues.
func FuzzAnySplit(f *testing.F) {
	var journal []string
	begun, ended := 0, 0
	for _, s := range loadRecording(f, "approvals.jsonl") {
		if s.Out == "" {
			continue
		}
		journal = append(journal, s.Out)
		if begun == 0 && strings.Contains(s.Out, `"method":"turn/started"`) {
			begun = len(journal)
		}
		if ended == 0 && strings.Contains(s.Out, `"method":"turn/completed"`) {
			ended = len(journal) // behind this line, one pump knows of the second message and another does not
		}
	}
	for i, l := range journal[begun:] {
		f.Add([]byte(l), uint8(i*7), uint64(i))
	}
	const own = `"threadId":"01a1fe19-aa4b-7a71-a0b0-f06826637dce"`
	f.Add([]byte(`{"method":"item/started","params":{`+own+`,"item":{"id":"x","type":"reasoning"}}}
{"method":"item/reasoning/textDelta","params":{"itemId":"x","delta":"a"}}
{"method":"turn/aborted","params":{}}`), uint8(9), uint64(3))
	f.Add([]byte("\xff\n\n{\"method\":\"error\",\"params\":{}}\nx"), uint8(30), uint64(8))
	f.Fuzz(func(t *testing.T, text []byte, where uint8, seed uint64) {
		at := begun + int(where)%(ended-begun)
		all := slices.Concat(journal[:at], strings.Split(string(text), "\n"), journal[at:])
		want, _ := splitFold(t, all, 0)
		got, _ := splitFold(t, all, max(seed, 1))
		if !reflect.DeepEqual(got, want) {
			for i := range want.Entries {
				if i >= len(got.Entries) || !reflect.DeepEqual(got.Entries[i], want.Entries[i]) {
					t.Fatalf("entry %d: %+v, want\n%+v", i, got.Entries[min(i, len(got.Entries)-1)], want.Entries[i])
				}
			}
			t.Fatalf("%+v, want\n%+v", got, want)
		}
	})
}

// A model may choose item ids, so an item of a sub-agent may have the id of one of
// the session's thread.
func TestItemsOfTwoThreadsWithOneIDAreTwo(t *testing.T) {
	change := func(path string) string {
		return fmt.Sprintf(`,"changes":[{"path":%q,"kind":{"type":"add"},"diff":"+x"}]`, path)
	}
	theirs := func(line string) string { return strings.Replace(line, ourThread, "thread-2", 1) }
	s := perform(t, PumpInput{State: running()}, Options{})
	s.hear(started("call_0", "fileChange", change("/etc/passwd")), theirs(started("call_0", "fileChange", change("/w/readme"))),
		`{"method":"item/fileChange/requestApproval","id":7,"params":{"threadId":"thread-1","turnId":"turn-1","itemId":"call_0"}}`,
		`{"method":"item/fileChange/requestApproval","id":8,"params":{"threadId":"thread-2","turnId":"turn-2","itemId":"call_0"}}`,
		theirs(completed("call_0", "fileChange", change("/w/readme"))))
	if r := s.sink.requests; len(r) != 2 || r[0].Changes[0].Path != "/etc/passwd" || r[1].Changes[0].Path != "/w/readme" {
		t.Errorf("%+v", r)
	}
	if it := s.m.st.Items; len(it) != 1 || it[0].Thread != "" || !s.m.st.heldUp(it[0].key()) {
		t.Errorf("%+v", it)
	}
}
