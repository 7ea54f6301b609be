package process

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/hostexec/internal/script"
)

// A StartError means that the command cannot be run. No process is left.
type StartError struct {
	// Reason is the host's message.
	Reason string
	// Guard is the exit status of Spec.Guard if that failed.
	Guard int
	err   error
}

func (e *StartError) Error() string {
	return "process did not begin" + script.FirstLine([]byte(e.Reason))
}

// Unwrap returns the typed error, for example ErrNoSpace, or nil.
func (e *StartError) Unwrap() error { return e.err }

// markEnv marks the processes of a session for Reap.
const markEnv = "FAIRLEAD_SESSION"

// Start starts a journaled process. It returns when the process executes the command, or
// has ended. If a process was already started in the folder, even one that has ended, Start
// returns its status and starts nothing. So Start may be repeated after ErrOutcomeUnknown.
//
// If the command cannot be run (not found, not executable, no such work directory) the
// error is a *StartError. If the disk is full, the error wraps ErrNoSpace. Then no process
// is left.
//
// The process leads its own session and process group. It has a login's signal dispositions
// and umask, no terminal, and only its three standard streams. A second shell, in another
// session, waits for it.
func Start(ctx context.Context, h hostexec.Host, spec Spec) (Status, error) {
	fail := func(err error) (Status, error) {
		return Status{}, fmt.Errorf("start process in %s on %s: %w", spec.Dir, h.Name(), err)
	}
	job, err := spec.job()
	if err != nil {
		return fail(err)
	}
	start := startScript
	if len(spec.Secret) > 0 {
		start = startWithSecret
	}
	res, err := h.Run(ctx, hostexec.Command{
		Script: start,
		Args:   []string{spec.Dir, superviseScript, jobScript + job + execScript, spec.WorkDir},
		Stdin:  spec.Secret,
		Fence:  &spec.Fence,
	})
	if err != nil {
		return fail(processError(err))
	}
	st, err := parseReport(res.Stdout)
	if err != nil {
		return fail(fmt.Errorf("%w: %w", hostexec.ErrOutcomeUnknown, err))
	}
	return st, nil
}

// job returns this process's part of the job's script. It may hold secrets, so it travels
// on descriptors only.
func (s Spec) job() (string, error) {
	if err := checkDir(s.Dir); err != nil {
		return "", err
	}
	if len(s.Argv) == 0 || s.Argv[0] == "" {
		return "", errors.New("no command given")
	}
	if strings.HasPrefix(s.Argv[0], "-") {
		return "", fmt.Errorf("command %q begins with a dash: give its path", s.Argv[0])
	}
	for i, a := range s.Argv {
		if strings.ContainsRune(a, 0) {
			return "", fmt.Errorf("argument %d holds a NUL byte", i)
		}
	}
	if s.WorkDir != "" && (!path.IsAbs(s.WorkDir) || strings.ContainsRune(s.WorkDir, 0)) {
		return "", fmt.Errorf("work directory %q is not an absolute path", s.WorkDir)
	}
	if len(s.Secret) > MaxSecret {
		return "", fmt.Errorf("the secret has %d bytes, at most %d", len(s.Secret), MaxSecret)
	}
	if s.Mark != "" && !markPattern.MatchString(s.Mark) {
		return "", fmt.Errorf("mark %q holds more than letters, digits and ._:/@+-", s.Mark)
	}
	var b strings.Builder
	for _, k := range s.Unset {
		if !script.EnvName.MatchString(k) {
			return "", fmt.Errorf("environment name %q is not a shell name", k)
		}
		b.WriteString("unset -v " + k + "\n")
	}
	for _, k := range slices.Sorted(maps.Keys(s.Env)) {
		switch {
		case !script.EnvName.MatchString(k) || strings.HasPrefix(k, "j_"):
			return "", fmt.Errorf("environment name %q is not a shell name, or begins with j_", k)
		case k == markEnv:
			return "", fmt.Errorf("environment name %s is set by Mark", k)
		case strings.ContainsRune(s.Env[k], 0):
			return "", fmt.Errorf("environment value of %s holds a NUL byte", k)
		}
		b.WriteString("export " + k + "=" + script.QuoteInScript(s.Env[k]) + "\n")
	}
	if s.Mark != "" {
		b.WriteString("export " + markEnv + "=" + script.QuoteInScript(s.Mark) + "\n")
	}
	if s.WorkDir == "" {
		b.WriteString("cd || exit 81\n")
	} else {
		b.WriteString("cd -- " + script.QuoteInScript(s.WorkDir) + " || exit 81\n")
	}
	if s.Guard != "" {
		// Some shells have a subshell inherit the trap that takes a start back.
		b.WriteString("(\ntrap - EXIT\nset --")
		for i, a := range s.GuardArgs {
			if strings.ContainsRune(a, 0) {
				return "", fmt.Errorf("argument %d of the guard holds a NUL byte", i)
			}
			b.WriteString(" " + script.QuoteInScript(a))
		}
		b.WriteString("\n" + s.Guard + "\n) >/dev/null || { echo \"" + guardWord + "$?\" >&2; exit 81; }\n")
	}
	b.WriteString("set --")
	for _, a := range s.Argv {
		b.WriteString(" " + script.QuoteInScript(a))
	}
	b.WriteString("\n")
	return b.String(), nil
}

// guardWord precedes the exit status of a guard that failed.
const guardWord = "fairlead-guard "

var guardSays = regexp.MustCompile(`(?m)^` + guardWord + `([0-9]{1,3})$`)

var markPattern = regexp.MustCompile(`^[A-Za-z0-9._:/@+-]+$`)

func checkDir(dir string) error {
	if !path.IsAbs(dir) || path.Clean(dir) != dir || dir == "/" || strings.ContainsRune(dir, 0) {
		return fmt.Errorf("%q is not a clean absolute path", dir)
	}
	return nil
}

func processError(err error) error {
	var exit *hostexec.ExitError
	if !errors.As(err, &exit) {
		return err
	}
	reason := processReason(exit.Stderr)
	switch exit.Code {
	case statusNotStarted:
		e := &StartError{Reason: reason}
		if m := guardSays.FindStringSubmatch(reason); m != nil {
			e.Guard, _ = strconv.Atoi(m[1]) // digits
		}
		if errors.Is(err, hostexec.ErrNoSpace) {
			e.err = hostexec.ErrNoSpace
		}
		return e
	case statusUnsupported:
		return fmt.Errorf("%w: %s", hostexec.ErrUnsupported, reason)
	case statusJournalLost:
		return fmt.Errorf("%w: %s", ErrJournalLost, reason)
	case statusUnknown:
		return fmt.Errorf("%w: %s", hostexec.ErrOutcomeUnknown, reason)
	case statusAbsent:
		return fmt.Errorf("%w: %s", hostexec.ErrNotExist, reason)
	case statusStuck:
		return fmt.Errorf("%w: %s", hostexec.ErrLocked, reason)
	case statusRunning:
		return fmt.Errorf("%w: %s", ErrRunning, reason)
	}
	return err
}

// shellSays matches what shells print before a message.
var shellSays = regexp.MustCompile(`(?m)^(fairlead-process|fairlead-job:[0-9]+): ((line )?[0-9]+: )?`)

func processReason(stderr []byte) string {
	return strings.TrimSpace(shellSays.ReplaceAllString(string(script.LastBytes(stderr, 4096)), ""))
}
