package docs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"fairlead.dev/fairlead/internal/lab"
	"fairlead.dev/fairlead/internal/lab/e2e"
	"fairlead.dev/fairlead/internal/lab/scriptedauth"
	"fairlead.dev/fairlead/internal/lab/scriptedmodel"
	"fairlead.dev/fairlead/internal/protocol"
)

func TestTheDemoShowsWhatItSays(t *testing.T) {
	cmd := exec.CommandContext(e2e.Within(t), "go", "run", "./internal/lab/demo")
	cmd.Dir = e2e.Repo
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{
		"[mallory] ctl: accept approval demo.1: decide: its signature does not count: its key is not that of an allowed signer: ",
		"[mallory] (exit 6)", "what nobody signed began no turn",
		"kill -9", "1 to 60, each once, in order", "no worker is up: Temporal keeps the request until one is", "the command ran once",
		"none is missing, none comes twice", "not in the memory of its codex", "All of it happened.",
	} {
		if !strings.Contains(string(out), want) {
			t.Errorf("the demo does not show %q:\n%s", want, out)
		}
	}
}

// pages are the pages whose commands are run, in the order in which they are run.
// Later pages go on with the sessions, seeds and hosts of earlier ones.
var pages = []string{
	"README.md",
	"docs/tutorial.md",
	"docs/how-to/run-a-local-stack.md",
	"docs/how-to/use-the-console.md",
	"docs/how-to/use-temporals-ui-and-cli.md",
	"docs/how-to/add-a-host.md",
	"docs/how-to/import-hosts.md",
	"docs/how-to/size-a-fleet.md",
	"docs/how-to/take-a-host-out-of-service.md",
	"docs/how-to/give-sessions-credentials.md",
	"docs/how-to/run-codex-on-hosts-without-internet.md",
	"docs/how-to/cap-what-a-team-spends.md",
	"docs/how-to/share-a-team-login.md",
	"docs/how-to/encrypt-what-is-kept.md",
	"docs/how-to/look-after-logins.md",
	"docs/how-to/use-several-accounts.md",
	"docs/how-to/run-a-prompt.md",
	"docs/how-to/share-hosts.md",
	"docs/how-to/work-in-a-repository.md",
	"docs/how-to/run-on-a-schedule.md",
	"docs/how-to/run-a-batch.md",
	"docs/how-to/hold-a-conversation.md",
	"docs/how-to/start-from-ci.md",
	"docs/how-to/decide-approvals.md",
	"docs/how-to/let-codex-hand-over-files.md",
	"docs/how-to/give-codex-instructions.md",
	"docs/how-to/follow-a-turn-by-a-review.md",
	"docs/how-to/let-codex-start-sessions.md",
	"docs/how-to/see-what-goes-on.md",
	"docs/how-to/answer-alerts.md",
	"docs/how-to/run-workers-for-a-team.md",
	"docs/how-to/install-on-postgresql.md",
	"docs/how-to/audit-who-did-what.md",
	"docs/how-to/run-a-command-on-a-host.md",
	"docs/how-to/park-or-move-a-session.md",
	"docs/how-to/use-snapshots.md",
	"docs/how-to/look-after-the-store.md",
	"docs/how-to/recover-after-a-restore.md",
	"docs/how-to/handle-the-death-of-codex.md",
	"docs/how-to/write-a-policy.md",
	"docs/how-to/use-the-http-api.md",
}

const (
	policyPage = "docs/how-to/write-a-policy.md"
	batchPage  = "docs/how-to/run-a-batch.md"
	httpPage   = "docs/how-to/use-the-http-api.md"
	rulesPage  = "docs/how-to/follow-a-turn-by-a-review.md"
	signedPage = "docs/how-to/sign-decisions.md"      // its commands need keys; internal/lab/e2e/approvals has them
	tokensPage = "docs/how-to/tokens-for-programs.md" // its commands need an access file; cmd/ctl/token_test.go has one
	loginPage  = "docs/how-to/let-people-log-in.md"   // its commands need an identity provider; internal/lab/e2e/authority has one
)

var (
	// command is a line of an indented block that runs ctl, or asks the HTTP API.
	command = regexp.MustCompile(`(?m)^ {4}(.*(?:bin/ctl|curl -K) .*)$`)
	// unrun is a line that runs ctl and is not indented: only signedPage, loginPage and tokensPage may have some.
	unrun = regexp.MustCompile(`(?m)^(?:[^\s|].*)?bin/ctl .*$`)
	// comment is what stands behind a command.
	comment = regexp.MustCompile(` {2,}#.*`)
)

