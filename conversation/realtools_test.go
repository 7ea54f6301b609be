package conversation

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"fairlead.dev/fairlead/internal/lab/scriptedmodel"
	"fairlead.dev/fairlead/internal/protocol"
)

// A bench carries out calls and remembers them. A repeated call counts as one.
type bench struct {
	mu    sync.Mutex
	calls []ToolCall // as requested
	done  map[string]ToolReply
	fail  int // number of calls that fail at first
}

func (b *bench) tool(_ context.Context, c ToolCall) (ToolReply, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.calls = append(b.calls, c)
	if b.fail > 0 {
		b.fail--
		return ToolReply{}, fmt.Errorf("no store")
	}
	if b.done == nil {
		b.done = map[string]ToolReply{}
	}
	if r, ok := b.done[c.ID]; ok {
		return r, nil
	}
	var a struct{ Path string }
	if err := json.Unmarshal(c.Args, &a); err != nil {
		return ToolReply{}, err
	}
	r := ToolReply{Text: fmt.Sprintf("Delivered %s, number %d.", a.Path, len(b.done)+1), OK: a.Path != "/etc/passwd"}
	b.done[c.ID] = r
	return r, nil
}

const deliversAndReports = `
rules:
  - steps:
      - call: {name: report_progress, arguments: {text: "half way of {{ .LastUser }}", percent: 50.4, step: 1/2}}
      - - call: {name: deliver, arguments: {path: a.txt}}
        - call: {name: deliver, arguments: {path: /etc/passwd}}
      - say: "{{ range .Results }}{{ .Output }}; {{ end }}"
`

// ourToolsAreCalled shows that the model can call the tools that a session offers, and gets
// one reply to each call. This also works after a resume, in a fork, and on another host.
func ourToolsAreCalled(t *testing.T, c *codex) {
	s := scriptedmodel.Serve(t, deliversAndReports)
	k := c.talk(t, s)
	k.spec.Tools = []string{protocol.ToolAskHuman, protocol.ToolDeliver, protocol.ToolProgress}
	b := &bench{}
	k.opt.Tool = b.tool
	n := 0
	works := func(where string) {
		t.Helper()
		n++
		r := k.pump(TurnEnded, turn(n, fmt.Sprint("m-", n), where))
		if r.Turn.Status != "completed" {
			t.Fatalf("%s: turn %+v", where, r.Turn)
		}
		first := 2*n - 1
		if !strings.Contains(r.Turn.FinalText, "Taken.; ") ||
			strings.Count(r.Turn.FinalText, "Delivered ") != 2 || !strings.Contains(r.Turn.FinalText, fmt.Sprint("number ", first)) || !strings.Contains(r.Turn.FinalText, fmt.Sprint("number ", first+1)) {
			t.Errorf("%s: the model had %q", where, r.Turn.FinalText)
		}
		if p := r.State.Progress; p == nil || p.Text != "half way of "+where || *p.Percent != 50 || p.Step != "1/2" || p.Turn != n {
			t.Errorf("%s: progress %+v", where, p)
		}
		if len(r.State.Calls) != 0 {
			t.Errorf("%s: calls are left open: %+v", where, r.State.Calls)
		}
	}
	works("here")
	k.restart()
	works("after a resume")

	source := k.state.ThreadID
	k.restart()
	k.state.Opened = 0
	in := k.input(turn(3, "m-3", "in a fork"))
	in.Fork, n = true, 3
	if r := k.run(context.Background(), in); r.Reason != TurnEnded || r.Turn.Status != "completed" || !strings.Contains(r.Turn.FinalText, "number 6") {
		t.Fatalf("fork: %+v, turn %+v", r, r.Turn)
	}
	if k.state.ThreadID == source {
		t.Error("it is not forked")
	}
	k.elsewhere(s)
	works("elsewhere")

	// Each call has one entry, with the reply to the model, and one reply.
	var texts []string
	ok := map[string]int{}
	for _, e := range k.sink.entries {
		if e.Type == protocol.EntryTool {
			texts = append(texts, e.Tool+": "+e.Text)
			ok[e.Status]++
		}
	}
	if len(texts) != 12 || ok["completed"] != 8 || ok["failed"] != 4 {
		t.Errorf("on record: %v %q", ok, texts)
	}
	ids := map[string]bool{}
	for _, c := range b.calls {
		ids[c.ID] = true
	}
	if len(b.calls) != 8 || len(ids) != 8 {
		t.Errorf("carried out %d calls, %d of them different", len(b.calls), len(ids))
	}
	finishedTurnCountsAsTheAgentSays(t, c)
}

