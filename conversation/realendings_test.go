package conversation

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"fairlead.dev/fairlead/internal/lab/scriptedmodel"
	"fairlead.dev/fairlead/internal/protocol"
)

// These tests produce each kind of ending by its real cause, with the real codex.

// A failing is a failure of the model, and the ending that the turn must have.
type failing struct {
	name, fail string
	kind       string
	retries    bool          // codex says first that it tries again
	resets     time.Duration // when the limit resets; 0 means unknown
	alone      bool          // tried in its own thread, because codex compacts before the next turn
	either     bool          // some versions try again, some do not
}

// failings are the errors that providers answer with.
var failings = []failing{
	{name: "unauthorized", fail: "{kind: unauthorized, times: -1}", kind: protocol.EndAuth, retries: true},
	{name: "forbidden", fail: "{kind: forbidden, times: -1}", kind: protocol.EndAuth, retries: true},
	{name: "bad request", fail: "{kind: bad_request, times: -1}", kind: "bad_request"},
	{name: "no such model", fail: "{kind: not_found, times: -1}", kind: protocol.EndModelNotFound, either: true},
	{name: "no such page", fail: "{kind: not_found, code: none, message: 404 page not found, times: -1}", kind: "network", either: true},
	{name: "server error", fail: "{kind: server_error, times: -1}", kind: "network", retries: true},
	{name: "overloaded", fail: "{kind: overloaded, times: -1}", kind: protocol.EndOverloaded},
	{name: "overloaded in a stream", fail: "{kind: failed, code: server_is_overloaded, times: -1}", kind: protocol.EndOverloaded},
	{name: "too many requests", fail: "{kind: rate_limited, times: -1}", kind: protocol.EndRateLimit},
	{name: "too many in a stream", fail: "{kind: failed, code: rate_limit_exceeded, message: 'Rate limit reached. Please try again in 1.5s.', times: -1}", kind: protocol.EndRateLimit, retries: true, resets: 1500 * time.Millisecond},
	{name: "usage limit", fail: "{kind: usage_limit, resets_in: 90m, times: -1}", kind: protocol.EndQuota, resets: 90 * time.Minute},
	{name: "usage limit for days", fail: "{kind: usage_limit, resets_in: 75h, times: -1}", kind: protocol.EndQuota, resets: 75 * time.Hour},
	{name: "no credit", fail: "{kind: failed, code: insufficient_quota, times: -1}", kind: protocol.EndQuota},
	{name: "cut", fail: "{kind: cut, times: -1}", kind: "network", retries: true},
	{name: "dropped", fail: "{kind: drop, times: -1}", kind: "network", retries: true},
	{name: "stalled", fail: "{kind: stall, times: -1}", kind: "network", retries: true},
	{name: "incomplete", fail: "{kind: incomplete, times: -1}", kind: protocol.EndOther, either: true},
	{name: "no room in a stream", fail: "{kind: failed, code: context_length_exceeded, times: -1}", kind: "context_window", alone: true},
	{name: "no room", fail: "{kind: context_length, times: -1}", kind: "context_window", alone: true},
}

func failuresOfTheRealCodexAreClassified(t *testing.T, c *codex) {
	var script strings.Builder
	script.WriteString("rules:\n")
	for _, f := range failings {
		fmt.Fprintf(&script, "  - when: {exact: %s}\n    steps:\n      - - fail: %s\n        - say: never\n", f.name, f.fail)
	}
	s := scriptedmodel.Serve(t, script.String())
	talk := func() *talk {
		k := c.talkWith(t, s, func(config string) string {
			return strings.Replace(config, "stream_max_retries = 2", "stream_max_retries = 2\nstream_idle_timeout_ms = 700", 1)
		})
		k.opt.Zone = func() *time.Location { return time.Local }
		return k
	}
	same := talk()
	for n, f := range failings {
		k := same
		if f.alone {
			k = talk()
		}
		before := len(k.sink.entries)
		r := k.pump(TurnEnded, turn(n+1, fmt.Sprintf("m-%d", n), f.name))
		p := r.Turn.Problem
		if r.Turn.Status != "failed" || p == nil || p.Kind != f.kind || p.Hint == "" {
			t.Errorf("%s: turn %+v, problem %+v, want %s", f.name, r.Turn, p, f.kind)
			continue
		}
		retrying, failed := 0, 0
		for _, e := range k.sink.entries[before:] {
			switch {
			case e.Type == protocol.EntryError && e.Status == "retrying":
				retrying++
			case e.Type == protocol.EntryError && e.Data["problem"] == f.kind:
				failed++
			}
		}
		if failed != 1 || !f.either && f.retries != (retrying > 0) {
			t.Errorf("%s: %d entries of tries, %d of the failure", f.name, retrying, failed)
		}
		f.checkReset(t, p, time.UnixMilli(r.Turn.EndedAtMS))
	}
	downAndUnset(t, c, s)
}

