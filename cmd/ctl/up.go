package main

import (
	"bufio"
	"context"
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
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"fairlead.dev/fairlead/internal/config"
	"fairlead.dev/fairlead/internal/stack"
)

// upWait is how long a stack may take until everything answers.
const upWait = 90 * time.Second

// maxWorkers is far more than one machine can use.
const maxWorkers = 64

type upFlags struct {
	detach  bool
	codex   string
	workers int
	readyFD int
}

func upCommand(a *app) *cobra.Command {
	var f upFlags
	c := &cobra.Command{
		Use:   "up",
		Short: "start a stack on this machine: Temporal, a worker, a store",
		Long: `Start the embedded Temporal server and a worker (--workers: some more, or none),
each its own process, and keep them running; everything is kept in the state folder (--state). Without --detach
it stays in the foreground, and ^C stops the stack in good order.

The first start makes an age identity: it opens the store. Keep a copy of it
elsewhere; without it seeds, transcripts and snapshots cannot be read again.
It also makes a payload key, with which everything that Temporal keeps of
sessions (prompts, commands, diffs) is encrypted; Temporal's UI reads it through
the worker. Whoever can open the UI on this machine can read it, so
'api.codec_listen: off' in the config leaves the UI without.`,
		Example: "  ctl up --detach\n  ctl up --state ./stack -o json\n  ctl up --detach --workers 2",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, args []string) error {
			if f.detach {
				return a.upDetached(c.Context(), f)
			}
			return a.up(c.Context(), f)
		},
	}
	c.Flags().BoolVar(&f.detach, "detach", false, "return when everything answers; 'ctl down' stops it")
	c.Flags().StringVar(&f.codex, "codex", "", "`folder` of the codex that is brought to hosts (default: codex.source of the config, or what `make tools` installed)")
	c.Flags().IntVar(&f.workers, "workers", 1, "how many workers; with 0 only the server runs")
	c.Flags().IntVar(&f.readyFD, "ready-fd", 0, "")
	_ = c.Flags().MarkHidden("ready-fd") // fails only for a flag that does not exist
	return c
}

// stackOptions finds everything that a stack needs, and reports what is missing before
// anything starts.
func (a *app) stackOptions(f upFlags) (stack.Options, error) {
	var opts stack.Options
	conf, err := a.config()
	if err != nil {
		return opts, err
	}
	if f.workers < 0 || f.workers > maxWorkers {
		return opts, usage("--workers %d is not between 0 and %d", f.workers, maxWorkers)
	}
	opts.Workers = f.workers
	own := *conf
	if f.codex != "" {
		if own.Codex.Source, err = filepath.Abs(f.codex); err != nil {
			return opts, usage("--codex %s: %v", f.codex, err)
		}
	}
	if own.Codex.Source == "" {
		own.Codex.Source = defaultCodex()
	}
	if opts.Dir, err = a.stateDir(); err != nil {
		return opts, err
	}
	opts.Config = &own
	for name, path := range map[string]*string{"devserver": &opts.Devserver, "worker": &opts.Worker} {
		if *path, err = stack.Find(name); err != nil {
			return opts, failed("start a stack: %v", err).hinted("`make build` puts ctl, worker and devserver side by side")
		}
	}
	if _, err := os.Stat(filepath.Join(own.Codex.Source, "bin", "codex")); err != nil {
		return opts, failed("start a stack: no codex in %s: %v", own.Codex.Source, err).
			hinted("`make tools` installs it; --codex or codex.source names another folder")
	}
	return opts, nil
}

// defaultCodex returns the folder where `make tools` puts codex, beside the folder of ctl.
func defaultCodex() string {
	self, err := os.Executable()
	if err != nil {
		return ""
	}
	if real, err := filepath.EvalSymlinks(self); err == nil {
		self = real
	}
	return filepath.Join(filepath.Dir(filepath.Dir(self)), ".tools", "codex-"+config.CodexVersion)
}

// up runs the stack in this process until it is told to stop.
func (a *app) up(ctx context.Context, f upFlags) error {
	report := a.foreground
	if f.readyFD > 0 {
		pipe := os.NewFile(uintptr(f.readyFD), "ready")
		if pipe == nil {
			return usage("--ready-fd %d is not open", f.readyFD)
		}
		report = func(v upReport) {
			_ = json.NewEncoder(pipe).Encode(v) // fails if nobody waits any more
			_ = pipe.Close()
		}
	}
	err := a.runStack(ctx, f, func(info stack.Info) { report(upReport{Info: &info}) })
	if err != nil {
		e := asExit(ctx, err, true, "ctl up")
		report(upReport{Code: e.code, Kind: e.kind, Message: e.message, Hint: e.hint})
		return e
	}
	return nil
}

// An upReport is the message of a detached stack to the ctl that started it.
type upReport struct {
	Info    *stack.Info `json:"info,omitempty"`
	Code    int         `json:"code,omitempty"`
	Kind    string      `json:"kind,omitempty"`
	Message string      `json:"message,omitempty"`
	Hint    string      `json:"hint,omitempty"`
}

