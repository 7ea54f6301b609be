package activities

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"fairlead.dev/fairlead/activities/folder"
	"fairlead.dev/fairlead/activities/places"
	"fairlead.dev/fairlead/activities/site"
	"fairlead.dev/fairlead/activities/workspaces"
	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/hostexec/hosttest"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/internal/realparts"
)

// theToken is a made-up token that must not be anywhere except in the store.
const theToken = "tok-canary-7f3a9c51d2"

// git runs git in a folder, without the user's configuration.
func git(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null",
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.com")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %s: %v: %s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

// A forge is a git server on this machine that requires a token.
type forge struct {
	t      *testing.T
	dir    string // of the bare repositories
	server *httptest.Server
	user   string        // the token's user; empty means x-access-token
	asked  atomic.Int64  // requests with the token
	gate   chan struct{} // if set, requests wait for it
}

// newForge serves project.git and part.git. project.git has two commits on main, one on
// next, and part.git as a submodule.
func newForge(t *testing.T) *forge {
	t.Helper()
	f := &forge{t: t, dir: t.TempDir()}
	out, err := exec.Command("git", "--exec-path").Output()
	if err != nil {
		t.Fatal(err)
	}
	backend := &cgi.Handler{Path: filepath.Join(strings.TrimSpace(string(out)), "git-http-backend"),
		Env: []string{"GIT_PROJECT_ROOT=" + f.dir, "GIT_HTTP_EXPORT_ALL=1", "REMOTE_USER=a"}}
	f.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, token, _ := r.BasicAuth(); user != cmp.Or(f.user, "x-access-token") || token != theToken {
			w.Header().Set("WWW-Authenticate", `Basic realm="forge"`)
			http.Error(w, "who are you?", http.StatusUnauthorized)
			return
		}
		f.asked.Add(1)
		if f.gate != nil {
			select {
			case <-f.gate:
			case <-r.Context().Done():
				return
			}
		}
		backend.ServeHTTP(w, r)
	}))
	t.Cleanup(f.server.Close)
	f.fill()
	return f
}

func (f *forge) url(name string) string { return f.server.URL + "/" + name }

func (f *forge) fill() {
	t := f.t
	for _, name := range []string{"part", "project"} {
		git(t, f.dir, "init", "-q", "--bare", "-b", "main", name+".git")
		git(t, filepath.Join(f.dir, name+".git"), "config", "http.receivepack", "true")
	}
	part := t.TempDir()
	git(t, part, "init", "-q", "-b", "main")
	putFile(t, filepath.Join(part, "part.txt"), "a part\n")
	git(t, part, "add", "-A")
	git(t, part, "commit", "-qm", "a part")
	git(t, part, "push", "-q", filepath.Join(f.dir, "part.git"), "main")

	work := t.TempDir()
	git(t, work, "init", "-q", "-b", "main")
	putFile(t, filepath.Join(work, "a.txt"), "one\n")
	git(t, work, "add", "-A")
	git(t, work, "commit", "-qm", "one")
	git(t, work, "-c", "protocol.file.allow=always", "submodule", "add", "-q", filepath.Join(f.dir, "part.git"), "part")
	git(t, work, "config", "-f", ".gitmodules", "submodule.part.url", f.url("part.git"))
	putFile(t, filepath.Join(work, "a.txt"), "two\n")
	git(t, work, "add", "-A")
	git(t, work, "commit", "-qm", "two")
	git(t, work, "checkout", "-qb", "next")
	putFile(t, filepath.Join(work, "b.txt"), "next\n")
	git(t, work, "add", "-A")
	git(t, work, "commit", "-qm", "three")
	git(t, work, "push", "-q", filepath.Join(f.dir, "project.git"), "main", "next")
}

