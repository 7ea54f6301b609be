package start

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"fairlead.dev/fairlead/activities/workspaces"
	"fairlead.dev/fairlead/cmd/ctl/internal/conn"
	"fairlead.dev/fairlead/cmd/ctl/internal/core"
	"fairlead.dev/fairlead/snapshots"
	"fairlead.dev/fairlead/workflows/session"
)

// WorkspaceFlags say what a work folder begins with.
type WorkspaceFlags struct {
	repo, ref, user, tokenFile, knownHosts string
	agentKey                               string
	snapshot, hooks, upload                string
	depth                                  int
	forward, keep                          bool
	timeout                                time.Duration

	Tree  *snapshots.LocalTree // of --upload
	token string               // of tokenFile, for the store only
}

func (f *WorkspaceFlags) add(c *cobra.Command) {
	fl := c.Flags()
	fl.StringVar(&f.repo, "repo", "", "work in a clone of this git repository: a `URL`, user@host:path, or an absolute path on the host (git on the host brings it, with submodules and LFS)")
	fl.StringVar(&f.ref, "ref", "", "branch, tag or commit of --repo (default: the server's)")
	fl.IntVar(&f.depth, "depth", 0, "only the newest `N` commits of --repo; 0 is all")
	fl.StringVar(&f.tokenFile, "git-token-file", "", "`FILE` on this machine with a token for --repo; it is kept encrypted in the store, and given to git alone")
	fl.StringVar(&f.user, "git-user", "", "user name that goes with the token (default x-access-token)")
	fl.BoolVar(&f.forward, "forward-agent", false, "lend git on the host a key of the worker's SSH agent, while it clones and pushes, for logins to the server of --repo")
	fl.StringVar(&f.agentKey, "forward-key", "", "`FINGERPRINT` (SHA256:…) of the key that --forward-agent lends; needed if the worker's agent has several")
	fl.StringVar(&f.knownHosts, "git-known-hosts", "", "`FILE` on this machine with known_hosts lines for the git server, beside those that the host has; --forward-agent goes by them, or else by known_hosts of the worker")
	fl.DurationVar(&f.timeout, "clone-timeout", workspaces.CloneTimeout, "longest wait for --repo")
	fl.StringVar(&f.upload, "upload", "", "work in a copy of this local folder: all of `DIR` but .git and what .gitignore leaves out; what the store has of it is not sent again")
	fl.StringVar(&f.snapshot, "from-snapshot", "", "work in a copy of the work folder of this `SNAPSHOT`, without its conversation; --snapshot ID says the same")
	fl.StringVar(&f.hooks, "hooks", "", "`FILE` (YAML) with scripts that run on the host: after_create, before_run, after_run, before_remove, timeout")
	fl.BoolVar(&f.keep, "keep-work", false, "leave the work folder on the host when the session closes")
}

// set fills in the options. It sends nothing.
func (f *WorkspaceFlags) set(opt *session.Options) error {
	w := workspaces.Workspace{Snapshot: f.snapshot, Keep: f.keep}
	if f.timeout != workspaces.CloneTimeout {
		w.Timeout = f.timeout
	}
	if f.repo == "" && (f.ref != "" || f.depth != 0 || f.tokenFile != "" || f.user != "" || f.forward || f.agentKey != "" || f.knownHosts != "") {
		return core.Usage("--ref, --depth, --git-token-file, --git-user, --git-known-hosts, --forward-agent and --forward-key go with --repo")
	}
	if f.agentKey != "" && !f.forward {
		return core.Usage("--forward-key goes with --forward-agent")
	}
	if f.forward {
		if _, _, err := workspaces.SSHServer(f.repo); err != nil {
			return core.Usage("--forward-agent: %v", err).Hinted("an agent is lent for logins to the server of an ssh URL, such as ssh://git@example.com/team/app.git")
		}
	}
	if err := f.one(opt.Dir); err != nil {
		return err
	}
	if f.repo != "" {
		w.Repo = &workspaces.Repo{URL: f.repo, Ref: f.ref, Depth: f.depth, User: f.user, ForwardAgent: f.forward, AgentKey: f.agentKey}
		if err := f.readRepoFiles(w.Repo); err != nil {
			return err
		}
	}
	if f.upload != "" {
		if err := f.readTree(); err != nil {
			return err
		}
		// Other content makes another request.
		w.Uploaded = fmt.Sprintf("%s@%.12s", filepath.Base(f.Tree.Dir()), f.Tree.Digest)
	}
	if f.hooks != "" {
		hooks, err := readHooks(f.hooks)
		if err != nil {
			return err
		}
		w.Hooks = hooks
	}
	if err := w.Check(); err != nil {
		return core.Usage("%v", err)
	}
	opt.Workspace = w
	return nil
}

