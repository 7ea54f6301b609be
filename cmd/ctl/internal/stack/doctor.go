package stack

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"go.temporal.io/api/workflowservice/v1"
	"golang.org/x/sys/unix"

	"fairlead.dev/fairlead/cmd/ctl/internal/conn"
	"fairlead.dev/fairlead/cmd/ctl/internal/core"
	"fairlead.dev/fairlead/internal/api"
	"fairlead.dev/fairlead/internal/authority"
	"fairlead.dev/fairlead/internal/certs"
	"fairlead.dev/fairlead/internal/payload"
	"fairlead.dev/fairlead/internal/secretfile"
	"fairlead.dev/fairlead/internal/stack"
	"fairlead.dev/fairlead/internal/store"
)

const (
	diskNeeded = 1 << 30 // bytes
	clockSkew  = 5 * time.Second
)

type finding struct {
	Name   string `json:"name"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail"`
	Hint   string `json:"hint"`
}

func Doctor(a *core.App) *cobra.Command {
	return &cobra.Command{
		Use:   "doctor",
		Short: "check whether a first session can run, and say how to fix what prevents it",
		Long: `Look at everything between this ctl and a first session: the programs and the codex
beside it, the state folder, Temporal, the workers, the store. Exit 1 if something
is wrong. Hosts have a doctor of their own: ctl host check NAME.`,
		Example: "  ctl doctor\n  ctl doctor -o json | jq 'select(.ok | not)'",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, args []string) error {
			findings := examine(c.Context(), a)
			if c.Context().Err() != nil {
				return context.Cause(c.Context())
			}
			err := core.ShowAll(a.Print(), findings, func(p *core.Printer) {
				for _, f := range findings {
					mark := p.Paint(core.Green, "ok  ")
					if !f.OK {
						mark = p.Paint(core.Red, "FAIL")
					}
					p.Printf("%s  %-14s %s\n", mark, f.Name, core.Clean(f.Detail))
					if !f.OK && f.Hint != "" {
						p.Printf("      %-14s %s\n", "", p.Paint(core.Yellow, "→ "+core.Clean(f.Hint)))
					}
				}
			})
			if err != nil {
				return err
			}
			var bad []string
			for _, f := range findings {
				if !f.OK {
					bad = append(bad, f.Name)
				}
			}
			if len(bad) > 0 {
				return core.NewError(core.ExitFailed, "check_failed", "%d of %d checks failed: %s", len(bad), len(findings), strings.Join(bad, ", ")).
					Hinted("fix them from the top: one often explains the next")
			}
			return nil
		},
	}
}

// examine runs all checks, even after failures.
func examine(ctx context.Context, a *core.App) []finding {
	var out []finding
	add := func(name string, err error, hint, format string, args ...any) {
		f := finding{Name: name, OK: err == nil, Detail: fmt.Sprintf(format, args...)}
		if err != nil {
			f.Detail, f.Hint = err.Error(), hint
			var e *core.Error
			if errors.As(err, &e) && e.Hint != "" {
				f.Hint = e.Hint
			}
		}
		out = append(out, f)
	}
	conf, err := a.Config()
	path, _ := a.ConfigPath()
	if path == "" {
		path = "none, defaults"
	}
	add("config", err, "fix the file", "%s", path)

	for _, name := range []string{"worker", "devserver"} {
		path, err := stack.Find(name)
		if err == nil {
			err = runs(ctx, path)
		}
		add(name, err, "`make build` puts ctl, worker and devserver side by side; a release has no devserver", "%s", path)
	}
	info, stackErr := conn.Stack(a)
	source := defaultCodex()
	switch {
	case stackErr == nil && info.CodexSource != "":
		source = info.CodexSource
	case conf != nil && conf.Codex.Source != "":
		source = conf.Codex.Source
	}
	_, err = os.Stat(filepath.Join(source, "bin", "codex"))
	add("codex", err, "`make tools` installs it; codex.source in the config names another folder", "%s", source)

	dir, err := a.StateDir()
	if err == nil {
		err = writable(dir)
	}
	add("state folder", err, "make it writable for you, or name another one with --state", "%s", dir)
	free, err := diskFree(dir)
	if err == nil && free < diskNeeded {
		err = fmt.Errorf("only %d MiB are free on the disk of %s", free>>20, dir)
	}
	add("disk space", err, "make room, or name another folder with --state", "%d MiB free", free>>20)
	identity, keys := keyFiles(a, dir, info, stackErr == nil)
	if identity != "" {
		add("identity", readable(identity, func() error { _, err := store.LoadIdentities(identity); return err }),
			"chmod 600 the file; if it is gone or is not an identity, bring back your copy: nothing else opens the store", "%s, mode 0600", identity)
	}
	if keys != "" {
		add("payload key", readable(keys, func() error { _, err := payload.LoadKeys(keys); return err }),
			"chmod 600 the file; if it is gone or holds no keys, bring back your copy: nothing else opens what Temporal keeps", "%s, mode 0600", keys)
	}
	if stackErr == nil && info.Certificates != nil {
		end, err := firstEnd(info.Certificates)
		add("certificates", err, "chmod 600 the file; `ctl down`, then `ctl up` makes what is missing", "valid until %s, renewed before by the running stack", end.Local().Format("2006-01-02 15:04"))
	}
	examineService(ctx, a, add)
	return out
}