func putFile(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// token puts the forge's token into the store, for all sessions.
func (b *bed) token(f *forge) string {
	b.t.Helper()
	blob, err := workspaces.StoreToken(b.t.Context(), b.store, "", aFolder, f.url("project.git"), theToken, "")
	if err != nil {
		b.t.Fatal(err)
	}
	return blob
}

func (b *bed) inWorkspace(id string, w workspaces.Workspace) places.PrepareSessionInput {
	return places.PrepareSessionInput{Claim: protocol.Claim{Session: id, Host: b.spec, Generation: 1, Pump: 1}, Sandbox: "danger-full-access", Workspace: &w}
}

func (b *bed) closes(in places.PrepareSessionInput, l protocol.Layout) places.CloseSessionResult {
	b.t.Helper()
	in.Claim.Pump += 100
	out, err := places.CloseSession(b.t.Context(), b.set.Place.Site, places.CloseSessionInput{Claim: in.Claim, Layout: l, Workspace: in.Workspace}, 1, site.Secrets{})
	if err != nil {
		b.t.Fatal(err)
	}
	return out
}

func TestAClonedRepositoryIsWorkedInAndItsTokenIsNowhere(t *testing.T) {
	f := newForge(t)
	b := newBed(t, readyHost(t))
	in := b.inWorkspace("cloned", workspaces.Workspace{Repo: &workspaces.Repo{URL: f.url("project.git"), Ref: "next", Token: b.token(f)},
		Hooks: workspaces.Hooks{AfterCreate: `tr '\0' '\n' </proc/$$/environ; ls /proc/self/fd; git status --porcelain`}})
	out, err := b.prepare(in)
	if err != nil {
		t.Fatal(err)
	}
	want := git(t, filepath.Join(f.dir, "project.git"), "rev-parse", "next")
	if out.Brought == nil || out.Brought.Commit != want {
		t.Errorf("brought %+v, want commit %s", out.Brought, want)
	}
	if got := b.sh(`cd "$1" && cat a.txt b.txt part/part.txt && git status --porcelain && git rev-parse --abbrev-ref HEAD`, out.Layout.WorkDir); got != "two\nnext\na part\nnext\n" {
		t.Errorf("in the work folder: %q", got)
	}
	if again, err := b.prepare(in); err != nil || again.Brought == nil || again.Brought.Commit != want {
		t.Errorf("prepared again: %+v, %v", again, err)
	}
	// The test searches the host: files, and the environment and arguments of
	// processes.
	if found := b.sh(`grep -rlaF -e "$2" "$1" "$HOME" 2>/dev/null; for p in /proc/[0-9]*; do { grep -laF -e "$2" "$p/environ" "$p/cmdline"; } 2>/dev/null; done; :`, b.root(), theToken); found != "" {
		t.Errorf("the token is in %s", found)
	}
	if strings.Contains(fmt.Sprintf("%+v %+v %+v", out, *out.Brought, out.Brought.Created), theToken) {
		t.Error("the token is in the result")
	}
	b.closes(in, out.Layout)
}

func TestARepositoryThatCannotBeClonedIsSaidWhyAndLeavesNothing(t *testing.T) {
	f := newForge(t)
	b := newBed(t, protocol.HostSpec{Name: protocol.LocalHost, Root: filepath.Join(t.TempDir(), "root")})
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	silent := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	t.Cleanup(silent.Close)
	for what, c := range map[string]struct {
		w         workspaces.Workspace
		why, hint string
	}{
		"no token":        {workspaces.Workspace{Repo: &workspaces.Repo{URL: f.url("project.git")}}, "could not read Username", "--git-token-file"},
		"no such repo":    {workspaces.Workspace{Repo: &workspaces.Repo{URL: f.url("nothing.git"), Token: b.token(f)}}, "not found", "check the URL"},
		"no such ref":     {workspaces.Workspace{Repo: &workspaces.Repo{URL: f.url("project.git"), Ref: "nowhere", Token: b.token(f)}}, "nowhere not found", "--ref"},
		"no server":       {workspaces.Workspace{Repo: &workspaces.Repo{URL: gone.URL + "/x.git"}}, "onnect", "must reach"},
		"takes too long":  {workspaces.Workspace{Repo: &workspaces.Repo{URL: silent.URL + "/x.git"}, Timeout: time.Second}, "longer than its time limit", "--clone-timeout"},
		"a failing hook":  {workspaces.Workspace{Hooks: workspaces.Hooks{AfterCreate: "echo made; echo no luck >&2; exit 7"}}, "status 7", "--hooks"},
		"a hanging hook":  {workspaces.Workspace{Hooks: workspaces.Hooks{AfterCreate: "echo waiting; sleep 1000 & wait", Timeout: time.Second}}, "did not end within 1s", "timeout"},
		"before_run ends": {workspaces.Workspace{Hooks: workspaces.Hooks{BeforeRun: "exit 3"}}, "status 3", "--hooks"},
	} {
		t.Run(what, func(t *testing.T) {
			_, err := b.prepare(b.inWorkspace("broken", c.w))
			app := appError(t, err)
			var p protocol.Problem
			if err := app.Details(&p); err != nil {
				t.Fatal(err)
			}
			if app.Type() != protocol.ErrTypeWorkspace || !app.NonRetryable() || !strings.Contains(p.Message, c.why) || !strings.Contains(p.Hint, c.hint) {
				t.Errorf("%v (hint %q), want a %s with %q and hint %q", app, p.Hint, protocol.ErrTypeWorkspace, c.why, c.hint)
			}
			left, lerr := hosttest.Leftovers(filepath.Join(b.spec.Root, "sessions", "broken"), folder.Mark("broken", folder.LayoutOf(b.spec.Root, "broken")))
			if lerr != nil || len(left) > 0 {
				t.Errorf("left: %v, %v", left, lerr)
			}
			if _, err := os.Stat(filepath.Join(b.spec.Root, "sessions", "broken")); err == nil {
				t.Error("its folder is there")
			}
		})
	}
}

func TestACloneThatIsCutIsFoundAgainAndNotBegunTwice(t *testing.T) {
	f := newForge(t)
	f.gate = make(chan struct{})
	b := newBed(t, readyHost(t))
	in := b.inWorkspace("cut", workspaces.Workspace{Repo: &workspaces.Repo{URL: f.url("project.git"), Token: b.token(f)}})
	stop := make(chan struct{})
	first := in
	first.Stop = stop
	ended := make(chan error, 1)
	go func() {
		_, err := places.PrepareSession(t.Context(), b.set.Place.Site, first, 1, site.Secrets{}, nil)
		ended <- err
	}()
	until(t, func() bool { return f.asked.Load() > 0 }) // git is at work
	pid := b.sh(`cat "$1/sessions/cut/proc/clone/started"`, b.root())
	close(stop) // this worker is to stop
	if err := <-ended; err == nil || !workspaces.StillGoing(t.Context(), err) {
		t.Fatalf("the first worker ended with %v", err)
	}
	if now := b.sh(`cat "$1/sessions/cut/proc/clone/started"`, b.root()); now != pid {
		t.Errorf("the clone was %q and is %q", pid, now)
	}
	close(f.gate)
	c := b.another()
	out, err := places.PrepareSession(t.Context(), c.set.Place.Site, in, 2, site.Secrets{}, nil)
	if err != nil || out.Brought == nil || out.Brought.Commit == "" {
		t.Fatalf("the second worker: %+v, %v", out, err)
	}
	if now := b.sh(`cat "$1/sessions/cut/proc/clone/started"`, b.root()); now != pid {
		t.Errorf("the clone was begun twice: %q, then %q", pid, now)
	}
	b.closes(in, out.Layout)
}

func until(t *testing.T, cond func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !cond(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it did not come to that")
		}
	}
}