func (a *app) runStack(ctx context.Context, f upFlags, ready func(stack.Info)) error {
	opts, err := a.stackOptions(f)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(opts.Dir, "logs"), 0o700); err != nil {
		return failed("make the state folder: %v", err).hinted("--state names another one")
	}
	log, err := os.OpenFile(filepath.Join(opts.Dir, "logs", "supervisor.log"), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return failed("open the log: %v", err)
	}
	defer log.Close()
	out := io.Writer(log)
	if f.readyFD == 0 && !a.flags.quiet {
		out = io.MultiWriter(log, warnings{a.err})
	}
	opts.Logger = slog.New(slog.NewJSONHandler(out, nil))

	// ^C and SIGTERM stop a stack. That is not an error.
	running, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	wait := a.wait(upWait)
	late := time.AfterFunc(wait, func() { stop(errNotUp) })
	defer late.Stop()
	opts.Ready = func(info stack.Info) {
		late.Stop()
		ready(info)
	}
	err = stack.Up(running, opts)
	switch {
	case errors.Is(err, stack.ErrRunning):
		return refused("%v", err).hinted("`ctl status` shows it, `ctl down` stops it").because(err)
	case errors.Is(context.Cause(running), errNotUp):
		return unreachable("start a stack: no answer within %s; the worker's log ends with: %s", wait, stack.Tail(filepath.Join(opts.Dir, "logs", "worker.log"), 1)).
			hinted("see %s and `ctl doctor`", filepath.Join(opts.Dir, "logs"))
	case err != nil:
		return failed("run the stack: %v", err).hinted("see %s and `ctl doctor`", filepath.Join(opts.Dir, "logs")).because(err)
	}
	return nil
}

var errNotUp = errors.New("the stack did not come up")

// warnings prints the supervisor's log lines above level info as text.
type warnings struct{ w io.Writer }

func (w warnings) Write(p []byte) (int, error) {
	var line struct {
		Level, Msg, Name, How, Log string
	}
	if json.Unmarshal(p, &line) == nil && line.Level != "INFO" && line.Level != "DEBUG" {
		fmt.Fprintf(w.w, "ctl: %s: %s %s (%s)\n", line.Msg, line.Name, clean(line.How), line.Log)
	}
	return len(p), nil
}

// foreground reports that the stack is up.
func (a *app) foreground(v upReport) {
	if v.Info != nil {
		_ = a.showStack(*v.Info) // a closed terminal does not stop the stack
		a.note("stop it with ^C, or with `ctl down` from elsewhere")
	}
}

func (a *app) showStack(info stack.Info) error {
	return a.print().show(info, func(p *printer) {
		p.fields(
			plain("temporal"), plain(info.Temporal.Address+", namespace "+info.Temporal.Namespace),
			plain("web ui"), plain(info.Temporal.UI),
			plain("workers"), plain(workersOf(info)),
			plain("store"), plain(info.Store.URL),
			plain("identity"), plain(info.Identity),
			plain("payload key"), plain(info.PayloadKey),
		)
		if info.NewIdentity {
			p.printf("%s\n", p.paint(yellow, "The identity was made just now. It alone opens the store: keep a copy of it elsewhere."))
		}
		if info.NewPayloadKey {
			p.printf("%s\n", p.paint(yellow, "The payload key was made just now. It alone opens what Temporal keeps of sessions: keep a copy of it elsewhere."))
		}
	})
}

// workersOf returns the API addresses of a stack's workers.
func workersOf(info stack.Info) string {
	if len(info.Workers) == 0 {
		return "none (worker.yaml in the state folder is a config for one)"
	}
	var at []string
	for _, w := range info.Workers {
		at = append(at, w.API)
	}
	return strings.Join(at, ", ")
}

// upDetached starts a supervisor in a session (setsid) of its own and waits for its report.
func (a *app) upDetached(ctx context.Context, f upFlags) error {
	opts, err := a.stackOptions(f) // report mistakes here, at the terminal
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return failed("start a stack: %v", err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		return failed("start a stack: %v", err)
	}
	defer r.Close()
	args := []string{"up", "--state", opts.Dir, "--codex", opts.Config.Codex.Source, "--workers", strconv.Itoa(opts.Workers), "--ready-fd", "3", "--timeout", a.wait(upWait).String()}
	if path := opts.Config.Path(); path != "" {
		args = append(args, "--config", path)
	}
	cmd := exec.Command(self, args...)
	cmd.Dir = "/"
	cmd.ExtraFiles = []*os.File{w}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		w.Close()
		return failed("start a stack: %v", err)
	}
	w.Close()
	a.note("starting Temporal and %d worker(s) in %s …", opts.Workers, opts.Dir)
	type word struct {
		upReport
		err error
	}
	words := make(chan word, 1)
	go func() {
		var v word
		line, err := bufio.NewReader(r).ReadBytes('\n')
		if err == nil {
			err = json.Unmarshal(line, &v.upReport)
		}
		v.err = err
		words <- v
	}()
	select {
	case <-ctx.Done():
		_ = cmd.Process.Signal(syscall.SIGTERM) // it may have ended already
		r.Close()
		<-words
		_ = cmd.Wait()
		return context.Cause(ctx)
	case v := <-words:
		switch {
		case v.err != nil:
			err := cmd.Wait()
			return failed("start a stack: the supervisor ended without a word (%v)", err).hinted("see %s", filepath.Join(opts.Dir, "logs"))
		case v.Info == nil:
			_ = cmd.Wait() // the report says why it ended
			return &exitError{code: v.Code, kind: v.Kind, message: v.Message, hint: v.Hint}
		}
		info := *v.Info
		if err := cmd.Process.Release(); err != nil {
			return failed("leave the stack to itself (pid %s): %v", strconv.Itoa(info.Supervisor), err)
		}
		return a.showStack(info)
	}
}
