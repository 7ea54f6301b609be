package standin

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// An act is one thing that a turn does. Its error ends the turn.
type act func(*turn) error

var errInterrupted = errors.New("interrupted")

// parse parses a message; see the package documentation. Other lines are said
// back.
func parse(text string) []act {
	var acts []act
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			acts = append(acts, parseLine(line))
		}
	}
	return acts
}

func parseLine(line string) act {
	word, rest, _ := strings.Cut(line, " ")
	rest = strings.TrimSpace(rest)
	n, nErr := strconv.Atoi(rest)
	size, sizeErr := parseSize(rest)
	d, dErr := time.ParseDuration(rest)
	switch {
	case word == "ask" && rest == "":
		return func(u *turn) error { return u.approvals("true", 1) }
	case word == "ask":
		return func(u *turn) error { return u.approvals(rest, 1) }
	case word == "asks" && nErr == nil:
		return func(u *turn) error { return u.approvals("true", n) }
	case word == "run" && rest != "":
		return func(u *turn) error { return u.command(rest) }
	case word == "leave" && rest != "":
		return func(u *turn) error { return u.leave(rest) }
	case word == "say" && nErr == nil:
		return func(u *turn) error { return u.say(strings.TrimSpace(strings.Repeat("word ", n))) }
	case word == "stream":
		if rate, long, ok := parseStream(rest); ok {
			return func(u *turn) error { return u.stream(rate, long) }
		}
	case word == "burst" && sizeErr == nil:
		return func(u *turn) error { return u.burst(size) }
	case word == "line" && sizeErr == nil:
		return func(u *turn) error { return u.longLine(size) }
	case word == "longask" && sizeErr == nil:
		return func(u *turn) error { return u.longAsk(size) }
	case word == "stderr" && sizeErr == nil:
		return func(u *turn) error { return u.complain(size) }
	case line == "noise":
		return (*turn).noise
	case word == "sleep" && dErr == nil:
		return func(u *turn) error { return u.sleep(time.After(d)) }
	case line == "hang":
		return func(u *turn) error { return u.sleep(nil) }
	case word == "exit" && nErr == nil:
		return func(*turn) error { os.Exit(n); return nil }
	case line == "die":
		return func(u *turn) error {
			if err := syscall.Kill(os.Getpid(), syscall.SIGKILL); err != nil {
				return err
			}
			return u.sleep(nil)
		}
	}
	return func(u *turn) error { return u.say("You said: " + line) }
}

// parseSize parses 20MB, 64KB or 100B.
func parseSize(s string) (int, error) {
	for _, unit := range []struct {
		name string
		size int
	}{{"MB", 1 << 20}, {"KB", 1 << 10}, {"B", 1}} {
		if text, ok := strings.CutSuffix(s, unit.name); ok {
			n, err := strconv.Atoi(text)
			return n * unit.size, err
		}
	}
	return 0, fmt.Errorf("%q is no size", s)
}

// parseStream parses `20/s for 60s`.
func parseStream(s string) (rate int, long time.Duration, ok bool) {
	speed, time1, found := strings.Cut(s, "/s for ")
	rate, err := strconv.Atoi(speed)
	long, err2 := time.ParseDuration(time1)
	return rate, long, found && err == nil && err2 == nil && rate > 0
}

// sleep returns errInterrupted early if the turn is interrupted.
func (u *turn) sleep(over <-chan time.Time) error {
	select {
	case <-over:
		return nil
	case <-u.stop:
		return errInterrupted
	}
}

func agentMessage(id, text string) object {
	return object{"type": "agentMessage", "id": id, "text": text, "startedAtMs": nowMS(), "completedAtMs": nil}
}

func (u *turn) say(text string) error {
	id := u.nextItem("msg")
	u.item("started", agentMessage(id, ""))
	for _, word := range strings.SplitAfter(text, " ") {
		u.s.notify("item/agentMessage/delta", object{"threadId": u.thread.id, "turnId": u.id, "itemId": id, "delta": word})
	}
	u.item("completed", agentMessage(id, text))
	u.usage()
	return nil
}

// stream says rate words a second. It follows the clock, so that a late word
// does not delay all later ones.
func (u *turn) stream(rate int, long time.Duration) error {
	id := u.nextItem("msg")
	u.item("started", agentMessage(id, ""))
	every := time.Second / time.Duration(rate)
	p, err := newPacer(every)
	if err != nil {
		return err
	}
	defer p.close()
	var all strings.Builder
	var buf []byte
	for i, n := 0, int(long/every); i < n; {
		due, err := p.wait()
		if err != nil {
			return err
		}
		for due = min(due, n-i); due > 0; due-- {
			select {
			case <-u.stop:
				return errInterrupted
			default:
			}
			word := "word" + strconv.Itoa(i) + " "
			all.WriteString(word)
			buf = u.s.delta(buf, u, id, word)
			i++
		}
	}
	u.item("completed", agentMessage(id, all.String()))
	u.usage()
	return nil
}