func TestAWorkFolderThatIsALinkIsRefused(t *testing.T) {
	b := newBed(t, protocol.HostSpec{Name: protocol.LocalHost, Root: filepath.Join(t.TempDir(), "root")})
	victim := t.TempDir()
	putFile(t, filepath.Join(victim, "precious.txt"), "mine\n")
	for id, at := range map[string]string{"linked-work": "work", "linked-folder": "."} {
		session := filepath.Join(b.spec.Root, "sessions", id)
		link := filepath.Join(session, at)
		if err := os.MkdirAll(filepath.Dir(link), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(victim, link); err != nil {
			t.Fatal(err)
		}
		in := b.inWorkspace(id, workspaces.Workspace{Hooks: workspaces.Hooks{AfterCreate: "rm -rf ./*"}})
		if at == "work" { // an attempt of the same generation was here
			putFile(t, filepath.Join(session, folder.MarkFile), folder.FolderMark{Generation: 1}.Text())
		}
		_, err := b.prepare(in)
		if err == nil || at == "work" && appError(t, err).Type() != protocol.ErrTypeWorkspace {
			t.Errorf("%s: it was prepared, or failed as %v", at, err)
		}
		if data, err := os.ReadFile(filepath.Join(victim, "precious.txt")); err != nil || string(data) != "mine\n" {
			t.Fatalf("%s: %q, %v", at, data, err)
		}
	}
}

func TestHooksRunWhereAndWhenTheyAreToAndTheirOutputIsKept(t *testing.T) {
	b := newBed(t, readyHost(t))
	log := strings.TrimSpace(b.sh(`mktemp`))
	say := func(word string) string {
		return fmt.Sprintf(`echo "%s in $(basename "$PWD") of $FAIRLEAD_ID"; echo %s >>%s`, word, word, log)
	}
	w := workspaces.Workspace{Hooks: workspaces.Hooks{AfterCreate: say("created"), BeforeRun: say("before"), AfterRun: say("after") + "; exit 5", BeforeRemove: say("remove")}}
	in := b.inWorkspace("hooked", w)
	out, err := b.prepare(in)
	if err != nil {
		t.Fatal(err)
	}
	if c := out.Brought.Created; c == nil || c.State != workspaces.HookDone || c.Output != "created in work of hooked" {
		t.Errorf("after_create: %+v", c)
	}
	if c := out.BeforeRun; c == nil || c.State != workspaces.HookDone || c.Output != "before in work of hooked" {
		t.Errorf("before_run: %+v", c)
	}
	b.closes(in, out.Layout)
	if got := b.sh(`cat "$1"`, log); got != "created\nbefore\nafter\nremove\n" {
		t.Errorf("ran: %q", got)
	}
	var seen []string
	for _, e := range readAll(t, b.store, "hooked", 1) {
		if e.Data["hook"] != "" {
			seen = append(seen, e.Data["hook"]+" "+e.Data["state"]+" "+e.Data["output"])
		}
	}
	if got := strings.Join(seen, "; "); got != "after_run failed after in work of hooked; before_remove done remove in work of hooked" {
		t.Errorf("in the transcript: %s", got)
	}
}

func TestWorkThatIsToStayStaysWhereTheResultSays(t *testing.T) {
	b := newBed(t, readyHost(t))
	in := b.inWorkspace("stays", workspaces.Workspace{Keep: true, Hooks: workspaces.Hooks{AfterCreate: "echo here >made.txt", BeforeRemove: "echo never; rm made.txt"}})
	out, err := b.prepare(in)
	if err != nil {
		t.Fatal(err)
	}
	got := b.closes(in, out.Layout)
	if text := b.sh(`cat "$1/made.txt"; [ ! -e "$2" ]`, got.Kept, out.Layout.Dir); text != "here\n" || !got.Removed {
		t.Errorf("kept as %+v: %q", got, text)
	}
}

func TestAnAgentIsLentToGitAloneAndOnlyForItsTime(t *testing.T) {
	f := newForge(t)
	dir := t.TempDir()
	realparts.NotShort(t)
	server, err := hosttest.NewSSHD(t.Context(), filepath.Join(dir, "gitserver"), hosttest.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Close() })
	socket := sshAgent(t, dir, server.Identity())
	b := newBed(t, readyHost(t))
	b.lendFrom(socket)
	_, port, _ := strings.Cut(server.Address(), ":")
	url := fmt.Sprintf("ssh://%s@127.0.0.1:%s%s", server.User(), port, filepath.Join(f.dir, "part.git"))
	known := fmt.Sprintf("[127.0.0.1]:%s %s\n", port, server.HostKey())
	w := workspaces.Workspace{Repo: &workspaces.Repo{URL: url, ForwardAgent: true, KnownHosts: known},
		Hooks: workspaces.Hooks{AfterCreate: `echo "agent: ${SSH_AUTH_SOCK-none}"; ls -a ../workspace; ls -d /tmp/ssh-*/agent.* 2>/dev/null | while read -r s; do [ ! -O "$s" ] || echo "left $s"; done; :`}}
	in := b.inWorkspace("lent", w)
	out, err := b.prepare(in)
	if err != nil {
		t.Fatal(err)
	}
	if got := out.Brought.Created.Output; !strings.Contains(got, "agent: none") || strings.Contains(got, "agent\n") || strings.Contains(got, "left") {
		t.Errorf("a hook saw: %s", got)
	}
	if len(out.Brought.Refused) > 0 {
		t.Errorf("the agent refused git: %q", out.Brought.Refused)
	}
	b.closes(in, out.Layout)

	refuses := func(id string, says, hint string, change func(*workspaces.Repo)) {
		t.Helper()
		w, r := w, *w.Repo
		change(&r)
		w.Repo = &r
		_, err := b.prepare(b.inWorkspace(id, w))
		app := appError(t, err)
		var p protocol.Problem
		if app.Details(&p) != nil || app.Type() != protocol.ErrTypeWorkspace || !strings.Contains(app.Message(), says) || !strings.Contains(p.Hint, hint) {
			t.Errorf("%s: %v, hint %q", id, app, p.Hint)
		}
	}
	t.Setenv("HOME", dir) // whose known_hosts the worker reads
	refuses("unpinned", "not known to the worker", "--git-known-hosts", func(r *workspaces.Repo) { r.KnownHosts = "" })
	refuses("another-key", "does not have SHA256:", "--forward-key", func(r *workspaces.Repo) { r.AgentKey = "SHA256:" + strings.Repeat("A", 43) })
	refuses("no-ssh", "no URL of an ssh server", "leave out --forward-agent", func(r *workspaces.Repo) { r.URL = filepath.Join(f.dir, "part.git") })
	// Another server shows another key under that name: git believes the host's line, and
	// the agent does not.
	other, err := hosttest.NewSSHD(t.Context(), filepath.Join(dir, "other"), hosttest.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { other.Close() })
	pub, err := os.ReadFile(server.Identity() + ".pub")
	if err != nil {
		pub, err = os.ReadFile(filepath.Join(server.Dir, "authorized_keys"))
	}
	if err := errors.Join(err, os.WriteFile(filepath.Join(other.Dir, "authorized_keys"), pub, 0o644)); err != nil {
		t.Fatal(err)
	}
	_, otherPort, _ := strings.Cut(other.Address(), ":")
	b.sh(`umask 077; mkdir -p "$HOME/.ssh" && printf '[localhost]:%s %s\n' "$1" "$2" >>"$HOME/.ssh/known_hosts"`, otherPort, other.HostKey())
	lines := fmt.Sprintf("[localhost]:%s %s\n", otherPort, server.HostKey())
	refuses("elsewhere", "the lent SSH agent refused", "URL's server alone", func(r *workspaces.Repo) {
		r.URL, r.KnownHosts = strings.Replace(r.URL, "127.0.0.1:"+port, "localhost:"+otherPort, 1), lines
	})
}

