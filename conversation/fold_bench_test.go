package conversation

import (
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"fairlead.dev/fairlead/conversation/wire"
	"fairlead.dev/fairlead/internal/protocol"
)

type nowhere struct{ deltas int }

func (*nowhere) Entry(protocol.Entry) error     { return nil }
func (*nowhere) Request(protocol.Request) error { return nil }
func (n *nowhere) Delta(protocol.Delta)         { n.deltas++ }

// streams returns lines with streamed pieces, and the lines that begin their items: the
// recorded ones, and lines of a command's output.
func streams(t testing.TB) map[string][2][]string {
	var begun, pieces []string
	for _, s := range loadRecording(t, "approvals.jsonl") {
		switch {
		case strings.HasPrefix(s.Out, `{"method":"item/started"`):
			begun = append(begun, s.Out)
		case strings.HasPrefix(s.Out, `{"method":"item/`) && strings.Contains(s.Out[:60], "elta\""):
			pieces = append(pieces, s.Out)
		}
	}
	var output []string
	for i := range 100 {
		text := fmt.Sprintf("\x1b[32mok\x1b[0m  \tpackage/%d \"größer\"\n%s\n", i, strings.Repeat("a line of a build's output; ", i%10))
		output = append(output, wireEvent("item/commandExecution/outputDelta", fmt.Sprintf(`"itemId":"call_1","delta":%s`, canonical(text))))
	}
	return map[string][2][]string{
		"recorded": {begun, pieces},
		"output":   {{started("call_1", "commandExecution", "")}, output},
	}
}

// BenchmarkFold folds pieces of text, one per op, from the journal's bytes to the sink.
// "json" only decodes the same lines with encoding/json.
func BenchmarkFold(b *testing.B) {
	tokens := NewRedactor(strings.Repeat("eyJhbGciOi.", 150), strings.Repeat("rt_0123456789", 5), strings.Repeat("eyJzdWIiOi.", 150))
	for _, name := range []string{"recorded", "output"} {
		begun, pieces := streams(b)[name][0], streams(b)[name][1]
		for what, opt := range map[string]Options{"": {}, "/redacted": {Redactor: tokens}} {
			b.Run(name+what, func(b *testing.B) {
				sink := &nowhere{}
				st := running()
				st.ThreadID = ""
				m, err := newMachine(PumpInput{Prefix: "g1.p9", State: st, Limits: Limits{Bytes: 1 << 60}}, sink, opt, 0)
				if err != nil {
					b.Fatal(err)
				}
				m.atStart()
				split := wire.NewSplitter(st.Rewind, 0)
				read := func(l wire.Line) { m.read(l, 0) }
				split.Feed([]byte(strings.Join(begun, "\n")+"\n"), read)
				measure(b, pieces, func(line []byte) { split.Feed(line, read) })
				if m.result != nil || m.err != nil || sink.deltas < b.N*9/10 {
					b.Fatalf("%d pieces shown of %d; %v, %v", sink.deltas, b.N, m.result, m.err)
				}
			})
		}
		b.Run(name+"/json-map", func(b *testing.B) {
			measure(b, pieces, func(line []byte) {
				var v map[string]any
				if err := json.Unmarshal(line, &v); err != nil {
					b.Fatal(err)
				}
			})
		})
		b.Run(name+"/json-struct", func(b *testing.B) {
			measure(b, pieces, func(line []byte) {
				var v struct {
					Method      string           `json:"method"`
					Params      wire.DeltaNotice `json:"params"`
					EmittedAtMS int64            `json:"emittedAtMs"`
				}
				if err := json.Unmarshal(line, &v); err != nil {
					b.Fatal(err)
				}
			})
		})
	}
}

// measure feeds one line per op, and begins again after the last line.
func measure(b *testing.B, pieces []string, feed func(line []byte)) {
	var lines [][]byte
	for _, p := range pieces {
		lines = append(lines, []byte(p+"\n"))
	}
	measured(b, pieces, func() {
		for i := range b.N {
			feed(lines[i%len(lines)])
		}
	})
}

// BenchmarkFoldTurns folds whole recorded turns, one event per op. It measures the average
// cost of a line of a conversation, with or without text, from the journal's bytes to the
// entries. "json" only decodes the same lines with encoding/json.
func BenchmarkFoldTurns(b *testing.B) {
	thread, turns := wholeTurns(b)
	var all []string
	for _, lines := range turns {
		all = append(all, lines...)
	}
	b.Run("fold", func(b *testing.B) {
		sink, n := &nowhere{}, 0
		whole := make([]string, len(turns))
		for i, lines := range turns {
			whole[i] = strings.Join(lines, "\n") + "\n"
		}
		measured(b, all, func() {
			for i := 0; n < b.N; i = (i + 1) % len(turns) {
				st := PumpState{Cursor: protocol.Cursor{Incarnation: 1}, Opened: 1, ThreadID: thread}
				m, err := newMachine(PumpInput{Prefix: "g1.p9", State: st}, sink, Options{}, int64(len(whole[i])))
				if err != nil {
					b.Fatal(err)
				}
				m.atStart()
				split := wire.NewSplitter(0, 0)
				split.Feed([]byte(whole[i]), func(l wire.Line) { m.read(l, 0) })
				if m.err != nil || m.turns.end == nil {
					b.Fatalf("the turn did not end: %v", m.err)
				}
				n += len(turns[i])
			}
		})
	})
	b.Run("json-map", func(b *testing.B) {
		measured(b, all, func() {
			for i := range b.N {
				var v map[string]any
				if err := json.Unmarshal([]byte(all[i%len(all)]), &v); err != nil {
					b.Fatal(err)
				}
			}
		})
	})
}

// wholeTurns returns the lines of each recorded turn whose end was recorded.
func wholeTurns(t testing.TB) (thread string, turns [][]string) {
	var turn []string
	for _, s := range loadRecording(t, "approvals.jsonl") {
		switch {
		case strings.HasPrefix(s.Out, `{"method":"turn/started"`):
			var m struct {
				Params struct {
					ThreadID string `json:"threadId"`
				} `json:"params"`
			}
			if err := json.Unmarshal([]byte(s.Out), &m); err != nil {
				t.Fatal(err)
			}
			thread, turn = m.Params.ThreadID, []string{s.Out}
		case s.Out == "" || turn == nil:
		case strings.HasPrefix(s.Out, `{"method":"turn/completed"`):
			turns, turn = append(turns, append(turn, s.Out)), nil
		default:
			turn = append(turn, s.Out)
		}
	}
	if len(turns) == 0 {
		t.Fatal("the recording has no turn")
	}
	return thread, turns
}

// measured measures the time of do, which handles b.N lines, and begins again after the
// last line.
func measured(b *testing.B, lines []string, do func()) {
	size := 0
	for _, l := range lines {
		size += len(l) + 1
	}
	b.SetBytes(int64(size / len(lines)))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	b.ResetTimer()
	do()
	b.StopTimer()
	runtime.ReadMemStats(&after)
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
	b.ReportMetric(float64(after.Mallocs-before.Mallocs)/float64(b.N), "allocs/event")
}
