package hostexec

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

// A Survivor is a process that Reap found and ended. Command is its name as
// the kernel has it, without arguments: those may hold anything.
type Survivor struct {
	PID     int    `json:"pid"`
	Command string `json:"command"`
}

// reapGrace is how long what is found has to end after TERM, and how long a
// supervising shell has to record the end of what it waits for.
const reapGrace = 2 * time.Second

// Reap ends whatever on the host still belongs to a session and returns what
// it found: processes with its mark in their environment, with a work directory
// or a program below dir, of the session of a recorded process in dir or
// dir/proc/*, with a journal or an input of theirs open, and the descendants of
// all of these. The mark must match
// exactly. TERM comes first, then KILL, until a last look finds none; it fails
// if something is still there then. Supervising shells and attachments of
// these processes are ended too, and not reported.
//
// It never ends itself, whom it descends from, or somebody who logged in over
// SSH and looks around in dir. A process that hides on purpose (no mark, no
// descent, no path, no journal) is not found: a daemon that forked twice with a
// clean environment, went to / and closed what it was given.
func Reap(ctx context.Context, h Host, dir, mark string, fence Fence) ([]Survivor, error) {
	found, err := reap(ctx, h, dir, mark, fence)
	if err != nil {
		return found, fmt.Errorf("reap what is left of %s on %s: %w", dir, h.Name(), err)
	}
	return found, nil
}

func reap(ctx context.Context, h Host, dir, mark string, fence Fence) ([]Survivor, error) {
	if err := checkDir(dir); err != nil {
		return nil, err
	}
	if mark != "" && !markPattern.MatchString(mark) {
		return nil, fmt.Errorf("mark %q holds more than letters, digits and ._:/@+-", mark)
	}
	var found []Survivor
	began := time.Now()
	signal, all := "TERM", ""
	for pause := 10 * time.Millisecond; ; pause = min(2*pause, 250*time.Millisecond) {
		res, err := h.Run(ctx, Command{Script: reapScript, Args: []string{dir, mark, signal, all}, Fence: &fence})
		if err != nil {
			return found, processError(err)
		}
		var left []string
		for line := range strings.Lines(string(res.Stdout)) {
			line = strings.TrimSuffix(line, "\n")
			var kind string
			var s Survivor
			if n, _ := fmt.Sscanf(line, "%s %d", &kind, &s.PID); n != 2 {
				return found, fmt.Errorf("%w: %q", errGarbled, line)
			}
			left = append(left, line)
			_, name, _ := strings.Cut(line, " ")
			_, s.Command, _ = strings.Cut(name, " ")
			if kind == "p" && !slices.ContainsFunc(found, func(f Survivor) bool { return f.PID == s.PID }) {
				found = append(found, s)
			}
		}
		if len(left) == 0 {
			return found, nil
		}
		age := time.Since(began)
		switch {
		case age > reapGrace+killWait:
			return found, fmt.Errorf("still there: %s", strings.Join(left, ", "))
		case age > 2*reapGrace:
			signal, all = "KILL", "y"
		case age > reapGrace:
			signal = "KILL"
		default:
			signal = "0"
		}
		if err := sleep(ctx, pause); err != nil {
			return found, err
		}
	}
}