func TestTheServerOfAnSSHURLIsFound(t *testing.T) {
	for url, want := range map[string]string{
		"git@example.com:team/app.git":         "git example.com:22",
		"example.com:app.git":                  "example.com:22",
		"git@[2001:db8::1]:app.git":            "git [2001:db8::1]:22",
		"[2001:db8::1]:app.git":                "[2001:db8::1]:22",
		"example.com:a@b:c.git":                "example.com:22",
		"ssh://git@example.com/team/app.git":   "git example.com:22",
		"ssh://example.com:2222/app.git":       "example.com:2222",
		"ssh://git@[2001:db8::1]:2222/app.git": "git [2001:db8::1]:2222",
		"https://example.com/app.git":          "",
		"git://example.com/app.git":            "",
		"file:///srv/app.git":                  "",
		"/srv/app.git":                         "",
		"ssh:///app.git":                       "",
	} {
		user, address, err := workspaces.SSHServer(url)
		if got := strings.TrimSpace(user + " " + address); got != want || (err == nil) != (want != "") {
			t.Errorf("%s: %q, %v; want %q", url, got, err, want)
		}
	}
}

func (b *bed) lendFrom(socket string) {
	pool := hostexec.NewPool(hostexec.PoolOptions{Agent: socket})
	b.t.Cleanup(func() { pool.Close() })
	b.pool = pool
	deps := b.set.site.Deps
	deps.Pool, deps.Chunks = pool, nil
	b.set = New(deps)
}

