package stack

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

	"fairlead.dev/fairlead/cmd/ctl/internal/core"
	"fairlead.dev/fairlead/internal/authority"
	"fairlead.dev/fairlead/internal/config"
	"fairlead.dev/fairlead/internal/stack"
)

// upWait bounds the wait until everything answers.
const upWait = 90 * time.Second

// maxWorkers is far more than a machine can use.
const maxWorkers = 64

type upFlags struct {
	detach  bool
	codex   string
	workers int
	readyFD int
}

func Up(a *core.App) *cobra.Command {
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
the worker, unless the config says 'api.codec_listen: off'.

Other users of this machine get nothing: the server wants a certificate of the
stack, which ctl and workers find in the state folder, and the UI a login ('ctl
ui'). Certificates are valid for 90 days and renewed while the stack runs.
Temporal's own programs take TEMPORAL_CONFIG_FILE=STATE/temporal.toml.`,
		Example: "  ctl up --detach\n  ctl up --state ./stack -o json\n  ctl up --detach --workers 2",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, args []string) error {
			if f.detach {
				return upDetached(c.Context(), a, f)
			}
			return up(c.Context(), a, f)
		},
	}
	c.Flags().BoolVar(&f.detach, "detach", false, "return when everything answers; 'ctl down' stops it")
	c.Flags().StringVar(&f.codex, "codex", "", "`folder` of the codex that is brought to hosts (default: codex.source of the config, or what `make tools` installed)")
	c.Flags().IntVar(&f.workers, "workers", 1, "how many workers; with 0 only the server runs")
	c.Flags().IntVar(&f.readyFD, "ready-fd", 0, "")
	_ = c.Flags().MarkHidden("ready-fd") // fails only for unknown flags
	return c
}

// stackOptions finds what a stack needs, and reports what is missing.
func stackOptions(a *core.App, f upFlags) (stack.Options, error) {
	var opts stack.Options
	conf, err := a.Config()
	if err != nil {
		return opts, err
	}
	if f.workers < 0 || f.workers > maxWorkers {
		return opts, core.Usage("--workers %d is not between 0 and %d", f.workers, maxWorkers)
	}
	opts.Workers = f.workers
	own := *conf
	if f.codex != "" {
		if own.Codex.Source, err = filepath.Abs(f.codex); err != nil {
			return opts, core.Usage("--codex %s: %v", f.codex, err)
		}
	}
	if own.Codex.Source == "" {
		own.Codex.Source = defaultCodex()
	}
	if opts.Dir, err = a.StateDir(); err != nil {
		return opts, err
	}
	opts.Config = &own
	if err := checkAccess(a, &own); err != nil {
		return opts, err
	}
	for name, path := range map[string]*string{"devserver": &opts.Devserver, "worker": &opts.Worker} {
		if *path, err = stack.Find(name); err != nil {
			return opts, core.Failed("start a stack: %v", err).Hinted("`make build` puts ctl, worker and devserver side by side; a release has no devserver")
		}
	}
	if _, err := os.Stat(filepath.Join(own.Codex.Source, "bin", "codex")); err != nil {
		return opts, core.Failed("start a stack: no codex in %s: %v", own.Codex.Source, err).
			Hinted("`make tools` installs it; --codex or codex.source names another folder")
	}
	return opts, nil
}

// checkAccess reads the access file as the workers will, and warns of what is probably not
// meant.
func checkAccess(a *core.App, conf *config.Config) error {
	switch {
	case conf.Authority != config.AuthorityRequired:
		return nil
	case conf.Access == "":
		return core.Usage("start a stack: authority: required needs an access file").Hinted("set access in the config; docs/reference/access-file.md has one to begin with")
	case conf.WorkerKey == "":
		return core.Usage("start a stack: authority: required needs a key of the worker, which the access file lists under workers").Hinted("make one with ssh-keygen, and set worker_key in the config")
	}
	k, err := authority.Open(conf.Access, slog.New(slog.DiscardHandler))
	if err != nil {
		return core.Usage("start a stack: %v", err).Hinted("fix the file; `ctl access check %s` finds its mistakes", conf.Access).Because(err)
	}
	for _, w := range k.Current().Warnings {
		a.Note("warning: %s: %s", conf.Access, w)
	}
	return nil
}

// defaultCodex is where `make tools` puts codex.
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

func up(ctx context.Context, a *core.App, f upFlags) error {
	report := func(v upReport) { foreground(a, v) }
	if f.readyFD > 0 {
		pipe := os.NewFile(uintptr(f.readyFD), "ready")
		if pipe == nil {
			return core.Usage("--ready-fd %d is not open", f.readyFD)
		}
		report = func(v upReport) {
			_ = json.NewEncoder(pipe).Encode(v) // fails if the waiting ctl has ended
			_ = pipe.Close()
		}
	}
	err := runStack(ctx, a, f, func(info stack.Info) { report(upReport{Info: &info}) })
	if err != nil {
		e := core.AsError(ctx, err, true, a.Program()+" up")
		report(upReport{Code: e.Code, Kind: e.Kind, Message: e.Message, Hint: e.Hint})
		return e
	}
	return nil
}

// An upReport tells ctl how its detached stack started.
type upReport struct {
	Info    *stack.Info `json:"info,omitempty"`
	Code    int         `json:"code,omitempty"`
	Kind    string      `json:"kind,omitempty"`
	Message string      `json:"message,omitempty"`
	Hint    string      `json:"hint,omitempty"`
}

