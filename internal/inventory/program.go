package inventory

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"
)

// A MissingError tells that a program is not installed.
type MissingError struct{ Program string }

func (e *MissingError) Error() string { return e.Program + " is not installed" }

const (
	maxSettings = 1 << 20 // of ssh -G
	maxSaid     = 4 << 10 // of error messages
)

// run returns a program's output and error messages. The error is a *failedError if the
// program reports failure.
func run(ctx context.Context, most int, env []string, name string, args ...string) (out []byte, said string, err error) {
	path, err := exec.LookPath(name)
	if err != nil {
		return nil, "", &MissingError{Program: name}
	}
	c := exec.CommandContext(ctx, path, args...)
	c.Env = append(os.Environ(), env...)
	c.WaitDelay = 2 * time.Second // what the program started may keep the pipes open
	stdout, stderr := output{most: most}, output{most: maxSaid, cut: true}
	c.Stdout, c.Stderr = &stdout, &stderr
	err = c.Run()
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return nil, "", fmt.Errorf("%s was stopped: %w", name, context.Cause(ctx))
	case stdout.over:
		return nil, "", &failedError{fmt.Sprintf("%s prints more than %d bytes", name, most)}
	case errors.As(err, &exit):
		return nil, "", &failedError{strings.TrimSpace(string(stderr.kept))}
	case err != nil && !errors.Is(err, exec.ErrWaitDelay):
		return nil, "", fmt.Errorf("%s: %w", name, err)
	}
	return stdout.kept, strings.TrimSpace(string(stderr.kept)), nil
}

type failedError struct{ said string }

func (e *failedError) Error() string { return e.said }

// An output is bounded. With cut, it drops the rest; otherwise more output stops the
// program.
type output struct {
	kept      []byte
	most      int
	cut, over bool
}

func (o *output) Write(p []byte) (int, error) {
	room := o.most - len(o.kept)
	if len(p) <= room {
		o.kept = append(o.kept, p...)
		return len(p), nil
	}
	if o.over = true; !o.cut {
		return 0, errors.New("too much output")
	}
	o.kept = append(o.kept, p[:room]...)
	return len(p), nil
}

// temporary writes a file. Its name has no hyphen, where Ansible would wrap its messages.
func temporary(data []byte) (path string, remove func(), err error) {
	f, err := os.CreateTemp("", "fairlead*")
	if err != nil {
		return "", nil, err
	}
	_, err = f.Write(data)
	if err := errors.Join(err, f.Close()); err != nil {
		return "", nil, errors.Join(err, os.Remove(f.Name()))
	}
	return f.Name(), func() { _ = os.Remove(f.Name()) }, nil
}