func page(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(e2e.Repo, filepath.FromSlash(name)))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// notRun says which commands of a page no test runs; nothing is "".
func notRun(name, text string) string {
	if line := unrun.FindString(text); line != "" && name != signedPage && name != loginPage && name != tokensPage {
		return fmt.Sprintf("no test runs %q: indent it by four spaces", line)
	}
	has, listed := command.MatchString(text), slices.Contains(pages, name)
	switch {
	case has && !listed:
		return "it has commands: add it to pages"
	case !has && listed:
		return "it has no commands: take it out of pages"
	}
	return ""
}

// TestEveryPageWithCommandsIsRun fails for a page that has commands and is not one of pages.
func TestEveryPageWithCommandsIsRun(t *testing.T) {
	found := []string{"README.md"}
	err := filepath.WalkDir(filepath.Join(e2e.Repo, "docs"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".md" {
			return err
		}
		rel, err := filepath.Rel(e2e.Repo, path)
		found = append(found, filepath.ToSlash(rel))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range found {
		if why := notRun(name, page(t, name)); why != "" {
			t.Errorf("%s: %s", name, why)
		}
	}
	for _, name := range pages {
		if !slices.Contains(found, name) {
			t.Errorf("%s is one of pages and does not exist", name)
		}
	}
}

func TestAPageThatIsNotRunIsNoticed(t *testing.T) {
	const run, fenced = "# A page\n\n    bin/ctl status\n", "# A page\n\n```sh\nbin/ctl status\n```\n"
	for _, c := range []struct {
		name, text string
		noticed    bool
	}{
		{"docs/how-to/new.md", run, true},
		{"docs/how-to/new.md", fenced, true},
		{"docs/how-to/new.md", "Say `ctl status`.\n", false},
		{batchPage, run, false},
		{batchPage, run + fenced, true},
		{batchPage, "Say `ctl status`.\n", true},
		{signedPage, fenced, false},
		{signedPage, run, true},
		{loginPage, fenced, false},
		{tokensPage, fenced, false},
	} {
		if why := notRun(c.name, c.text); (why != "") != c.noticed {
			t.Errorf("%s with %q: %q", c.name, c.text, why)
		}
	}
}

// TestEveryCommandOfThePagesWorks runs the lines that call bin/ctl, in
// their order, on a stack of their own. Only placeholders for things of the
// reader's own are filled in.
func TestEveryCommandOfThePagesWorks(t *testing.T) {
	r := &reader{t: t}
	r.logIn()
	r.keepPolicy(page(t, policyPage))
	r.keepBatch(page(t, batchPage))
	r.keepRules(page(t, rulesPage))
	r.keepCurl(page(t, httpPage))
	r.keepHosts()
	r.keepRepo()
	left := pages
	run := func(t *testing.T, upTo string) {
		r.t = t
		for ran := ""; ran != upTo && len(left) > 0; left = left[1:] {
			ran = left[0]
			r.follow(ran)
		}
	}
	t.Run("first pages", func(t *testing.T) { run(t, "docs/tutorial.md") })
	t.Run("how-to pages", func(t *testing.T) { // they go on from the first pages, which run here if they were left out
		run(t, pages[len(pages)-1])
		r.sh("cd " + quoted(r.work()) + " && cmp src/README results/README && grep -q '+from where I began' mend-7.patch && git -C app.git show mend-7:src/note.txt")
		r.sh("grep -q 'all is better' " + quoted(r.report()))
		for _, s := range []string{"mend-1", "first", "release-42"} {
			if v := e2e.Show(t, s); v.State != protocol.Closed {
				t.Errorf("session %s is %s after the last command on it", s, v.State)
			}
		}
	})
}

// A reader does what the pages say, on the shared stack.
type reader struct{ t *testing.T }

// follow runs the commands of a page.
func (r *reader) follow(name string) {
	r.t.Helper()
	lines := command.FindAllStringSubmatch(page(r.t, name), -1)
	if len(lines) == 0 {
		r.t.Errorf("%s has no commands", name)
	}
	for _, m := range lines {
		line := strings.TrimSpace(comment.ReplaceAllString(m[1], ""))
		r.t.Log(name + ": $ " + line)
		r.run(line)
	}
}

// logIn makes the codex home of a reader who is logged in with ChatGPT.
func (r *reader) logIn() {
	r.t.Helper()
	login := scriptedauth.Serve(r.t).Login(scriptedauth.Account{})
	err := errors.Join(os.MkdirAll(r.home(), 0o700),
		os.WriteFile(filepath.Join(r.home(), "auth.json"), login.AuthJSON(), 0o600),
		os.WriteFile(filepath.Join(r.home(), "config.toml"), []byte(scriptedmodel.LoginConfigTOML(e2e.Lab.Model.BaseURL())), 0o600))
	if err != nil {
		r.t.Fatal(err)
	}
}

// keepPolicy makes a file of the policy that its page shows.
func (r *reader) keepPolicy(page string) {
	r.t.Helper()
	_, rest, found := strings.Cut(page, "```yaml\nrules:")
	text, _, closed := strings.Cut(rest, "```")
	if !found || !closed {
		r.t.Fatal(policyPage + " shows no policy")
	}
	if err := os.WriteFile(r.policy(), []byte("rules:"+text), 0o600); err != nil {
		r.t.Fatal(err)
	}
}

// keepBatch makes the batch's file that its page shows, for the host there is.
func (r *reader) keepBatch(page string) {
	r.t.Helper()
	text := r.shown(page, "upgrade.yaml")
	if !strings.Contains(text, "label: [os=linux]") {
		r.t.Fatal(batchPage + " shows no batch")
	}
	r.write(r.batch(), strings.ReplaceAll(text, "label: [os=linux]", "host: web-1"))
}

// keepRules makes the file of rules for follow-ups that its page shows.
func (r *reader) keepRules(page string) {
	r.t.Helper()
	r.write(r.rules(), r.shown(page, "follow-ups.yaml"))
}

// keepCurl makes the file of curl's options that its page shows, for the stack there is.
func (r *reader) keepCurl(page string) {
	r.t.Helper()
	r.write(r.curl(), strings.Replace(r.shown(page, "fairlead.curl"), "/home/me/.local/state/fairlead", e2e.Lab.State, 1))
}

// shown returns the file that a page has its reader make.
func (r *reader) shown(page, name string) string {
	r.t.Helper()
	_, rest, found := strings.Cut(page, "cat > "+name+" <<'END'\n")
	text, _, closed := strings.Cut(rest, "    END\n")
	if !found || !closed {
		r.t.Fatal("no page shows " + name)
	}
	return strings.ReplaceAll("\n"+text, "\n    ", "\n")
}

func (r *reader) write(file, text string) {
	r.t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		r.t.Fatal(err)
	}
}

// keepHosts makes the files of a reader who has hosts already.
func (r *reader) keepHosts() {
	r.t.Helper()
	for name, text := range map[string]string{
		"inventory.ini": "[lab]\nlab-[1:2] ansible_host=192.0.2.1 ansible_user=dev\n",
		"ssh-config":    "Host build-1 build-2\n  HostName 192.0.2.1\nHost *\n  User dev\n",
		"known_hosts":   "192.0.2.1 " + e2e.Web1.HostKey() + "\n",
	} {
		if err := os.WriteFile(r.hosts(name), []byte(text), 0o600); err != nil {
			r.t.Fatal(err)
		}
	}
}

// keepRepo makes the repository and the folder of a reader who has some.
func (r *reader) keepRepo() {
	r.t.Helper()
	r.sh("set -e; mkdir -p " + quoted(r.work()) + "/app; cd " + quoted(r.work()) + `; echo mine >app/README
git -c init.defaultBranch=main init -q src; echo ours >src/README
git -C src add -A; git -C src -c user.name=n -c user.email=n@example.com commit -qm first; git clone -q --bare src app.git`)
}

// work is where the reader has them; web-1 is this machine.
func (r *reader) work() string { return filepath.Join(e2e.Lab.Dir, "reader-work") }

func (r *reader) hosts(name string) string { return filepath.Join(e2e.Lab.Dir, "reader-"+name) }

func (r *reader) rules() string { return filepath.Join(e2e.Lab.Dir, "follow-ups.yaml") }

func (r *reader) curl() string { return filepath.Join(e2e.Lab.Dir, "fairlead.curl") }

func (r *reader) batch() string { return filepath.Join(e2e.Lab.Dir, "upgrade.yaml") }

func (r *reader) policy() string { return filepath.Join(e2e.Lab.Dir, "policy.yaml") }

func (r *reader) report() string { return filepath.Join(r.work(), "report.md") }

func (r *reader) home() string { return filepath.Join(e2e.Lab.Dir, "reader-seed") }

func (r *reader) run(line string) {
	t := r.t
	switch {
	case strings.Contains(line, "ctl up"), strings.HasSuffix(line, "ctl down"):
		return // the stack is up; ctl's own tests bring one up and down
	case strings.Contains(line, "host add web-1"):
		return // web-1 is there, added with --host-key by this test's lab
	case strings.Contains(line, "seed import team"):
		return // team is there: the reader's own ~/.codex is not for a test
	case strings.Contains(line, "seed login team"):
		return // its issuer is the world's own; TestSeedsAreLookedAfter logs in at another
	case strings.Contains(line, "seed capture team"):
		// Somebody has logged in on the host; team stays what it is.
		login := e2e.Issuer.Login(scriptedauth.Account{ID: "acct-readers"})
		home := filepath.Join(e2e.Web1.Home, ".codex")
		if err := errors.Join(os.MkdirAll(home, 0o700), os.WriteFile(filepath.Join(home, "auth.json"), login.AuthJSON(), 0o600)); err != nil {
			t.Fatal(err)
		}
		line = strings.ReplaceAll(line, "capture team", "capture readers")
	case strings.Contains(line, "seed verify team"):
		// team's model is on this machine's loopback, where only codex asks.
		line = strings.ReplaceAll(line, "verify team", "verify readers")
	case strings.Contains(line, "seed set team --policy"):
		// Its other sessions are none of a policy's business: it is taken back.
		defer r.sh("bin/ctl seed set team --policy none")
	case strings.Contains(line, "host import inventory.ini") && !strings.Contains(line, "--dry-run"):
		defer r.sh("bin/ctl host remove lab-1 && bin/ctl host remove lab-2") // nobody is there
	case strings.Contains(line, "host import ~/.ssh/config"):
		defer r.sh("bin/ctl host remove build-1 && bin/ctl host remove build-2")
	case strings.Contains(line, "session follow"), strings.Contains(line, "approval watch"), strings.Contains(line, "host tunnel"):
		r.until(line)
		return
	case strings.Contains(line, "/events"):
		line += " | grep -q '^event: entry'" // the stream goes on until the session closes
	case strings.Contains(line, "/decision"):
		e2e.Send(t, "notes-7", "you need a command")
		line = strings.ReplaceAll(line, "DIGEST", e2e.Open(t, "notes-7", 1)[0].Digest)
	case strings.Contains(line, "session interrupt"):
		e2e.Send(t, "release-42", "take your time at gate readme")
		if _, err := e2e.Lab.Model.AwaitWaiting(e2e.Within(t), "readme"); err != nil {
			t.Fatal(err)
		}
		defer e2e.Ended(t, "release-42", 2)
	case strings.Contains(line, "approval accept mend-1.1"):
		e2e.Send(t, "mend-1", "you need a command")
		e2e.Open(t, "mend-1", 1)
	case strings.Contains(line, `run "id" outside`):
		line = strings.Replace(line, `run "id" outside`, `you need a command outside`, 1)
		defer e2e.Open(t, "first", 1)
	case strings.Contains(line, "approval accept first.1"):
		defer e2e.Ended(t, "first", 2)
	case strings.Contains(line, "count slowly to 200, one number a line"):
		line = strings.Replace(line, "count slowly to 200, one number a line", "take your time at gate tutorial", 1)
		defer func() {
			if _, err := e2e.Lab.Model.AwaitWaiting(e2e.Within(t), "tutorial"); err != nil {
				t.Fatal(err)
			}
		}()
	case strings.HasPrefix(line, "kill -9"):
		pid := e2e.WorkerPID(t)
		defer func() {
			e2e.Back(t, pid)
			e2e.Lab.Model.Release("tutorial")
			e2e.Ended(t, "first", 3)
		}()
	case strings.Contains(line, "session send report"):
		line = strings.Replace(line, "hand it over", "hand it over again", 1)
	case strings.Contains(line, "approval show release-42.1"):
		// The pages speak of approvals after they closed the session: another
		// one stands in for it.
		e2e.Session(t, "readme-approval")
		e2e.Send(t, "readme-approval", "you need a command")
		e2e.Open(t, "readme-approval", 1)
	}
	line = strings.ReplaceAll(line, "release-42.1", "readme-approval.1")
	line = strings.ReplaceAll(line, "--host web-2", "--host local") // this machine is the reader's second host
	line = snapshotID.ReplaceAllStringFunc(line, r.newest)
	line = strings.ReplaceAll(line, "~/.codex", r.home())
	line = strings.ReplaceAll(line, "inventory.ini", quoted(r.hosts("inventory.ini")))
	line = strings.ReplaceAll(line, "~/.ssh/config", "--format ssh-config "+quoted(r.hosts("ssh-config")))
	line = strings.ReplaceAll(line, "~/.ssh/known_hosts", quoted(r.hosts("known_hosts")))
	line = strings.ReplaceAll(line, "hosts.yaml", quoted(r.hosts("hosts.yaml")))
	line = strings.ReplaceAll(line, "'mend the build'", "'write a note'") // what this model can do
	line = strings.ReplaceAll(line, "https://example.com/team/app.git", quoted(filepath.Join(r.work(), "app.git")))
	line = strings.ReplaceAll(line, "./app", quoted(filepath.Join(r.work(), "app")))
	line = strings.ReplaceAll(line, "mend-7.patch", quoted(filepath.Join(r.work(), "mend-7.patch")))
	line = strings.ReplaceAll(line, "./results", quoted(filepath.Join(r.work(), "results")))
	line = strings.ReplaceAll(line, "--to report.md", "--to "+quoted(r.report()))
	line = strings.ReplaceAll(line, "policy.yaml", quoted(r.policy()))
	line = strings.ReplaceAll(line, "upgrade.yaml", quoted(r.batch()))
	line = strings.ReplaceAll(line, "follow-ups.yaml", quoted(r.rules()))
	line = strings.ReplaceAll(line, "notes.txt", quoted(filepath.Join(r.work(), "notes.txt")))
	line = strings.ReplaceAll(line, "fairlead.curl", quoted(r.curl()))
	if strings.Contains(line, "git diff |") {
		line = strings.Replace(line, "git diff", "echo hello", 1)
	}
	r.sh(line)
}

// snapshotID is the id of a snapshot, as the pages have it.
var snapshotID = regexp.MustCompile(`[a-z0-9-]+\.snap-[0-9]{8}t[0-9]{6}-[0-9a-f]{6}`)

// newest is the id of the newest snapshot of the session that an id is of.
func (r *reader) newest(id string) string {
	r.t.Helper()
	session, _, _ := strings.Cut(id, ".snap-")
	list, err := lab.Lines[struct{ ID string }](e2e.Within(r.t), e2e.Lab, "snapshot", "list", session)
	if err != nil || len(list) == 0 {
		r.t.Fatalf("session %s has no snapshot (%v)", session, err)
	}
	return list[len(list)-1].ID
}

// sh runs a line as a shell does, with ctl found where the lab's is.
func (r *reader) sh(line string) {
	r.t.Helper()
	ctl := e2e.Lab.Command(e2e.Within(r.t))
	line = strings.ReplaceAll(line, "bin/ctl", strings.Join([]string{quoted(ctl.Path), "--state", quoted(e2e.Lab.State)}, " "))
	cmd := exec.CommandContext(e2e.Within(r.t), "sh", "-c", line)
	cmd.Env, cmd.Dir = ctl.Env, ctl.Dir
	if out, err := cmd.CombinedOutput(); err != nil {
		r.t.Errorf("%s: %v\n%s", line, err, out)
	}
}

func quoted(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// until runs a command that ends with ^C, and ends it so once it has begun.
func (r *reader) until(line string) {
	r.t.Helper()
	args := strings.Fields(strings.TrimPrefix(line, "bin/ctl "))
	cmd := e2e.Lab.Command(e2e.Within(r.t), args...)
	cmd.Cancel = nil
	out, err := cmd.StdoutPipe()
	if err != nil {
		r.t.Fatal(err)
	}
	errs, err := cmd.StderrPipe()
	if err != nil {
		r.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	first := make([]byte, 1)
	if args[0] == "approval" {
		_, err = errs.Read(first)
	} else {
		_, err = out.Read(first)
	}
	if err != nil {
		r.t.Errorf("%s said nothing: %v", line, err)
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		r.t.Error(err)
	}
	lab.Drain(out, errs)
	want := 130
	if args[1] == "tunnel" {
		want = 0 // it is meant to end so
	}
	if err := cmd.Wait(); cmd.ProcessState.ExitCode() != want {
		r.t.Errorf("%s ended with %v", line, err)
	}
}
