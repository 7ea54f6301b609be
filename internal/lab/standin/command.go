package standin

import (
	"bytes"
	"errors"
	"io"
	"os"
	"sync"
	"syscall"
)

// command runs a command as its own item.
func (u *turn) command(command string) error {
	id := u.nextItem("call")
	u.item("started", execution(id, command, u.thread.set.CWD))
	if err := u.perform(id, command); err != nil {
		return err
	}
	u.usage()
	return nil
}

// environment is the process's own and what the thread's settings add.
func (u *turn) environment() []string {
	env := os.Environ()
	if mark, ok := u.thread.set.Config["shell_environment_policy.set.FAIRLEAD_SESSION"].(string); ok {
		env = append(env, "FAIRLEAD_SESSION="+mark)
	}
	return env
}

// perform runs a command to its end. An interrupt leaves it running in the
// background, as codex does.
func (u *turn) perform(item, command string) error {
	if command == "true" { // needs no process: thousands may run at once
		u.finish(item, command, "completed", []byte{}, 0)
		return nil
	}
	started := make(chan *os.Process, 1)
	ended := make(chan struct{})
	var code int
	var out []byte
	var err error
	go func() {
		defer close(ended)
		var errs []byte
		code, out, errs, err = execute([]string{"/bin/sh", "-c", command}, u.thread.set.CWD, u.environment(), started)
		out = append(out, errs...)
	}()
	finish := func() {
		status := "completed"
		if err != nil || code != 0 {
			status, out = "failed", append(out, errText(err)...)
		}
		u.finish(item, command, status, out, code)
	}
	select {
	case <-ended:
		finish()
		return nil
	case <-u.stop:
	}
	p, ok := <-started
	if !ok {
		finish()
		return errInterrupted
	}
	u.remember(p)
	go func() {
		<-ended
		u.forget(p)
		finish()
	}()
	return errInterrupted
}

func (u *turn) leave(command string) error {
	id := u.nextItem("call")
	u.item("started", execution(id, command, u.thread.set.CWD))
	started := make(chan *os.Process, 1)
	go func() {
		code, out, _, err := execute([]string{"/bin/sh", "-c", command}, u.thread.set.CWD, u.environment(), started)
		status := "completed"
		if err != nil || code != 0 {
			status = "failed"
		}
		u.finish(id, command, status, out, code)
	}()
	if p, ok := <-started; ok {
		u.remember(p)
	}
	u.usage()
	return nil
}

func (u *turn) remember(p *os.Process) {
	u.s.mu.Lock()
	defer u.s.mu.Unlock()
	if u.s.left[u.thread.id] == nil {
		u.s.left[u.thread.id] = map[int]*os.Process{}
	}
	u.s.left[u.thread.id][p.Pid] = p
}

func (u *turn) forget(p *os.Process) {
	u.s.mu.Lock()
	defer u.s.mu.Unlock()
	delete(u.s.left[u.thread.id], p.Pid)
}

func errText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// execute runs a program in its own process group. It sends the process on
// started, if not nil, or closes started if there is none.
func execute(argv []string, cwd string, env []string, started chan<- *os.Process) (code int, stdout, stderr []byte, err error) {
	fail := func(err error) (int, []byte, []byte, error) {
		if started != nil {
			close(started)
		}
		return 0, nil, nil, err
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		return fail(err)
	}
	defer null.Close()
	outR, outW, err := os.Pipe()
	if err != nil {
		return fail(err)
	}
	defer outR.Close()
	errR, errW, err := os.Pipe()
	if err != nil {
		outW.Close()
		return fail(err)
	}
	defer errR.Close()
	p, err := os.StartProcess(argv[0], argv, &os.ProcAttr{Dir: cwd, Env: env, Files: []*os.File{null, outW, errW}, Sys: &syscall.SysProcAttr{Setpgid: true}})
	outW.Close()
	errW.Close()
	if err != nil {
		return fail(err)
	}
	if started != nil {
		started <- p
		close(started)
	}
	var wg sync.WaitGroup
	var out, errs bytes.Buffer
	read := func(b *bytes.Buffer, r io.Reader) {
		_, _ = io.Copy(b, io.LimitReader(r, 1<<20)) // the pipe ends when its writers exit
		_, _ = io.Copy(io.Discard, r)
	}
	wg.Go(func() { read(&out, outR) })
	wg.Go(func() { read(&errs, errR) })
	st, err := p.Wait()
	wg.Wait()
	if err != nil {
		return 0, nil, nil, err
	}
	return st.ExitCode(), out.Bytes(), errs.Bytes(), nil
}

// killGroup kills a command and its children. It is no error if they have
// exited.
func killGroup(p *os.Process) error {
	err := syscall.Kill(-p.Pid, syscall.SIGKILL)
	if errors.Is(err, syscall.ESRCH) {
		return nil
	}
	return err
}
