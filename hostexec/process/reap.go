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

// A Survivor is a process that Reap found and ended. Command is its name in the kernel,
// because arguments may contain secrets.
type Survivor struct {
	PID     int    `json:"pid"`
	Command string `json:"command"`
}

// maxSurvivors bounds the result of Reap, and maxComm a name in it. The kernel's names have
// 15 bytes.
const (
	maxSurvivors = 1000
	maxComm      = 64
)

// reapGrace is how long a process may take to end after TERM, and then its supervising
// shell to record the end.
const reapGrace = 2 * time.Second

// Reap ends every process on the host that still belongs to a session, and returns those
// that it found, at most maxSurvivors. A process belongs to the session if it has exactly this mark in its
// environment, if its work directory or program lies below dir, if it is in the Unix
// session of a process recorded in dir or dir/proc/*, if it has a journal or input of such
// a process open, or if it descends from one of these. Reap sends TERM, then KILL, until it
// finds none, and fails if some do not end. Supervising shells and attachments are ended
// too, but not returned.
//
// Reap never ends itself, its ancestors, or a person's process: one that belongs to an SSH
// login, has a terminal, or began before the session's first process. A daemon can hide if
// it forks twice with a clean environment, goes to / and closes its descriptors.
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
	kills := 0 // rounds in which everything got KILL
	for pause := 10 * time.Millisecond; ; pause = min(2*pause, 250*time.Millisecond) {
		res, err := h.Run(ctx, hostexec.Command{Script: reapScript, Args: []string{dir, mark, signal, all}, Fence: &fence})
		if err != nil {
			return found, processError(err)
		}
		if all != "" {
			kills++
		}
		var left []string
		for line := range strings.Lines(string(res.Stdout)) {
			line = strings.TrimSuffix(line, "\n")
			var kind string
			var s Survivor
			if n, _ := fmt.Sscanf(line, "%s %d", &kind, &s.PID); n != 2 {
				return found, fmt.Errorf("%w: %.200q", script.ErrGarbled, line)
			}
			left = append(left, line[:min(len(line), maxComm)])
			_, name, _ := strings.Cut(line, " ")
			_, s.Command, _ = strings.Cut(name, " ")
			s.Command = strings.Clone(s.Command[:min(len(s.Command), maxComm)]) // not all of the output
			if kind == "p" && len(found) < maxSurvivors && !slices.ContainsFunc(found, func(f Survivor) bool { return f.PID == s.PID }) {
				found = append(found, s)
			}
		}
		if len(left) == 0 {
			return found, nil
		}
		age := time.Since(began)
		switch {
		// On a slow host the time may be over before anything was killed.
		case age > reapGrace+killWait && kills > 2:
			return found, fmt.Errorf("%d are still there: %s", len(left), strings.Join(left[:min(len(left), 20)], ", "))
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