// checkReset checks the time at which a limit ends. codex gives a time of day in minutes,
// by the clock of this machine.
func (f failing) checkReset(t *testing.T, p *protocol.Problem, ended time.Time) {
	t.Helper()
	if f.resets == 0 {
		if !p.ResetAt.IsZero() {
			t.Errorf("%s: it is to end at %s", f.name, p.ResetAt)
		}
		return
	}
	if off := p.ResetAt.Sub(ended.Add(f.resets)); off < -2*time.Minute || off > 2*time.Minute {
		t.Errorf("%s: it is to end at %s, want %s after %s (%s)", f.name, p.ResetAt, f.resets, ended, p.Message)
	}
}

// downAndUnset are failures without an answer from a provider.
func downAndUnset(t *testing.T, c *codex, s *scriptedmodel.Server) {
	k := c.talkWith(t, s, func(config string) string {
		return strings.Replace(config, `experimental_bearer_token = "a-token"`, `env_key = "NOBODY_SET_THIS"`, 1)
	})
	r := k.run(t.Context(), k.input(turn(1, "m", "hello")))
	p := r.Problem
	if r.Turn != nil {
		p = r.Turn.Problem
	}
	if p == nil || p.Kind != protocol.EndAuth {
		t.Errorf("without the variable of the key: %s, problem %+v", r.Reason, p)
	}
	k.p.kill()

	l, err := net.Listen("tcp", "127.0.0.1:0") // nobody will listen there
	if err != nil {
		t.Fatal(err)
	}
	nobody := "http://" + l.Addr().String() + "/v1"
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	k = c.talkWith(t, s, func(string) string { return scriptedmodel.ConfigTOML(nobody, "a-token") })
	in := k.input(turn(1, "m", "hello"))
	in.Limits.Retry = 5 * time.Second
	switch r = k.run(t.Context(), in); r.Reason {
	case TurnEnded:
		if r.Turn.Problem == nil || r.Turn.Problem.Kind != protocol.EndNetwork {
			t.Errorf("with its provider down: turn %+v", r.Turn)
		}
	case TimedOut: // newer versions wait for the network without a limit of their own
		c.note = "yes; while its provider cannot be reached, the turn waits"
		if r.Problem == nil || r.Problem.Kind != protocol.EndNetwork {
			t.Errorf("with its provider down, after the limit: %+v", r.Problem)
		}
		if !strings.Contains(r.State.Retrying, "network") {
			t.Errorf("what it tries again is not known: %q", r.State.Retrying)
		}
		if countRetries(k.sink.entries) == 0 {
			t.Error("its transcript does not say that it tries again")
		}
	default:
		t.Errorf("with its provider down, the pump returned for %s: %+v", r.Reason, r.Problem)
	}
}

// countRetries counts the entries that say that codex tries again because of the
// network.
func countRetries(entries []protocol.Entry) (n int) {
	for _, e := range entries {
		if e.Type == protocol.EntryError && e.Status == "retrying" && e.Data["problem"] == "network" {
			n++
		}
	}
	return n
}

// talkWith talks to a codex whose config.toml is changed.
func (c *codex) talkWith(t *testing.T, s *scriptedmodel.Server, change func(string) string) *talk {
	t.Helper()
	h := newHome(t, s)
	h.codex = c.version
	name := filepath.Join(h.dir, "config.toml")
	config, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(change(string(config))), 0o600); err != nil {
		t.Fatal(err)
	}
	return talkAt(t, h)
}

// halt stops codex, so that it lives and does nothing, as if wedged. It returns when each
// thread has stopped: a signal takes effect only after it was sent, and on a busy machine a
// thread may answer in between.
func (p *process) halt(t *testing.T) {
	t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	late := time.After(patience)
	for !stopped(t, p.cmd.Process.Pid) {
		select {
		case <-time.After(time.Millisecond):
		case <-late:
			t.Fatalf("process %d did not stop", p.cmd.Process.Pid)
		}
	}
}