// burst fills the journal with messages of a megabyte, each preceded by its
// deltas.
func (u *turn) burst(size int) error {
	const piece, pieces = 1 << 10, 512
	text := strings.Repeat("x", piece-1) + " "
	var buf []byte
	for done := 0; done < size; done += 2 * piece * pieces {
		select {
		case <-u.stop:
			return errInterrupted
		default:
		}
		id := u.nextItem("msg")
		u.item("started", agentMessage(id, ""))
		for range pieces {
			buf = u.s.delta(buf, u, id, text)
		}
		u.item("completed", agentMessage(id, strings.Repeat(text, pieces)))
	}
	u.usage()
	return nil
}

func (u *turn) longLine(size int) error {
	id := u.nextItem("msg")
	u.item("started", agentMessage(id, ""))
	u.item("completed", agentMessage(id, strings.Repeat("x", size)))
	u.usage()
	return nil
}

// noise writes lines that a reader must tolerate.
func (u *turn) noise() error {
	for _, line := range []string{"", "   ", "this is no message", "\xff\xfe not UTF-8 \xc3", `{"half":`, `[1,2,3]`} {
		u.s.write([]byte(line))
	}
	return nil
}

func (u *turn) complain(size int) error {
	const line = "codex: this is a line of standard error that says nothing, at length\n"
	for n := 0; n < size; n += len(line) {
		if _, err := io.WriteString(u.s.errs, line); err != nil {
			return err
		}
	}
	return nil
}

func execution(id, command, cwd string) object {
	return object{"type": "commandExecution", "id": id, "command": shown(command), "cwd": cwd, "processId": nil, "source": "agent",
		"status": "inProgress", "commandActions": actions(command), "aggregatedOutput": nil, "exitCode": nil, "durationMs": nil,
		"startedAtMs": nowMS(), "completedAtMs": nil}
}

func shown(command string) string { return "/bin/bash -lc '" + command + "'" }

func actions(command string) []object {
	return []object{{"type": "unknown", "command": command}}
}

// approvals asks for a command n times at once and obeys the decisions.
func (u *turn) approvals(command string, n int) error {
	u.s.mu.Lock()
	known := u.s.allowed[command]
	u.s.mu.Unlock()
	if known {
		return u.command(command)
	}
	u.asks.Store(int32(n))
	u.status(active("waitingOnApproval"))
	type open struct {
		rpc    int
		item   string
		answer <-chan json.RawMessage
	}
	var list []open
	for range n {
		id := u.nextItem("call")
		u.item("started", execution(id, command, u.thread.set.CWD))
		rpc, answer := u.ask("item/commandExecution/requestApproval", u.approval(id, command, "it was asked for"))
		list = append(list, open{rpc, id, answer})
	}
	for i, o := range list {
		var err error
		select {
		case result := <-o.answer:
			err = u.decided(o.rpc, o.item, command, decisionOf(result))
		case <-u.stop:
			err = errInterrupted
		}
		if err != nil {
			for _, o := range list[i:] {
				u.withdraw(o.rpc)
				u.late = append(u.late, o.rpc)
			}
			u.asks.Store(0)
			return err
		}
	}
	u.usage()
	return nil
}

func (u *turn) approval(item, command, reason string) object {
	return object{"kind": "command", "threadId": u.thread.id, "turnId": u.id, "itemId": item, "startedAtMs": nowMS(), "environmentId": "local",
		"reason": reason, "command": shown(command), "cwd": u.thread.set.CWD, "commandActions": actions(command),
		"availableDecisions": []string{"accept", "cancel"}}
}

func decisionOf(result json.RawMessage) string {
	var a struct {
		Decision any `json:"decision"`
	}
	if json.Unmarshal(result, &a) != nil {
		return ""
	}
	d, _ := a.Decision.(string)
	return d
}

func (u *turn) decided(rpc int, item, command, decision string) error {
	u.resolved(rpc)
	if u.asks.Add(-1) == 0 {
		u.status(active())
	}
	switch decision {
	case "cancel":
		u.finish(item, command, "declined", nil, 0)
		u.usage()
		return errInterrupted
	case "acceptForSession":
		u.s.mu.Lock()
		u.s.allowed[command] = true
		u.s.mu.Unlock()
		fallthrough
	case "accept":
		return u.perform(item, command)
	case "decline":
		u.finish(item, command, "declined", nil, 0)
	default:
		u.finish(item, command, "failed", nil, 0)
	}
	return nil
}

func (u *turn) finish(item, command, status string, out []byte, code int) {
	it := execution(item, command, u.thread.set.CWD)
	it["status"], it["completedAtMs"] = status, nowMS()
	if out != nil {
		it["aggregatedOutput"], it["exitCode"], it["durationMs"] = string(out), code, 0
	}
	u.item("completed", it)
}

func (u *turn) longAsk(size int) error {
	u.asks.Store(1)
	u.status(active("waitingOnApproval"))
	id := u.nextItem("call")
	u.item("started", execution(id, "true", u.thread.set.CWD))
	rpc, answer := u.ask("item/commandExecution/requestApproval", u.approval(id, "true", strings.Repeat("x", size)))
	select {
	case result := <-answer:
		err := u.decided(rpc, id, "true", decisionOf(result))
		if err == nil {
			u.usage()
		}
		return err
	case <-u.stop:
		u.withdraw(rpc)
		u.late = append(u.late, rpc)
		u.asks.Store(0)
		return errInterrupted
	}
}
