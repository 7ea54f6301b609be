package docs

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"fairlead.dev/fairlead/deploy/e2e"
	"fairlead.dev/fairlead/deploy/lab"
	"fairlead.dev/fairlead/deploy/scriptedauth"
	"fairlead.dev/fairlead/deploy/scriptedmodel"
	"fairlead.dev/fairlead/workflows"
)

func TestTheDemoShowsWhatItSays(t *testing.T) {
	cmd := exec.CommandContext(e2e.Within(t), "go", "run", "./deploy/demo")
	cmd.Dir = e2e.Repo
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{
		"kill -9", "1 to 60, each once, in order", "no worker is up: it is kept until one is", "the command ran once",
		"none is missing, none comes twice", "All of it happened.",
	} {
		if !strings.Contains(string(out), want) {
			t.Errorf("the demo does not show %q:\n%s", want, out)
		}
	}
}

// TestEveryCommandOfTheREADMEWorks runs the lines that begin with bin/ctl, in
// their order, on a stack of their own. Only placeholders for things of the
// reader's own are filled in.
func TestEveryCommandOfTheREADMEWorks(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(e2e.Repo, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	lines := regexp.MustCompile(`(?m)^ {4}(.*bin/ctl .*)$`).FindAllStringSubmatch(string(text), -1)
	if len(lines) < 15 {
		t.Fatalf("only %d commands were found in the README", len(lines))
	}
	r := &reader{t: t}
	r.logIn()
	r.keepPolicy(string(text))
	r.keepBatch(string(text))
	r.keepHosts()
	r.keepRepo()
	for _, m := range lines {
		line := strings.TrimSpace(regexp.MustCompile(` {2,}#.*`).ReplaceAllString(m[1], ""))
		t.Log("$ " + line)
		r.run(line)
	}
	r.sh("cd " + quoted(r.work()) + " && cmp src/README results/README && grep -q '+from where I began' mend-7.patch && git -C app.git show mend-7:src/note.txt")
	for _, s := range []string{"release-42"} {
		if v := e2e.Show(t, s); v.State != workflows.Closed {
			t.Errorf("session %s is %s after the README's last command on it", s, v.State)
		}
	}
}

// A reader does what the README says, on the shared stack.
type reader struct{ t *testing.T }

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

// keepPolicy makes a file of the policy that the README shows.
func (r *reader) keepPolicy(readme string) {
	r.t.Helper()
	_, rest, found := strings.Cut(readme, "```yaml\nrules:")
	text, _, closed := strings.Cut(rest, "```")
	if !found || !closed {
		r.t.Fatal("the README shows no policy")
	}
	if err := os.WriteFile(r.policy(), []byte("rules:"+text), 0o600); err != nil {
		r.t.Fatal(err)
	}
}

// keepBatch makes the batch's file that the README shows, for the host there is.
func (r *reader) keepBatch(readme string) {
	r.t.Helper()
	_, rest, found := strings.Cut(readme, "cat > upgrade.yaml <<'END'\n")
	text, _, closed := strings.Cut(rest, "    END\n")
	if !found || !closed || !strings.Contains(text, "label: [os=linux]") {
		r.t.Fatal("the README shows no batch")
	}
	text = strings.ReplaceAll(strings.ReplaceAll("\n"+text, "\n    ", "\n"), "label: [os=linux]", "host: web-1")
	if err := os.WriteFile(r.batch(), []byte(text), 0o600); err != nil {
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

func (r *reader) batch() string { return filepath.Join(e2e.Lab.Dir, "upgrade.yaml") }

func (r *reader) policy() string { return filepath.Join(e2e.Lab.Dir, "policy.yaml") }

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
	case strings.Contains(line, "session follow"), strings.Contains(line, "approval watch"):
		r.until(line)
		return
	case strings.Contains(line, "session interrupt"):
		e2e.Send(t, "release-42", "take your time at gate readme")
		if _, err := e2e.Lab.Model.AwaitWaiting(e2e.Within(t), "readme"); err != nil {
			t.Fatal(err)
		}
		defer e2e.Ended(t, "release-42", 2)
	case strings.Contains(line, "approval show"):
		// The README speaks of approvals after it closed the session: another
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
	line = strings.ReplaceAll(line, "policy.yaml", quoted(r.policy()))
	line = strings.ReplaceAll(line, "upgrade.yaml", quoted(r.batch()))
	if strings.Contains(line, "git diff |") {
		line = strings.Replace(line, "git diff", "echo hello", 1)
	}
	r.sh(line)
}

// snapshotID is the id of a snapshot, as the README has it.
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
	if err := cmd.Wait(); cmd.ProcessState.ExitCode() != 130 {
		r.t.Errorf("%s ended with %v", line, err)
	}
}