func stopped(t *testing.T, pid int) bool {
	t.Helper()
	tasks := fmt.Sprintf("/proc/%d/task", pid)
	threads, err := os.ReadDir(tasks)
	if err != nil {
		t.Fatal(err)
	}
	for _, thread := range threads {
		stat, err := os.ReadFile(filepath.Join(tasks, thread.Name(), "stat"))
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
			continue // it has ended
		}
		if err != nil {
			t.Fatal(err)
		}
		// The state comes after the name, which may hold any bytes.
		if _, rest, _ := bytes.Cut(stat[bytes.LastIndexByte(stat, ')'):], []byte(" ")); rest[0] != 'T' {
			return false
		}
	}
	return true
}

func eachWatchdogStrikesForItsCause(t *testing.T, c *codex) {
	s := scriptedmodel.Serve(t, `
rules:
  - when: {contains: talk}
    steps: [[say: {text: "`+strings.Repeat("word ", 3000)+`", pace: 20ms}]]
  - when: {contains: work}
    steps: [[shell: "true"], [wait: never, say: too late]]
  - reply: fine
`)
	strikes := func(k *talk, kind string, sends ...Send) PumpResult {
		t.Helper()
		r := k.pump(TimedOut, sends...)
		if r.Problem == nil || r.Problem.Kind != kind || r.Problem.Hint == "" {
			t.Errorf("problem %+v, want %s", r.Problem, kind)
		}
		k.restart() // the remedy for this ending
		k.limit = Limits{}
		return r
	}
	k := c.talk(t, s)
	k.p.halt(t)
	k.limit = Limits{StartUp: time.Second}
	strikes(k, protocol.EndStartTimeout)
	if r := k.pump(TurnEnded, turn(1, "m-1", "hello")); r.Turn.Status != "completed" {
		t.Errorf("turn %+v", r.Turn)
	}

	k.p.halt(t)
	k.limit = Limits{Request: time.Second}
	if r := strikes(k, protocol.EndRequestTimeout, turn(2, "m-2", "hello")); delivered(t, r, "m-2") != protocol.Sent {
		t.Errorf("%+v", r.Deliveries)
	}

	// The short limits are only for the stopped codex, because a working codex may need
	// longer for an answer on a busy machine.
	ended := make(chan PumpResult, 1)
	in := k.input(turn(3, "m-3", "talk"))
	ctx, cancel := context.WithCancel(context.Background())
	go func() { ended <- k.run(ctx, in) }()
	k.sink.await(t, "the stream", func() bool { return len(k.sink.deltas) > 3 })
	k.p.halt(t)
	cancel()
	if r := <-ended; r.Reason != PumpCancelled {
		t.Fatalf("%s, %+v", r.Reason, r.Problem)
	}
	k.limit = Limits{Silence: 500 * time.Millisecond, Request: time.Second}
	if r := strikes(k, protocol.EndSilent); r.State.TurnID == "" {
		t.Errorf("state %+v", r.State)
	}

	k.limit = Limits{Turn: time.Second}
	strikes(k, protocol.EndTurnTimeout, turn(4, "m-4", "talk"))

	k.spec.Sandbox = "danger-full-access"
	// The short limit counts from the end of the tool. Codex reports the tokens of the
	// tool's call before it begins the call, and that report counts as the end of a tool.
	ended = make(chan PumpResult, 1)
	in = k.input(turn(5, "m-5", "work"))
	ctx, cancel = context.WithCancel(context.Background())
	go func() { ended <- k.run(ctx, in) }()
	k.sink.await(t, "the end of the tool", func() bool {
		return slices.ContainsFunc(k.sink.entries, func(e protocol.Entry) bool { return e.Type == protocol.EntryCommand && e.Turn == 5 })
	})
	cancel()
	if r := <-ended; r.Reason != PumpCancelled {
		t.Fatalf("%s, %+v", r.Reason, r.Problem)
	}
	k.limit = Limits{Quiet: time.Second}
	if r := strikes(k, protocol.EndQuietAfterTool); r.State.TurnItems == 0 || !r.State.TurnEffects {
		t.Errorf("state %+v", r.State)
	}

	// The thread goes on in a new process, and nothing was sent again.
	if r := k.pump(TurnEnded, turn(6, "m-6", "hello")); r.Turn.Status != "completed" || r.Turn.FinalText != "fine" {
		t.Errorf("turn %+v", r.Turn)
	}
	for _, id := range []string{"m-2", "m-3", "m-4", "m-5"} {
		if n := strings.Count(string(k.p.sent.bytes()), `"`+id+`"`); n != 0 {
			t.Errorf("%s was said to the new process %d times", id, n)
		}
	}
}

