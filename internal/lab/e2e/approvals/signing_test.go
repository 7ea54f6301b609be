package approvals

import (
	"bytes"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.temporal.io/sdk/client"

	"fairlead.dev/fairlead/internal/lab"
	"fairlead.dev/fairlead/internal/lab/e2e"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/internal/sshsig"
)

// A sshKey is a private key made by ssh-keygen.
type sshKey struct {
	t    *testing.T
	file string
	line string // for the approvers of a policy
}

func keygen(t *testing.T, in string, args ...string) string {
	t.Helper()
	c := exec.CommandContext(e2e.Within(t), "ssh-keygen", args...)
	var out, errs bytes.Buffer
	c.Stdin, c.Stdout, c.Stderr = strings.NewReader(in), &out, &errs
	if err := c.Run(); err != nil {
		t.Fatalf("ssh-keygen %q: %v: %s", args, err, &errs)
	}
	return out.String()
}

func newKey(t *testing.T, name, passphrase string) sshKey {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	keygen(t, "", "-q", "-t", "ed25519", "-N", passphrase, "-C", name, "-f", file)
	data, err := os.ReadFile(file + ".pub")
	if err != nil {
		t.Fatal(err)
	}
	return sshKey{t, file, strings.Join(strings.Fields(string(data))[:2], " ")}
}

func (k sshKey) signs(message, namespace string) string {
	k.t.Helper()
	return keygen(k.t, message, "-q", "-Y", "sign", "-n", namespace, "-f", k.file)
}

// certifies makes a certificate for another key, next to its file.
func (k sshKey) certifies(other sshKey, args ...string) {
	k.t.Helper()
	keygen(k.t, "", append(append([]string{"-q", "-s", k.file, "-I", "of a test"}, args...), other.file+".pub")...)
}

func agentWith(t *testing.T, keys ...sshKey) (socket string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "fl-agent") // the path of a socket must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	socket = filepath.Join(dir, "s")
	agent := exec.Command("ssh-agent", "-D", "-a", socket)
	if err := agent.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = agent.Process.Kill(); _ = agent.Wait() })
	e2e.Until(t, "the agent", func() (bool, error) {
		conn, err := net.Dial("unix", socket)
		if err == nil {
			conn.Close()
		}
		return err == nil, err
	})
	for _, k := range keys {
		add := exec.CommandContext(e2e.Within(t), "ssh-add", "-q", k.file)
		add.Env = append(os.Environ(), "SSH_AUTH_SOCK="+socket)
		if out, err := add.CombinedOutput(); err != nil {
			t.Fatalf("ssh-add: %v: %s", err, out)
		}
	}
	return socket
}

func withAgent(t *testing.T, socket string, args ...string) lab.Result {
	t.Helper()
	c := e2e.Lab.Command(e2e.Within(t), append(args, "-o", "json")...)
	c.Env = append(c.Env, "SSH_AUTH_SOCK="+socket)
	var out, errs bytes.Buffer
	c.Stdout, c.Stderr = &out, &errs
	r := lab.Result{Args: args}
	if err := c.Run(); err != nil {
		var exit *exec.ExitError
		if r.Code = -1; errors.As(err, &exit) {
			r.Code = exit.ExitCode()
		}
	}
	r.Stdout, r.Stderr = out.String(), errs.String()
	return r
}