// finishedTurnCountsAsTheAgentSays shows that a turn which codex completes fails if the
// agent declares it failed, and that its word on one turn is not one on the next.
func finishedTurnCountsAsTheAgentSays(t *testing.T, c *codex) {
	k := c.talk(t, scriptedmodel.Serve(t, `
rules:
  - when: {exact: impossible}
    steps:
      - call: {name: finish, arguments: {outcome: failed, summary: there is no compiler}}
      - say: "{{ .LastToolOutput }} Sorry."
  - when: {exact: easy}
    steps:
      - call: {name: finish, arguments: {outcome: done, summary: all tests pass}}
      - say: good
  - reply: plain
`))
	k.spec.Tools = []string{protocol.ToolFinish}
	r := k.pump(TurnEnded, turn(1, "m-1", "impossible"))
	if p := r.Turn.Problem; r.Turn.Status != "failed" || p == nil || p.Kind != protocol.EndAgentFailed || !strings.Contains(p.Message, "no compiler") || r.Turn.FinalText != "Taken. End your turn now. Sorry." {
		t.Errorf("turn %+v, problem %+v", r.Turn, p)
	}
	r = k.pump(TurnEnded, turn(2, "m-2", "easy"))
	if f := r.Turn.Finish; r.Turn.Status != "completed" || r.Turn.Problem != nil || f == nil || f.Outcome != protocol.FinishDone || f.Summary != "all tests pass" {
		t.Errorf("turn %+v", r.Turn)
	}
	if r = k.pump(TurnEnded, turn(3, "m-3", "go on")); r.Turn.Status != "completed" || r.Turn.Finish != nil {
		t.Errorf("turn %+v", r.Turn)
	}
}

// In toolReplyOfADeadPump the pump dies after the tool had its effect, before or after it
// sent the reply. The next pump gives the same reply, and codex takes one of them.
func toolReplyOfADeadPump(t *testing.T, c *codex) {
	k := c.talk(t, scriptedmodel.Serve(t, `
rules:
  - steps:
      - call: {name: deliver, arguments: {path: a.txt}}
      - say: "{{ .LastToolOutput }}"
`))
	k.spec.Tools = []string{protocol.ToolDeliver}
	b := &bench{}
	in := k.input(turn(1, "m-1", "go"))

	// The first pump loses its wire after the effect, before the reply.
	w := k.p.wire(0)
	_, err := Run(context.Background(), w, in, k.sink, Options{Tool: func(ctx context.Context, call ToolCall) (ToolReply, error) {
		r, err := b.tool(ctx, call)
		w.Close()
		return r, err
	}})
	if err == nil {
		t.Fatal("the pump did not lose its wire")
	}
	// The second pump's reply is written, but it is not known whether it arrived.
	ctx, cancel := context.WithCancel(context.Background())
	b2 := func(ctx context.Context, call ToolCall) (ToolReply, error) {
		r, err := b.tool(ctx, call)
		cancel()
		return r, err
	}
	k.opt.Tool, k.opt.Attempt = b2, 2
	r := k.run(ctx, in)
	k.opt.Tool, k.opt.Attempt = b.tool, 0
	if r.Reason == PumpCancelled {
		r = k.pump(TurnEnded)
	}
	if r.Reason != TurnEnded || r.Turn.Status != "completed" || r.Turn.FinalText != "Delivered a.txt, number 1." {
		t.Fatalf("%s, turn %+v", r.Reason, r.Turn)
	}
	if len(b.done) != 1 || len(b.calls) < 2 {
		t.Errorf("done %d of %d calls", len(b.done), len(b.calls))
	}
	for _, c := range b.calls {
		if c.ID != b.calls[0].ID {
			t.Errorf("one call had the ids %q and %q", b.calls[0].ID, c.ID)
		}
	}
	entries := map[string]string{}
	for _, e := range k.sink.entries { // each attempt adds the same entries again
		if e.Type == protocol.EntryTool {
			entries[e.ID] = e.Text
		}
	}
	if len(entries) != 1 {
		t.Errorf("on record: %q", entries)
	}
}

// answeredCallIsOver shows that a pump does not wait for an answered call while a person is
// asked, with either way in which models call tools.
func answeredCallIsOver(t *testing.T, c *codex) {
	for _, model := range []string{functions, ""} {
		k := c.talk(t, scriptedmodel.Serve(t, `
rules:
  - steps:
      - call: {name: deliver, arguments: {path: a.txt}}
      - shell: {cmd: "echo out > out.txt", escalate: true, justification: "to see"}
      - say: done
`))
		k.spec.Tools, k.spec.Model = []string{protocol.ToolDeliver}, model
		k.opt.Tool = (&bench{}).tool
		r := k.pump(RequestsOpen, turn(1, "m-1", "go"))
		if len(r.State.Calls) != 0 || len(r.Requests) != 1 || r.Requests[0].Kind != protocol.KindCommand {
			t.Errorf("model %q: calls %+v, requests %+v", model, r.State.Calls, r.Requests)
		}
		k.pump(TurnEnded, decide("d", r.Requests[0], protocol.Accept))
	}
}