// While a person is asked or a model thinks, no watchdog ends the turn.
func noWatchdogStrikesWhileSomebodyThinks(t *testing.T, c *codex) {
	s := scriptedmodel.Serve(t, `
rules:
  - when: {contains: think}
    steps: [[wait: thought, say: I thought about it]]
  - when: {contains: ask}
    steps: [[shell: {cmd: "touch asked", escalate: true, justification: please}], [say: done]]
`)
	k := c.talk(t, s)
	k.limit = Limits{Silence: 100 * time.Millisecond, Quiet: 100 * time.Millisecond}
	ended := make(chan PumpResult, 1)
	in := k.input(turn(1, "m-1", "think"))
	ctx, cancel := context.WithCancel(context.Background())
	go func() { ended <- k.run(ctx, in) }()
	k.sink.await(t, "the model to think", func() bool { return len(s.Requests()) > 0 })
	// codex is asked for signs of life repeatedly, and gives them.
	asked := func() int { return strings.Count(string(k.p.sent.bytes()), `.life-a1.`) }
	before := asked()
	k.sink.await(t, "signs of life", func() bool { return asked() > before+5 })
	cancel()
	if r := <-ended; r.Reason != PumpCancelled || r.Problem != nil {
		t.Errorf("%s, %+v", r.Reason, r.Problem)
	}
	// The turn ends without the short limits, because on a busy machine codex may need
	// longer between the model's last output and the end of the turn.
	k.limit = Limits{Silence: 100 * time.Millisecond}
	s.Release("thought")
	if r := k.pump(TurnEnded); r.Problem != nil || r.Turn.Status != "completed" || r.Turn.FinalText != "I thought about it" {
		t.Errorf("%+v, turn %+v", r.Problem, r.Turn)
	}

	r := k.pump(RequestsOpen, turn(2, "m-2", "ask"))
	// No pump is attached while a person thinks. If a pump runs anyway, it returns at once
	// and finds nothing wrong.
	for range 5 {
		if again := k.run(t.Context(), k.input()); again.Reason != RequestsOpen || again.Problem != nil {
			t.Fatalf("%s, %+v", again.Reason, again.Problem)
		}
	}
	if r := k.pump(TurnEnded, decide("d", r.Requests[0], protocol.Accept)); r.Turn.Status != "completed" {
		t.Errorf("turn %+v", r.Turn)
	}
}

// A line that is too long stops the turn only if nothing else shows its end.
func longLineIsOnRecord(t *testing.T, c *codex) {
	s := scriptedmodel.Serve(t, `
rules:
  - when: {contains: much}
    steps: [[say: "`+strings.Repeat("word ", 60_000)+`"]]
  - reply: fine
`)
	k := c.talk(t, s)
	k.limit = Limits{Line: 128 << 10}
	r := k.pump(TurnEnded, turn(1, "m-1", "much"))
	switch p := r.Turn.Problem; r.Turn.Status {
	case "completed": // the line with the turn's end does not repeat the text
		c.note = "yes, and the turn completes"
	case "unknown":
		if p == nil || p.Kind != protocol.EndOversize || p.Hint == "" {
			t.Errorf("problem %+v", p)
		}
	default:
		t.Errorf("turn %+v", r.Turn)
	}
	var seen bool
	for _, text := range k.sink.text(protocol.EntryState) {
		seen = seen || strings.Contains(text, "bytes was skipped") && strings.Contains(text, "item/completed")
	}
	if !seen {
		t.Errorf("no entry tells of it: %q", k.sink.text(protocol.EntryState))
	}
	if r := k.pump(TurnEnded, turn(2, "m-2", "hello")); r.Turn.Status != "completed" || r.Turn.FinalText != "fine" {
		t.Errorf("turn %+v", r.Turn)
	}
}
