package process

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/hostexec/internal/script"
)

// A Survivor is a process that Reap found and ended. Command is its name in the kernel. It
// has no arguments, because these may contain secrets.
type Survivor struct {
	PID     int    `json:"pid"`
	Command string `json:"command"`
}

// reapGrace is the time that a process gets to end after TERM. A supervising shell gets the
// same time to record the end of its process.
const reapGrace = 2 * time.Second

// Reap ends every process on the host that still belongs to a session, and returns the
// processes that it found. A process belongs to the session if it has exactly this mark in
// its environment, if its work directory or its program lies below dir, if it is in the
// Unix session of a process that is recorded in dir or dir/proc/*, if it has a journal or
// an input of such a process open, or if it descends from one of all these. Reap sends
// TERM, then KILL, until it finds none, and fails if some do not end. Supervising shells
// and attachments of these processes are ended too, but not reported.
//
// Reap never ends itself, its ancestors, or a process of a person who looks around in dir.
// A process counts as a person's if it belongs to an SSH login, has a terminal, or began
// before the first process that Start started for the session. It does not find a process
// that hides on purpose (no mark, descent, path or journal), such as a daemon that forked
// twice with a clean environment, went to / and closed its descriptors.
func Reap(ctx context.Context, h hostexec.Host, dir, mark string, fence hostexec.Fence) ([]Survivor, error) {
	found, err := reap(ctx, h, dir, mark, fence)
	if err != nil {
		return found, fmt.Errorf("reap what is left of %s on %s: %w", dir, h.Name(), err)
	}
	return found, nil
}

func reap(ctx context.Context, h hostexec.Host, dir, mark string, fence hostexec.Fence) ([]Survivor, error) {
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
		res, err := h.Run(ctx, hostexec.Command{Script: reapScript, Args: []string{dir, mark, signal, all}, Fence: &fence})
		if err != nil {
			return found, processError(err)
		}
		var left []string
		for line := range strings.Lines(string(res.Stdout)) {
			line = strings.TrimSuffix(line, "\n")
			var kind string
			var s Survivor
			if n, _ := fmt.Sscanf(line, "%s %d", &kind, &s.PID); n != 2 {
				return found, fmt.Errorf("%w: %q", script.ErrGarbled, line)
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