func runStack(ctx context.Context, a *core.App, f upFlags, ready func(stack.Info)) error {
	opts, err := stackOptions(a, f)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(opts.Dir, "logs"), 0o700); err != nil {
		return core.Failed("make the state folder: %v", err).Hinted("--state names another one")
	}
	log, err := os.OpenFile(filepath.Join(opts.Dir, "logs", "supervisor.log"), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return core.Failed("open the log: %v", err)
	}
	defer log.Close()
	out := io.Writer(log)
	if f.readyFD == 0 && !a.Flags.Quiet {
		out = io.MultiWriter(log, warnings{a.Program(), a.Err})
	}
	opts.Logger = slog.New(slog.NewJSONHandler(out, nil))

	// ^C and SIGTERM stop a stack without an error.
	running, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	wait := a.Wait(upWait)
	late := time.AfterFunc(wait, func() { stop(errNotUp) })
	defer late.Stop()
	opts.Ready = func(info stack.Info) {
		late.Stop()
		ready(info)
	}
	err = stack.Up(running, opts)
	switch {
	case errors.Is(err, stack.ErrRunning):
		return core.Refused("%v", err).Hinted("`ctl status` shows it, `ctl down` stops it").Because(err)
	case errors.Is(context.Cause(running), errNotUp):
		return core.Unreachable("start a stack: no answer within %s; the worker's log ends with: %s", wait, stack.Tail(filepath.Join(opts.Dir, "logs", "worker.log"), 1)).
			Hinted("see %s and `ctl doctor`", filepath.Join(opts.Dir, "logs"))
	case err != nil:
		return core.Failed("run the stack: %v", err).Hinted("see %s and `ctl doctor`", filepath.Join(opts.Dir, "logs")).Because(err)
	}
	return nil
}

var errNotUp = errors.New("the stack did not come up")

// warnings prints log lines above level info as text.
type warnings struct {
	program string
	w       io.Writer
}

func (w warnings) Write(p []byte) (int, error) {
	var line struct {
		Level, Msg, Name, How, Log string
	}
	if json.Unmarshal(p, &line) == nil && line.Level != "INFO" && line.Level != "DEBUG" {
		fmt.Fprintln(w.w, core.Clean(fmt.Sprintf("%s: %s: %s %s (%s)", w.program, line.Msg, line.Name, line.How, line.Log)))
	}
	return len(p), nil
}

func foreground(a *core.App, v upReport) {
	if v.Info != nil {
		_ = showStack(a, *v.Info) // a closed terminal does not stop the stack
		a.Note("stop it with ^C, or with `ctl down` from elsewhere")
	}
}

func showStack(a *core.App, info stack.Info) error {
	return a.Print().Show(info, func(p *core.Printer) {
		p.Fields(
			core.Plain("temporal"), core.Plain(info.Temporal.Address+", namespace "+info.Temporal.Namespace),
			core.Plain("console"), core.Plain(consoleLine(info.Console)),
			core.Plain("temporal ui"), core.Plain(info.Temporal.UI+" (`ctl ui --temporal` logs you in)"),
			core.Plain("workers"), core.Plain(workersOf(info)),
			core.Plain("store"), core.Plain(info.Store.URL),
			core.Plain("identity"), core.Plain(info.Identity),
			core.Plain("payload key"), core.Plain(info.PayloadKey),
		)
		if info.NewIdentity {
			p.Printf("%s\n", p.Paint(core.Yellow, "The identity was made just now. It alone opens the store: keep a copy of it elsewhere."))
		}
		if info.NewPayloadKey {
			p.Printf("%s\n", p.Paint(core.Yellow, "The payload key was made just now. It alone opens what Temporal keeps of sessions: keep a copy of it elsewhere."))
		}
	})
}

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

// upDetached starts a supervisor in its own session (setsid) and waits for its report.
func upDetached(ctx context.Context, a *core.App, f upFlags) error {
	opts, err := stackOptions(a, f) // report mistakes at the terminal
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return core.Failed("start a stack: %v", err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		return core.Failed("start a stack: %v", err)
	}
	defer r.Close()
	args := []string{"up", "--state", opts.Dir, "--codex", opts.Config.Codex.Source, "--workers", strconv.Itoa(opts.Workers), "--ready-fd", "3", "--timeout", a.Wait(upWait).String()}
	if path := opts.Config.Path(); path != "" {
		args = append(args, "--config", path)
	}
	cmd := exec.Command(self, args...)
	cmd.Dir = "/"
	cmd.ExtraFiles = []*os.File{w}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		w.Close()
		return core.Failed("start a stack: %v", err)
	}
	w.Close()
	a.Note("starting Temporal and %d worker(s) in %s …", opts.Workers, opts.Dir)
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
		_ = cmd.Process.Signal(syscall.SIGTERM) // it may have ended
		r.Close()
		<-words
		_ = cmd.Wait()
		return context.Cause(ctx)
	case v := <-words:
		switch {
		case v.err != nil:
			err := cmd.Wait()
			return core.Failed("start a stack: the supervisor exited without a report (%v)", err).Hinted("see %s", filepath.Join(opts.Dir, "logs"))
		case v.Info == nil:
			_ = cmd.Wait() // the report says why
			return &core.Error{Code: v.Code, Kind: v.Kind, Message: v.Message, Hint: v.Hint}
		}
		info := *v.Info
		if err := cmd.Process.Release(); err != nil {
			return core.Failed("detach the supervisor (pid %s): %v", strconv.Itoa(info.Supervisor), err)
		}
		return showStack(a, info)
	}
}

// consoleLine says how to open the console.
func consoleLine(address string) string {
	if address == "" {
		return "none"
	}
	return address + " (`ctl ui` logs you in)"
}
