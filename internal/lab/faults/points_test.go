package main

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"fairlead.dev/fairlead/internal/lab/scenario"
	"fairlead.dev/fairlead/internal/protocol"
)

func TestTheJudgesOfPointsSeeWhatIsNotOnce(t *testing.T) {
	verdict := protocol.Entry{Type: protocol.EntryDecision, Data: map[string]string{"by": "policy", "rule": "let it", "outcome": "accept"}}
	over := protocol.Entry{Type: protocol.EntryState, Status: "budget", Data: map[string]string{"budget": "commands", "used": "2"}}
	begun := []byte(`{"method":"item/started","params":{"item":{"type":"contextCompaction"}}}` + "\n")
	ended := protocol.SessionDetail{Turns: []protocol.TurnView{{Status: "interrupted", EndedBy: protocol.EndedByBudget, Error: &protocol.Failure{Kind: protocol.EndBudget}}}}
	byHand := ended
	byHand.Turns = []protocol.TurnView{{Status: "interrupted", EndedBy: protocol.EndedByPerson, Error: &protocol.Failure{Kind: protocol.EndInterrupted}}}
	judged := protocol.SessionDetail{View: protocol.SessionView{Judged: 1}}
	for name, c := range map[string]struct {
		judge                 func(*run, *scenario.Result, []byte, []protocol.Entry, protocol.SessionDetail)
		journal               []byte
		entries               []protocol.Entry
		d                     protocol.SessionDetail
		lost, repeated, wrong int
	}{
		"a verdict":                 {judgedOnce, nil, []protocol.Entry{verdict}, judged, 0, 0, 0},
		"no verdict":                {judgedOnce, nil, []protocol.Entry{over}, judged, 1, 0, 0},
		"two verdicts":              {judgedOnce, nil, []protocol.Entry{verdict, verdict}, judged, 0, 1, 0},
		"a verdict nobody counted":  {judgedOnce, nil, []protocol.Entry{verdict}, ended, 1, 0, 0},
		"a bound":                   {interruptedOnce, nil, []protocol.Entry{over}, ended, 0, 0, 0},
		"a bound, told twice":       {interruptedOnce, nil, []protocol.Entry{over, over}, ended, 0, 0, 1},
		"a bound, never told":       {interruptedOnce, nil, []protocol.Entry{verdict}, ended, 0, 0, 1},
		"a turn ended by somebody":  {interruptedOnce, nil, []protocol.Entry{over}, byHand, 0, 0, 1},
		"a compaction":              {begunOnce("contextCompaction"), begun, nil, ended, 0, 0, 0},
		"no compaction":             {begunOnce("contextCompaction"), nil, nil, ended, 0, 0, 1},
		"a compaction, begun twice": {begunOnce("contextCompaction"), append(begun, begun...), nil, ended, 0, 0, 1},
	} {
		var res scenario.Result
		c.judge(&run{}, &res, c.journal, c.entries, c.d)
		if len(res.Found[answerLost]) != c.lost || len(res.Found[answerRepeated]) != c.repeated || len(res.Found[wrong]) != c.wrong {
			t.Errorf("%s: judged %+v", name, res)
		}
	}
}

// A point is held only if nothing more can be written.
func TestAFullInputTakesNothing(t *testing.T) {
	fifo := filepath.Join(t.TempDir(), "in")
	must(t, syscall.Mkfifo(fifo, 0o600))
	reader, err := os.OpenFile(fifo, os.O_RDWR, 0) // as codex holds its own
	must(t, err)
	defer reader.Close()
	_, err = reader.WriteString("\n{\"id\":1}\n")
	must(t, err)
	must(t, fillInput(fifo))
	w, err := os.OpenFile(fifo, os.O_WRONLY|syscall.O_NONBLOCK, 0)
	must(t, err)
	defer w.Close()
	raw, err := w.SyscallConn()
	must(t, err)
	must(t, raw.Write(func(fd uintptr) bool {
		_, err = syscall.Write(int(fd), []byte("x"))
		return true
	}))
	if err != syscall.EAGAIN {
		t.Errorf("a byte more: %v", err)
	}
	if text, err := peek(fifo); err != nil || trimBlank(text) != `{"id":1}` {
		t.Errorf("it holds %q, %v", text, err)
	}
}
