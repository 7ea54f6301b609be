package lab

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// WorkerOptions are the options of a worker besides the stack's own.
type WorkerOptions struct {
	Name string // of its files; must be unique
	Zone string
	// Within is a command prefix, such as nsenter and its arguments.
	Within []string
	// APIOnly makes it serve the HTTP API alone.
	APIOnly bool
	// Instead has lines of the stack's config, and what stands in their place.
	Instead map[string]string
}

// A Worker is a worker besides the stack's own. Nothing restarts it.
type Worker struct {
	Name, Zone string
	Socket     string // of its API
	cmd        *exec.Cmd
	log        string
	done       chan struct{}
	err        error // valid once done is closed
}

// StartWorker starts a worker with the stack's config, but in its own zone. The
// caller must end it with End.
func (l *Lab) StartWorker(o WorkerOptions) (*Worker, error) {
	conf, err := os.ReadFile(filepath.Join(l.State, "worker.yaml"))
	if err != nil {
		return nil, err
	}
	text := string(conf)
	change := map[string]string{"\nzone: default\n": "\nzone: " + o.Zone + "\n", "/api.sock\n": "/" + o.Name + ".sock\n"}
	for from, to := range o.Instead {
		change["\n"+from+"\n"] = "\n" + to + "\n"
	}
	for from, to := range change {
		if strings.Count(text, from) != 1 {
			return nil, fmt.Errorf("the worker's config does not say %q once:\n%s", from, text)
		}
		text = strings.Replace(text, from, to, 1)
	}
	path := filepath.Join(l.Dir, "worker-"+o.Name+".yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		return nil, err
	}
	w := &Worker{Name: o.Name, Zone: o.Zone, Socket: filepath.Join(l.State, o.Name+".sock"), log: filepath.Join(l.Dir, "worker-"+o.Name+".log"), done: make(chan struct{})}
	log, err := os.OpenFile(w.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close() // the worker has its own descriptor
	words := append(append([]string{}, o.Within...), filepath.Join(l.opts.Repo, "bin", "worker"), "--config", path)
	if o.APIOnly {
		words = append(words, "--only", "api")
	}
	w.cmd = exec.Command(words[0], words[1:]...)
	w.cmd.Stdout, w.cmd.Stderr, w.cmd.Env = log, log, l.env
	if err := w.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start worker %s: %w", o.Name, err)
	}
	go func() { w.err = w.cmd.Wait(); close(w.done) }()
	return w, nil
}

// PID returns the worker's pid, if the commands of Within exec the program.
func (w *Worker) PID() int { return w.cmd.Process.Pid }

// Log returns the worker's log.
func (w *Worker) Log() string {
	text, _ := os.ReadFile(w.log)
	return string(text)
}

// Ended reports whether the worker has exited.
func (w *Worker) Ended() bool {
	select {
	case <-w.done:
		return true
	default:
		return false
	}
}

// End sends a signal and waits for the exit. It is an error if a worker that is
// drained by SIGTERM fails. End returns nil for a worker that has exited.
func (w *Worker) End(sig syscall.Signal) error {
	if w.Ended() {
		return nil
	}
	if err := w.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("signal worker %s: %w", w.Name, err)
	}
	<-w.done
	if sig == syscall.SIGTERM && w.err != nil {
		return fmt.Errorf("worker %s, which was drained, ended with %w:\n%s", w.Name, w.err, w.Log())
	}
	return nil
}

// Supervisor returns the pid of the stack's supervisor, the first word of its
// lock file.
func (l *Lab) Supervisor() (int, error) {
	name := filepath.Join(l.State, "lock")
	data, err := os.ReadFile(name)
	if err != nil {
		return 0, err
	}
	words := strings.Fields(string(data))
	if len(words) == 0 {
		return 0, fmt.Errorf("%s names no process", name)
	}
	return strconv.Atoi(words[0])
}

// Unsupervised calls do while the supervisor is stopped and restarts nothing.
func (l *Lab) Unsupervised(do func() error) error {
	pid, err := l.Supervisor()
	if err != nil {
		return err
	}
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		return err
	}
	return errors.Join(do(), syscall.Kill(pid, syscall.SIGCONT))
}

// NewBoot writes a new boot id into a file that replaces the kernel's on a
// host. It writes in place, because the file is mounted there.
func NewBoot(path string) error {
	id, err := os.ReadFile("/proc/sys/kernel/random/uuid")
	if err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(id)
	return errors.Join(err, f.Close())
}