// one refuses several sources.
func (f *WorkspaceFlags) one(dir string) error {
	var given []string
	for _, g := range []struct{ flag, is string }{{"--repo", f.repo}, {"--upload", f.upload}, {"--from-snapshot", f.snapshot}, {"--dir", dir}} {
		if g.is != "" {
			given = append(given, g.flag)
		}
	}
	if len(given) > 1 {
		return core.Usage("%s: give one of them", strings.Join(given, " and "))
	}
	if dir != "" && f.keep {
		return core.Usage("--keep-work: a folder that --dir names is never removed")
	}
	return nil
}

func (f *WorkspaceFlags) readTree() error {
	info, err := os.Stat(f.upload)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return core.Usage("--upload %s: there is no such folder", f.upload)
	case err != nil:
		return core.Usage("--upload %s: %v", f.upload, errors.Unwrap(err))
	case !info.IsDir():
		return core.Usage("--upload %s is not a folder", f.upload)
	}
	if f.Tree, err = snapshots.ReadLocal(f.upload); err != nil {
		return core.Usage("--upload: %v", err)
	}
	return nil
}

// maxToken exceeds any token.
const maxToken = 4 << 10

func (f *WorkspaceFlags) readRepoFiles(r *workspaces.Repo) error {
	if f.knownHosts != "" {
		lines, err := core.ReadSmall("--git-known-hosts", f.knownHosts, 16<<10)
		if err != nil {
			return err
		}
		r.KnownHosts = string(lines)
	}
	if f.tokenFile == "" {
		return nil
	}
	data, err := core.ReadSmall("--git-token-file", f.tokenFile, maxToken)
	if err != nil {
		return err
	}
	f.token = strings.TrimSpace(string(data))
	if err := workspaces.CheckToken(f.token); err != nil {
		return core.Usage("--git-token-file %s: %v", f.tokenFile, err)
	}
	if err := workspaces.CheckTokenURL(r.URL); err != nil {
		return core.Usage("--git-token-file: %v", err)
	}
	return nil
}

// Send uploads the token and the folder. The token belongs to session id, or to shared: the
// folder of a batch or schedule.
func (f *WorkspaceFlags) Send(ctx context.Context, a *core.App, t *conn.Conn, id, shared string, opt *session.Options) error {
	if f.token == "" && f.Tree == nil {
		return nil
	}
	worker, err := conn.AnyWorker(ctx, a, t)
	if err != nil {
		return err
	}
	if f.Tree != nil {
		m, sent, err := worker.PutTree(ctx, id, f.Tree)
		if errors.Is(err, snapshots.ErrLocalChanged) {
			return core.Failed("upload %s: %v", f.upload, err)
		}
		if err != nil {
			return conn.APIFailure("upload "+f.upload, err)
		}
		a.Note("uploaded %s: %d files, %d bytes, of which %d were sent", f.upload, m.Files, m.Bytes, sent)
		opt.Workspace.Snapshot = m.ID
		return nil
	}
	owner := id
	if shared != "" {
		owner = ""
	}
	blob, err := worker.PutToken(ctx, owner, shared, opt.Workspace.Repo.URL, f.token)
	if err != nil {
		return conn.APIFailure("keep the token", err)
	}
	opt.Workspace.Repo.Token = blob
	return nil
}