// firstEnd returns when the first of the certificates ends, which must not be over.
func firstEnd(c *stack.Certificates) (first time.Time, err error) {
	for _, path := range []string{c.CA, c.Cert} {
		end, err := certs.Ends(path)
		if err != nil {
			return first, err
		}
		if end.Before(time.Now()) {
			return end, fmt.Errorf("%s ended at %s", path, end.Local().Format("2006-01-02 15:04"))
		}
		if first.IsZero() || end.Before(first) {
			first = end
		}
	}
	return first, nil
}

func examineService(ctx context.Context, a *core.App, add func(string, error, string, string, ...any)) {
	t, err := conn.Open(ctx, a)
	if err != nil {
		add("temporal", err, "`ctl up` starts a stack on this machine", "")
		return
	}
	call, cancel := a.Bounded(ctx, conn.AnswerWait)
	defer cancel()
	_, err = t.WorkflowService().DescribeNamespace(call, &workflowservice.DescribeNamespaceRequest{Namespace: t.Namespace})
	add("temporal", t.Explain(call, "look at the namespace", err), "check --namespace", "%s, namespace %s (from %s)", t.Address, t.Namespace, t.From)

	workers, statuses, err := conn.Workers(ctx, a, t)
	ready := 0
	for _, w := range workers {
		if w.Ready {
			ready++
		}
	}
	if err == nil && ready == 0 {
		err = fmt.Errorf("no worker is ready (%d known)", len(workers))
		if len(workers) > 0 && workers[0].Problem != "" {
			err = fmt.Errorf("no worker is ready: %s: %s", workers[0].API, workers[0].Problem)
		}
	}
	add("worker ready", err, "start one: `ctl up` (`ctl down` first, where a stack without workers is up), or bin/worker --config FILE; its log says what it waits for", "%d ready", ready)
	add("addresses", untrusted(workers), "an address that is no worker of yours belongs to somebody who may poll the task queue: take that right away", "all workers proved who they are")
	stuck, err := t.Stuck(ctx)
	add("workflow tasks", errors.Join(err, failing(stuck)), "workers try each task again until it succeeds: fix the cause that is shown, and the workflow goes on; `temporal workflow terminate` ends a workflow for good", "no workflow task fails again and again")
	if len(statuses) == 0 {
		return
	}
	id, first := statuses[0].Store.ID, statuses[0].Version
	var split, mixed error
	for _, st := range statuses {
		if st.Store.ID != id {
			split = fmt.Errorf("two workers use different stores: %s (%s) and %s (%s)", id, statuses[0].Store.URL, st.Store.ID, st.Store.URL)
		}
		if st.Version != first {
			mixed = fmt.Errorf("workers of two versions run: %s and %s", first, st.Version)
		}
	}
	add("store", split, "give all workers the same store.url, and set store.id", "%s, id %s", statuses[0].Store.URL, id)
	add("payloads", sameKeys(a, t, statuses), "give every worker and ctl the same key file as temporal.payload_key (a new key goes last into every file before it goes first into any)", "%s", payloadsOf(a, t, statuses))
	if since := t.Codec.ReadsOlder(); !since.IsZero() {
		n, err := t.BegunBefore(call, since)
		left := fmt.Sprintf("%d workflows from before %s are kept, and may have older payloads", n, since.UTC().Format(time.RFC3339))
		if n == 0 && t.From != "stack" {
			left = "none are left: remove temporal.payloads_since from the config of every worker and ctl"
		} else if n == 0 {
			left = "none are left"
		}
		add("older payloads", err, "", "%s", left)
	}
	if detail, hint, err := accessOf(statuses); detail != "" || err != nil {
		add("access file", err, hint, "%s", detail)
	}
	add("versions", mixed, "finish the upgrade", "workers %s, ctl %s", first, core.Version())
	var skewed error
	for _, st := range statuses {
		if d := time.Since(st.Now).Abs(); d > clockSkew+conn.WorkerWait {
			skewed = fmt.Errorf("the clock of worker %s differs from this one by %s", st.Identity, d.Round(time.Second))
		}
	}
	polls, err := t.Pollers(ctx, statuses[0].Zone)
	for _, p := range polls {
		if d := time.Until(p.Seen); d > clockSkew {
			skewed = fmt.Errorf("the clock of Temporal is ahead of this one by %s", d.Round(time.Second))
		}
	}
	add("clock", errors.Join(err, skewed), "set the clocks (NTP): the expiry of approvals is told by them", "agrees with workers and Temporal within %s", clockSkew)
}

