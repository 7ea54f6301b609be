// Package lab starts everything that a session needs on one machine, from real
// parts: OpenSSH's sshd as the hosts, the real codex, and an embedded Temporal
// server and a worker through `ctl up`. Only the model is a stand-in, which
// follows a script. The demo, the end-to-end tests and the benchmarks use it.
package lab

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"fairlead.dev/fairlead/hostexec/hosttest"
	"fairlead.dev/fairlead/internal/lab/scriptedmodel"
)

// Options are the options of a lab.
type Options struct {
	// Repo is the repository's folder, with bin/ and .tools/ filled.
	Repo string
	// Script is the model's script; see scriptedmodel.
	Script []byte
	// Codex is the package that is brought to hosts; the real one if empty.
	Codex string
	// Workers is the number of workers; 0 means one, a negative number none.
	Workers int
	// Config is the stack's config file, if any.
	Config string
	// Own says that ctl has this config, too, where no other one is named.
	Own bool
	// Keep keeps the lab's folder, for people to look at.
	Keep bool
}

// A Lab is a running stack. Close ends all of its processes.
type Lab struct {
	Dir    string // contains everything of the lab
	State  string // state folder of `ctl up`
	Model  *scriptedmodel.Server
	Token  string // the secret of the lab's seed; it must not be found outside of it
	opts   Options
	hosts  map[string]*hosttest.SSHD
	env    []string
	closed bool
}