func sshAgent(t *testing.T, dir, identity string) string {
	t.Helper()
	socket := filepath.Join(dir, "agent.sock")
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, "ssh-agent", "-D", "-a", socket)
	if err := cmd.Start(); err != nil {
		cancel()
		t.Fatal(err)
	}
	t.Cleanup(func() { cancel(); _ = cmd.Wait() }) // the agent is killed
	until(t, func() bool { _, err := os.Stat(socket); return err == nil })
	add := exec.Command("ssh-add", "-q", identity)
	add.Env = append(os.Environ(), "SSH_AUTH_SOCK="+socket)
	var out bytes.Buffer
	add.Stderr = &out
	if err := add.Run(); err != nil {
		t.Fatalf("ssh-add: %v: %s", err, out.String())
	}
	return socket
}

// Perhaps no worker is running when a job ends. The job's result is the same, even if a
// worker looks much later.
func TestAHookThatEndedInItsTimeIsDoneHoweverLateSomebodyLooks(t *testing.T) {
	for _, c := range []struct{ script, took, state string }{
		{"echo made", "5", workspaces.HookDone}, {"exit 7", "5", workspaces.HookFailed}, {"echo made", "3600", workspaces.HookLate},
	} {
		b := newBed(t, protocol.HostSpec{Name: protocol.LocalHost, Root: filepath.Join(t.TempDir(), "root")})
		in := b.inWorkspace("unseen", workspaces.Workspace{})
		out, err := b.prepare(in)
		if err != nil {
			t.Fatal(err)
		}
		h, err := b.set.site.Host(in.Claim.Host)
		if err != nil {
			t.Fatal(err)
		}
		w := workspaces.Workspace{Hooks: workspaces.Hooks{Timeout: time.Minute}}
		j := workspaces.WorkspaceJob(b.set.site, h, out.Layout, in.Claim, 1, nil)
		if _, err := workspaces.RunHook(t.Context(), b.set.site, j, w, workspaces.HookBeforeRun, c.script, "1.1", nil); err != nil {
			t.Fatal(err)
		}
		b.sh(`cd "$1/proc/hook.before_run.1.1" && read -r pid start x <started && read -r code x <exit && now=$(date +%s) &&
touch -d "@$((now - 7200))" started && echo "$code $((start + $2 * $(getconf CLK_TCK)))" >exit`, out.Layout.Dir, c.took)
		run, err := workspaces.RunHook(t.Context(), b.set.site, j, w, workspaces.HookBeforeRun, c.script, "1.1", nil)
		if err != nil || run.State != c.state {
			t.Errorf("%s: looked at two hours later it is %+v, %v", c.script, run, err)
		}
		b.closes(in, out.Layout)
	}
}