// accessOf says which access file is in force, or what is wrong with those of the workers.
// Both are empty without one.
func accessOf(statuses []api.Status) (detail, hint string, err error) {
	var broken []string
	var first *authority.Standing
	other := ""
	for _, st := range statuses {
		is := st.Access
		if is == nil {
			continue
		}
		if is.Broken != "" {
			broken = append(broken, fmt.Sprintf("worker %s: %s", st.Identity, is.Problem()))
			hint = fmt.Sprintf("fix the file: `ctl access check %s` on the machine of the worker names every mistake; workers read it every ten seconds", is.Path)
		}
		if first == nil {
			first = is
		} else if is.Digest != first.Digest {
			other = fmt.Sprintf("the workers have different files in force: %s (digest %s) and %s (digest %s)", first.Path, first.Digest, is.Path, is.Digest)
		}
	}
	switch {
	case first == nil:
		return "", "", nil
	case len(broken) > 0:
		return "", hint, errors.New(strings.Join(broken, "; "))
	case other != "":
		return "", "copy one access file to all workers; they read it every ten seconds", errors.New(other)
	}
	return fmt.Sprintf("%s, digest %s, in force since %s", first.Path, first.Digest, first.Since.UTC().Format(time.RFC3339)), "", nil
}

// failing names the workflows whose tasks fail again and again.
func failing(stuck []conn.StuckWorkflow) error {
	var all []string
	for _, s := range stuck {
		all = append(all, s.String())
	}
	if len(all) == 0 {
		return nil
	}
	return errors.New(strings.Join(all, "; "))
}

// untrusted names the workers that ctl sends nothing to, because they may be somebody else's.
func untrusted(workers []conn.WorkerView) error {
	var why []string
	for _, w := range workers {
		if w.Refused {
			why = append(why, w.API+": "+w.Problem)
		}
	}
	if len(why) == 0 {
		return nil
	}
	return errors.New(strings.Join(why, "; "))
}

// sameKeys checks that ctl and all workers encrypt with one key, and that our stack's UI
// can decode payloads.
func sameKeys(a *core.App, t *conn.Conn, statuses []api.Status) error {
	ours, _ := t.Codec.Encrypts()
	endpoints := 0
	for _, st := range statuses {
		if st.PayloadKey != ours {
			return fmt.Errorf("the worker %s encrypts with key %s and ctl with %s", st.Identity, orNone(st.PayloadKey), orNone(ours))
		}
		if st.CodecEndpoint != "" {
			endpoints++
		}
	}
	if own, err := conn.Stack(a); err == nil && own.Temporal.Address == t.Address && own.CodecEndpoint != "" && endpoints == 0 {
		return fmt.Errorf("the UI asks %s to decode payloads, and no worker does (worker.log says why)", own.CodecEndpoint)
	}
	return nil
}

func payloadsOf(a *core.App, t *conn.Conn, statuses []api.Status) string {
	v := statusView{}
	v.Temporal.PayloadKey, _ = t.Codec.Encrypts()
	own, err := conn.Stack(a)
	if err != nil || own.Temporal.Address != t.Address {
		own = nil
	}
	v.Temporal.CodecEndpoint = codecEndpoint(own, statuses)
	return v.payloads()
}

func runs(ctx context.Context, path string) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, path, "version").CombinedOutput()
	if err != nil {
		return fmt.Errorf("run %s version: %v: %s", path, err, firstLine(string(out)))
	}
	return nil
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(s), "\n")
	return line
}

// writable checks the folder, or its nearest existing parent.
func writable(dir string) error {
	dir = existing(dir)
	f, err := os.CreateTemp(dir, ".fairlead-*")
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

func existing(dir string) string {
	for {
		if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) || filepath.Dir(dir) == dir {
			return dir
		}
		dir = filepath.Dir(dir)
	}
}

func diskFree(dir string) (uint64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(existing(dir), &st); err != nil {
		return 0, fmt.Errorf("look at the disk of %s: %w", dir, err)
	}
	return st.Bavail * uint64(st.Bsize), nil
}

// keyFiles returns the key files of store and payloads: of the running stack, or for a
// stack in dir. A name is empty if the config names none and there is no such file.
func keyFiles(a *core.App, dir string, info *stack.Info, up bool) (identity, keys string) {
	if up {
		return info.Identity, info.PayloadKey
	}
	there := func(named, file string) string {
		if path := cmp.Or(named, filepath.Join(dir, file)); named != "" || exists(path) {
			return path
		}
		return ""
	}
	conf, err := a.Config()
	if err != nil {
		return "", ""
	}
	return there(conf.Store.Identity, "identity.txt"), there(conf.Temporal.PayloadKey, "payload.key")
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// readable checks that a secret file is private and loads.
func readable(path string, load func() error) error {
	if err := private(path); err != nil {
		return err
	}
	return load()
}

func private(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if secretfile.Exposed(info) {
		return fmt.Errorf("others may read %s (mode %04o)", path, info.Mode().Perm())
	}
	return nil
}
