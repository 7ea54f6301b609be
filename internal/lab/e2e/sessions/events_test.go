package sessions

import (
	"bufio"
	"encoding/json"
	"os/exec"
	"testing"
)

// An event is a line of `ctl session follow -o json`.
type event struct {
	Event string          `json:"event"`
	ID    string          `json:"id"`
	Seq   int64           `json:"seq"`
	Type  string          `json:"type"`
	Text  string          `json:"text"`
	State string          `json:"state"`
	At    json.RawMessage `json:"at"`
}

type events struct {
	t   *testing.T
	cmd *exec.Cmd
	ch  chan event
	all []event
}

func newEvents(t *testing.T, cmd *exec.Cmd) *events {
	t.Helper()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	e := &events{t: t, cmd: cmd, ch: make(chan event, 10000)}
	go func() {
		defer close(e.ch)
		s := bufio.NewScanner(out)
		s.Buffer(nil, 16<<20)
		for s.Scan() {
			var ev event
			if err := json.Unmarshal(s.Bytes(), &ev); err != nil {
				t.Errorf("follow printed %q: %v", s.Text(), err)
				return
			}
			e.ch <- ev
		}
	}()
	return e
}

func (e *events) await(what string, fits func(event) bool) {
	e.t.Helper()
	for ev := range e.ch {
		e.all = append(e.all, ev)
		if fits(ev) {
			return
		}
	}
	e.t.Fatalf("the follower ended before %s", what)
}

func (e *events) end() []event {
	e.t.Helper()
	for ev := range e.ch {
		e.all = append(e.all, ev)
	}
	if err := e.cmd.Wait(); err != nil {
		e.t.Errorf("follow ended with %v", err)
	}
	return e.all
}