// New starts the model and the stack. The lab's folder is not below the
// system's temporary folder, to which codex's sandbox gives commands access.
func New(ctx context.Context, opts Options) (*Lab, error) {
	for _, need := range []string{"bin/ctl", "bin/worker", "bin/devserver", ".tools/codex/bin/codex"} {
		if _, err := os.Stat(filepath.Join(opts.Repo, need)); err != nil {
			return nil, fmt.Errorf("%s is missing: run `make tools build`", need)
		}
	}
	dir, err := os.MkdirTemp("/var/tmp", "fairlead-")
	if err != nil {
		return nil, err
	}
	// An ordinary user of a host must be able to reach the host's root below
	// it.
	if err := os.Chmod(dir, 0o755); err != nil {
		return nil, err
	}
	b := make([]byte, 16)
	rand.Read(b)
	l := &Lab{Dir: dir, State: filepath.Join(dir, "state"), Token: "tok-" + hex.EncodeToString(b), opts: opts, hosts: map[string]*hosttest.SSHD{}}
	l.env = append(withoutFairlead(os.Environ()), "NO_COLOR=1", "XDG_CONFIG_HOME="+filepath.Join(dir, "config"))
	if err := l.start(ctx); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// withoutFairlead drops variables that would redirect ctl.
func withoutFairlead(env []string) []string {
	var out []string
	for _, kv := range env {
		if !strings.HasPrefix(kv, "FAIRLEAD_") && !strings.HasPrefix(kv, "TEMPORAL_") && !strings.HasPrefix(kv, "OPENAI_") {
			out = append(out, kv)
		}
	}
	return out
}

func (l *Lab) start(ctx context.Context) error {
	script, err := scriptedmodel.Parse(l.opts.Script)
	if err != nil {
		return fmt.Errorf("the model's script: %w", err)
	}
	if l.Model, err = scriptedmodel.New(script, slog.New(slog.DiscardHandler)); err != nil {
		return err
	}
	if err := l.Model.Start("127.0.0.1:0"); err != nil {
		return err
	}
	return l.Up(ctx)
}

// Up starts the stack.
func (l *Lab) Up(ctx context.Context) error {
	args := []string{"up", "--detach", "--workers", strconv.Itoa(l.workers())}
	if l.opts.Codex != "" {
		args = append(args, "--codex", l.opts.Codex)
	}
	if l.opts.Config != "" {
		file := filepath.Join(l.Dir, "fairlead.yaml")
		if err := os.WriteFile(file, []byte(l.opts.Config), 0o600); err != nil {
			return err
		}
		args = append(args, "--config", file)
		if l.opts.Own {
			own := filepath.Join(l.Dir, "config", "fairlead")
			err := errors.Join(os.MkdirAll(own, 0o700), os.WriteFile(filepath.Join(own, "config.yaml"), []byte(l.opts.Config), 0o600))
			if err != nil {
				return err
			}
		}
	}
	_, err := l.Out(ctx, args...)
	return err
}

func (l *Lab) workers() int {
	if l.opts.Workers == 0 {
		return 1
	}
	return max(l.opts.Workers, 0)
}

// Down stops the stack with `ctl down`.
func (l *Lab) Down(ctx context.Context) error {
	_, err := l.Out(ctx, "down")
	return err
}

// AddHost starts an sshd and adds it to the inventory under a name; more are
// further flags of `ctl host add`.
func (l *Lab) AddHost(ctx context.Context, name string, opts hosttest.Options, more ...string) (*hosttest.SSHD, error) {
	if opts.Root == "" {
		opts.Root = filepath.Join(l.Dir, "host "+name)
	}
	opts.Name = name
	dir := filepath.Join(l.Dir, "sshd-"+name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	d, err := hosttest.NewSSHD(ctx, dir, opts)
	if err != nil {
		return nil, err
	}
	l.hosts[name] = d
	_, err = l.Out(ctx, append([]string{"host", "add", name, d.User() + "@" + d.Address(), "--host-key", d.HostKey(),
		"--identity", d.Identity(), "--root", opts.Root}, more...)...)
	return d, err
}

// Host returns the sshd of a host that AddHost added.
func (l *Lab) Host(name string) *hosttest.SSHD { return l.hosts[name] }

// ImportSeed imports a seed that points codex at the scripted model with the
// lab's token.
func (l *Lab) ImportSeed(ctx context.Context, name string) error {
	dir := filepath.Join(l.Dir, "seed-"+name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	config := scriptedmodel.ConfigTOML(l.Model.BaseURL(), l.Token)
	if err := os.WriteFile(filepath.Join(dir, "config.toml"), []byte(config), 0o600); err != nil {
		return err
	}
	_, err := l.Out(ctx, "seed", "import", name, dir)
	return err
}

// A Result is one run of ctl.
type Result struct {
	Args   []string
	Stdout string
	Stderr string
	Code   int
}

func (r Result) Error() string {
	return fmt.Sprintf("ctl %s: exit %d: %s%s", strings.Join(r.Args, " "), r.Code, r.Stderr, r.Stdout)
}

// Command returns ctl with arguments, not yet started, for the lab's stack.
func (l *Lab) Command(ctx context.Context, args ...string) *exec.Cmd {
	c := exec.CommandContext(ctx, filepath.Join(l.opts.Repo, "bin", "ctl"), append([]string{"--state", l.State}, args...)...)
	c.Env = l.env
	c.Dir = l.Dir
	c.WaitDelay = 5 * time.Second
	return c
}

// Ctl runs ctl to its end, with standard input from in (nil: none).
func (l *Lab) Ctl(ctx context.Context, in io.Reader, args ...string) Result {
	c := l.Command(ctx, args...)
	var out, errs bytes.Buffer
	c.Stdin, c.Stdout, c.Stderr = in, &out, &errs
	r := Result{Args: args}
	err := c.Run()
	r.Stdout, r.Stderr = out.String(), errs.String()
	if err != nil {
		r.Code = -1
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			r.Code = exit.ExitCode()
		} else {
			r.Stderr += err.Error()
		}
	}
	return r
}

// Out runs ctl and returns its output. An exit status other than 0 is an error.
func (l *Lab) Out(ctx context.Context, args ...string) (string, error) {
	r := l.Ctl(ctx, nil, args...)
	if r.Code != 0 {
		return r.Stdout, r
	}
	return r.Stdout, nil
}

// JSON runs ctl with -o json and decodes its one object. An exit status other
// than 0 is an error.
func (l *Lab) JSON(ctx context.Context, out any, args ...string) error {
	text, err := l.Out(ctx, append(args, "-o", "json")...)
	if err != nil {
		return err
	}
	if err := json.Unmarshal([]byte(text), out); err != nil {
		return fmt.Errorf("ctl %s printed %q: %w", strings.Join(args, " "), text, err)
	}
	return nil
}

// Lines runs ctl with -o json and decodes one object per line.
func Lines[T any](ctx context.Context, l *Lab, args ...string) ([]T, error) {
	text, err := l.Out(ctx, append(args, "-o", "json")...)
	if err != nil {
		return nil, err
	}
	out, err := Objects[T](text)
	if err != nil {
		return nil, fmt.Errorf("ctl %s printed %w", strings.Join(args, " "), err)
	}
	return out, nil
}

// Objects decodes one object per line.
func Objects[T any](text string) ([]T, error) {
	var out []T
	for line := range strings.Lines(text) {
		var v T
		if err := json.Unmarshal([]byte(line), &v); err != nil {
			return nil, fmt.Errorf("%q: %w", line, err)
		}
		out = append(out, v)
	}
	return out, nil
}

// Until polls until cond holds or ctx ends. Its error includes the last one of
// cond. A poll may run ctl, which costs the machine a good part of a second. So the pauses
// are four times as long as the polls, from 100 ms to 2 s.
func Until(ctx context.Context, what string, cond func() (bool, error)) error {
	for {
		began := time.Now()
		ok, err := cond()
		if ok && err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("waited in vain for %s", what), err)
		case <-time.After(min(max(4*time.Since(began), 100*time.Millisecond), 2*time.Second)):
		}
	}
}

// Close ends everything and, unless Keep is set, removes the folder.
func (l *Lab) Close() error {
	if l.closed {
		return nil
	}
	l.closed = true
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	var errs []error
	if _, err := os.Stat(l.State); err == nil {
		if r := l.Ctl(ctx, nil, "down"); r.Code != 0 {
			errs = append(errs, r)
		}
	}
	for _, h := range l.hosts {
		errs = append(errs, h.Close())
	}
	if l.Model != nil {
		errs = append(errs, l.Model.Close())
	}
	if !l.opts.Keep {
		errs = append(errs, os.RemoveAll(l.Dir))
	}
	return errors.Join(errs...)
}

// Drain reads streams to their ends, so that their writers can end.
func Drain(streams ...io.Reader) {
	done := make(chan struct{}, len(streams))
	for _, s := range streams {
		go func() {
			_, _ = io.Copy(io.Discard, s) // it ends with its writer
			done <- struct{}{}
		}()
	}
	for range streams {
		<-done
	}
}
