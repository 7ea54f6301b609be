package hostexec

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// closeGrace is how long a local script may live after its channel was closed. A script on
// an SSH channel is not ended.
const closeGrace = 5 * time.Second

type localHost struct {
	gate
	name  string
	tasks tasks

	mu     sync.Mutex
	closed bool                       // guarded by mu
	open   map[*localChannel]struct{} // guarded by mu
}

var _ Host = (*localHost)(nil)

func newLocalHost(name string) *localHost {
	return &localHost{gate: newGate(), name: name, open: make(map[*localChannel]struct{})}
}

func (h *localHost) Name() string { return h.name }

func (h *localHost) Run(ctx context.Context, c Command) (Result, error) {
	if err := c.check(); err != nil {
		return Result{}, fmt.Errorf("run on %s: %w", h.name, err)
	}
	ch, err := h.channel(ctx)
	if err != nil {
		return Result{}, fmt.Errorf("run on %s: %w", h.name, err)
	}
	defer ch.Close()
	res, _, err := newShell(ch, false, &h.tasks).run(ctx, c)
	if errors.Is(err, errNotSent) {
		err = fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	if err != nil {
		err = fmt.Errorf("run on %s: %w", h.name, SentBy(h, err))
	}
	return res, err
}

func (h *localHost) Start(ctx context.Context, c Command) (Stream, error) {
	if err := c.check(); err != nil {
		return nil, fmt.Errorf("start on %s: %w", h.name, err)
	}
	ch, err := h.channel(ctx)
	if err != nil {
		return nil, fmt.Errorf("start on %s: %w", h.name, err)
	}
	s, err := newStream(ctx, ch, c, &h.tasks, h.name)
	if err != nil {
		return nil, fmt.Errorf("start on %s: %w: %w", h.name, ErrUnreachable, err)
	}
	return s, nil
}

// Close ends every running script and waits for its end.
func (h *localHost) Close() error {
	h.mu.Lock()
	h.closed = true
	for ch := range h.open {
		ch.Close()
	}
	h.mu.Unlock()
	h.tasks.Wait()
	return nil
}

var errHostClosed = errors.New("host is closed")

// channel starts a shell as sshd does: in its own session, in the home folder, with the
// environment of a login. The rest of the worker's environment may hold secrets.
func (h *localHost) channel(ctx context.Context) (*localChannel, error) {
	if ctx.Err() != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnreachable, context.Cause(ctx))
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return nil, fmt.Errorf("%w: %w", ErrUnreachable, errHostClosed)
	}
	var files []*os.File
	pipe := func() (*os.File, *os.File, error) {
		r, w, err := os.Pipe()
		if err == nil {
			files = append(files, r, w)
		}
		return r, w, err
	}
	inR, inW, err1 := pipe()
	outR, outW, err2 := pipe()
	errR, errW, err3 := pipe()
	err := errors.Join(err1, err2, err3)
	cmd := exec.Command("/bin/sh", "-c", bootstrapScript)
	if err == nil {
		cmd.Stdin, cmd.Stdout, cmd.Stderr = inR, outW, errW
		cmd.Env = loginEnviron()
		cmd.Dir, _ = os.UserHomeDir()
		if fi, statErr := os.Stat(cmd.Dir); statErr != nil || !fi.IsDir() {
			cmd.Dir = "/"
		}
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		err = cmd.Start()
	}
	if err != nil {
		for _, f := range files {
			f.Close()
		}
		return nil, fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	inR.Close()
	outW.Close()
	errW.Close()
	ch := &localChannel{in: inW, out: outR, err: errR, done: make(chan struct{}), closing: make(chan struct{})}
	h.open[ch] = struct{}{}
	h.tasks.Go(func() {
		ch.wait(cmd)
		h.mu.Lock()
		delete(h.open, ch)
		h.mu.Unlock()
	})
	return ch, nil
}

func loginEnviron() []string {
	return slices.DeleteFunc(os.Environ(), func(kv string) bool {
		k, _, _ := strings.Cut(kv, "=")
		switch k {
		case "HOME", "PATH", "USER", "LOGNAME", "SHELL", "MAIL", "LANG", "TZ", "TMPDIR", "XDG_RUNTIME_DIR":
			return false
		}
		return !strings.HasPrefix(k, "LC_")
	})
}

type localChannel struct {
	in, out, err *os.File
	closeOnce    sync.Once
	closing      chan struct{}
	done         chan struct{}
	end          ending // valid once done is closed
}

// wait reaps the shell. Once the channel is closed, the shell's whole session has
// closeGrace to end.
func (c *localChannel) wait(cmd *exec.Cmd) {
	reaped := make(chan struct{})
	go func() {
		defer close(reaped)
		c.end = localEnding(cmd.Wait())
		close(c.done)
	}()
	select {
	case <-reaped:
		return
	case <-c.closing:
	}
	grace := time.NewTimer(closeGrace)
	defer grace.Stop()
	select {
	case <-reaped:
	case <-grace.C:
		syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		<-reaped
	}
}

func localEnding(err error) ending {
	var exit *exec.ExitError
	if err == nil {
		return ending{}
	}
	if !errors.As(err, &exit) {
		return ending{lost: err}
	}
	ws := exit.Sys().(syscall.WaitStatus)
	if ws.Signaled() {
		return ending{status: 128 + int(ws.Signal())}
	}
	return ending{status: ws.ExitStatus()}
}

func (c *localChannel) Write(p []byte) (int, error) { return c.in.Write(p) }
func (c *localChannel) CloseWrite() error           { return c.in.Close() }
func (c *localChannel) Stdout() io.Reader           { return c.out }
func (c *localChannel) Stderr() io.Reader           { return c.err }
func (c *localChannel) Done() <-chan struct{}       { return c.done }
func (c *localChannel) End() ending                 { return c.end }

func (c *localChannel) Close() error {
	c.closeOnce.Do(func() {
		c.in.Close()
		c.out.Close()
		c.err.Close()
		close(c.closing)
	})
	return nil
}