func policyFile(t *testing.T, text string, approvers ...string) string {
	t.Helper()
	if len(approvers) > 0 {
		text += "approvers: |\n  " + strings.Join(approvers, "\n  ") + "\n"
	}
	file := filepath.Join(t.TempDir(), "policy.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func approval(t *testing.T, id string) protocol.Approval {
	t.Helper()
	var a protocol.Approval
	if err := e2e.Lab.JSON(e2e.Within(t), &a, "approval", "show", id); err != nil {
		t.Fatal(err)
	}
	return a
}

// untouched checks that an approval is still open and that nothing was counted.
func untouched(t *testing.T, id string) {
	t.Helper()
	if a := approval(t, id); a.State != protocol.ApprovalOpen || a.Decision != nil || len(a.Agreed) > 0 {
		t.Errorf("approval is %+v", a)
	}
}

// decidedBy waits for the turn's end and checks who is recorded as the decider.
func decidedBy(t *testing.T, a protocol.Approval, outcome, by string) {
	t.Helper()
	if v := e2e.Ended(t, a.Session, a.Turn); v.Turn.Status != map[bool]string{false: "completed", true: "interrupted"}[outcome == "cancel"] {
		t.Errorf("turn is %+v", v.Turn)
	}
	if d := approval(t, a.ID).Decision; d == nil || d.Outcome != outcome || d.By != by || !d.Signed {
		t.Errorf("decided %+v, want %s by %s", d, outcome, by)
	}
	i := slices.IndexFunc(e2e.Transcript(t, a.Session), func(e protocol.Entry) bool {
		return e.Type == protocol.EntryDecision && e.Data["approval"] == a.ID && e.Data["outcome"] == outcome && e.Data["by"] == by && e.Data["signed"] == "true"
	})
	if i < 0 {
		t.Errorf("%s of %s by %s is not on record", outcome, a.ID, by)
	}
}

// TestOnlySignaturesOfApproversDecide: signatures made by ctl with a key file
// and at a terminal, by an agent with a key and with a certificate, and by
// hand. Everything else is refused with a reason, and the approval stays open.
func TestOnlySignaturesOfApproversDecide(t *testing.T) {
	id := "signed"
	ann, ben, cyd, dee := newKey(t, "ann", ""), newKey(t, "ben", "open sesame"), newKey(t, "cyd", ""), newKey(t, "dee", "")
	old, late, stranger, authority := newKey(t, "old", ""), newKey(t, "late", ""), newKey(t, "stranger", ""), newKey(t, "authority", "")
	authority.certifies(dee, "-n", "dee@example.com", "-V", "always:forever")
	authority.certifies(late, "-n", "late@example.com", "-V", "20200101:20200102")
	e2e.Session(t, id, "--policy", policyFile(t, "default: ask\n",
		"ann@example.com,ann "+ann.line, "ben@example.com "+ben.line, "cyd@example.com "+cyd.line,
		`old@example.com valid-before="20200101Z" `+old.line, "*@example.com cert-authority "+authority.line))
	agent := agentWith(t, stranger, cyd, dee)
	c, err := e2e.Lab.Temporal(e2e.Within(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)

	e2e.Send(t, id, "you need a command")
	a := e2e.Open(t, id, 1)[0]
	if !a.Signed || a.Missing != 1 || !slices.Equal(a.Approvers, []string{"ann@example.com", "ben@example.com", "cyd@example.com", "old@example.com"}) {
		t.Errorf("asked is %+v", a)
	}
	accept := func(with string) []string { return []string{"approval", "accept", a.ID, "--sign-with", with} }
	for _, bad := range []struct {
		code int
		says string
		args []string
	}{
		{6, "only signed decisions count", []string{"approval", "accept", a.ID}},
		{6, "only signed decisions count", []string{"approval", "decline", a.ID}},
		{6, "its key is not that of an allowed signer", accept(stranger.file)},
		{6, "was valid until 2020-01-01T00:00:00Z", accept(old.file)},
		{6, "is not valid at ", accept(late.file + "-cert.pub")},
		{6, "digest", append(accept(ann.file), "--digest", strings.Repeat("0", 64))},
		{2, "no such file", accept(ann.file + "-not")},
		{2, "name the private key, " + ann.file, accept(ann.file + ".pub")},
		{2, "nobody at a terminal to ask for its passphrase", accept(ben.file)},
		{2, "no key found", []string{"approval", "accept", a.ID, "--sign-with", policyFile(t, "nothing")}},
	} {
		e2e.Refused(t, bad.code, bad.says, bad.args...)
	}
	for says, args := range map[string][]string{
		"reach the agent":             nil, // without an agent
		"is not one of the agent's 4": {"agent:SHA256:nothing"},
	} {
		socket, with := agent, "agent"
		if args == nil {
			socket += "-not"
		} else {
			with = args[0]
		}
		if r := withAgent(t, socket, accept(with)...); r.Code != 2 || !strings.Contains(r.Stdout, says) {
			t.Errorf("want exit 2 and %q: %v", says, r)
		}
	}
	untouched(t, a.ID)

	t.Run("a signature over something else", func(t *testing.T) {
		message := e2e.OK(t, "approval", "message", a.ID, "accept")
		for what, signature := range map[string]string{
			"another digest":    ann.signs(strings.Replace(message, a.Digest, strings.Repeat("0", 64), 1), sshsig.Namespace),
			"another session":   ann.signs(strings.Replace(message, `"session":"signed"`, `"session":"others"`, 1), sshsig.Namespace),
			"another approval":  ann.signs(strings.Replace(message, a.ID, id+".2", 1), sshsig.Namespace),
			"another outcome":   ann.signs(e2e.OK(t, "approval", "message", a.ID, "decline"), sshsig.Namespace),
			"another scope":     ann.signs(e2e.OK(t, "approval", "message", a.ID, "accept", "--for-session"), sshsig.Namespace),
			"another purpose":   ann.signs(message, "git"),
			"with a line's end": ann.signs(message+"\n", sshsig.Namespace),
			"no signature":      "-----BEGIN SSH SIGNATURE-----\nU1NI\n-----END SSH SIGNATURE-----",
		} {
			h, err := c.UpdateWorkflow(e2e.Within(t), client.UpdateWorkflowOptions{WorkflowID: protocol.SessionID(id), UpdateName: protocol.SignalDecide, WaitForStage: client.WorkflowUpdateStageCompleted,
				Args: []any{map[string]any{"approval": a.ID, "digest": a.Digest, "outcome": "accept", "by": "ann@example.com", "signature": signature}}})
			if err == nil {
				err = h.Get(e2e.Within(t), nil)
			}
			if err == nil || !strings.Contains(err.Error(), "signature does not count") {
				t.Errorf("%s: %v", what, err)
			}
		}
		// A signal has no answer; its outcome is recorded.
		signals(t, id, "decide", map[string]any{"approval": a.ID, "digest": a.Digest, "outcome": "accept", "by": "ann@example.com"})
		e2e.Until(t, "a refusal on record", func() (bool, error) { return len(e2e.Show(t, id).Refusals) == 1, nil })
		untouched(t, a.ID)
	})
	t.Run("a key's file", func(t *testing.T) {
		if got := decided(t, "accept", accept(ann.file)...); got.Decision.By != "ann@example.com" {
			t.Errorf("decided %+v", got.Decision)
		}
		decidedBy(t, a, "accept", "ann@example.com")
		e2e.Refused(t, 6, "already decided: accept by ann@example.com", "approval", "decline", a.ID, "--sign-with", cyd.file)
	})
	next := func(t *testing.T) protocol.Approval {
		t.Helper()
		e2e.Send(t, id, "again you need a command")
		return e2e.Open(t, id, 1)[0]
	}
	t.Run("a passphrase at the terminal", func(t *testing.T) {
		a := next(t)
		p := e2e.At(t, "approval", "accept", a.ID, "--sign-with", ben.file)
		p.Then("passphrase of "+ben.file+":", "shut")
		p.Hears("that does not open it")
		p.Then("passphrase of "+ben.file+":", "open sesame")
		if screen := p.Leaves(); strings.Contains(screen, "sesame") || strings.Contains(screen, "shut") {
			t.Errorf("on the screen is\n%s", screen)
		}
		decidedBy(t, a, "accept", "ben@example.com")
	})
	t.Run("an agent", func(t *testing.T) {
		a := next(t)
		// Two of the agent's four keys may sign, for different people.
		if r := withAgent(t, agent, "approval", "accept", a.ID, "--sign-with", "agent"); r.Code != 2 || !strings.Contains(r.Stdout, "the agent has 2 keys that can sign: ") {
			t.Errorf("of several: %v", r)
		}
		fingerprint := strings.Fields(keygen(t, "", "-l", "-f", cyd.file+".pub"))[1]
		if r := withAgent(t, agent, "approval", "accept", a.ID, "--sign-with", "agent:"+fingerprint); r.Code != 0 {
			t.Error(r)
		}
		decidedBy(t, a, "accept", "cyd@example.com")
	})
	t.Run("a certificate of an agent's", func(t *testing.T) {
		a := next(t)
		if r := withAgent(t, agentWith(t, stranger, dee), "approval", "decline", a.ID, "--sign-with", "agent"); r.Code != 0 {
			t.Error(r)
		}
		decidedBy(t, a, "decline", "dee@example.com")
	})
	t.Run("by hand", func(t *testing.T) {
		a := next(t)
		signature := ann.signs(e2e.OK(t, "approval", "message", a.ID, "accept", "--for-session"), sshsig.Namespace)
		signals(t, id, "decide", map[string]any{"approval": a.ID, "digest": a.Digest, "outcome": "accept", "scope": "session", "by": "who cares", "signature": signature})
		decidedBy(t, a, "accept", "ann@example.com")
	})
	t.Run("not by who asked", func(t *testing.T) {
		// An earlier acceptance for the session by ann does not help ann
		// either.
		signals(t, id, "message", map[string]any{"id": "from-ann", "text": "for me you need a command", "by": "ann@laptop"})
		a := e2e.Open(t, id, 1)[0]
		for _, outcome := range []string{"accept", "decline", "cancel"} {
			e2e.Refused(t, 6, "ann@example.com sent a message of this turn, and by the policy a sender may not decide", "approval", outcome, a.ID, "--sign-with", ann.file)
		}
		untouched(t, a.ID)
		decided(t, "cancel", "approval", "cancel", a.ID, "--sign-with", cyd.file)
		decidedBy(t, a, "cancel", "cyd@example.com")
	})
}

// TestACertificateThatCountsSignsWithNoWorkerUp: whether a key or its
// certificate counts is in the policy, and the policy is in the history.
func TestACertificateThatCountsSignsWithNoWorkerUp(t *testing.T) {
	dee, authority := newKey(t, "dee", ""), newKey(t, "authority", "")
	authority.certifies(dee, "-n", "dee@example.com", "-V", "always:forever")
	e2e.Session(t, "signed-at-night", "--policy", policyFile(t, "default: ask\n", "*@example.com cert-authority "+authority.line))
	e2e.Send(t, "signed-at-night", "you need a command")
	a := e2e.Open(t, "signed-at-night", 1)[0]
	back := e2e.NoWorker(t)
	e2e.OK(t, "approval", "accept", a.ID, "--sign-with", dee.file, "--timeout", "2s")
	back()
	decidedBy(t, a, "accept", "dee@example.com")
}
