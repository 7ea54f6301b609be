package sessions

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fairlead.dev/fairlead/internal/lab/e2e"
)

// A session's policy, confinement, budget and message attachments follow it to
// another host, into a fork, and into a session that is restored from its
// snapshot after it was closed.
func TestWhatASessionMayDoGoesWhereItGoes(t *testing.T) {
	const id = "keeps"
	f := newFence(t)
	notes := filepath.Join(t.TempDir(), "my notes.txt")
	if err := os.WriteFile(notes, []byte("blue notes\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	picture := drawn(t)
	rules := written(t, "policy.yaml", "rules: [{name: stay inside, when: 'kind == \"command\"', outcome: decline, reason: nobody leaves}]\n")
	e2e.Session(t, id, append(f.flags(), "--policy", rules, "--budget", "tokens=900000,turns=20,time=3h,turn=1h,approvals=30,commands=40")...)
	e2e.OK(t, "session", "send", id, "--file", notes, "--image", picture, "here they are")
	was := e2e.Show(t, id)

	holds := func(id, host string) {
		t.Helper()
		said := f.printed(id, strings.Replace(f.prompt(), "try your bounds", "try all you may", 1))
		f.holds(id, said)
		if !strings.Contains(said, "blue notes") {
			t.Errorf("%s: the file that came with a message is not there:\n%s", id, said)
		}
		v := e2e.Show(t, id)
		if v.Host != host || v.Options["sandbox"] != "workspace-write" || v.Options["network"] != was.Options["network"] || len(v.Files) != 1 {
			t.Errorf("%s on %s: options %v, files %+v", id, v.Host, v.Options, v.Files)
		}
		if v.Policy == nil || v.Policy.Digest != was.Policy.Digest || v.Judged == 0 || len(v.Requests) != 0 {
			t.Errorf("%s: policy %+v, was %+v; %d requests were judged", id, v.Policy, was.Policy, v.Judged)
		}
		if _, err := os.Stat(filepath.Join(f.dir, "out", "escaped")); err == nil {
			t.Errorf("%s: what the policy declines was done", id)
		}
		b, w := v.Budget, was.Budget
		if b.Tokens.Limit != w.Tokens.Limit || b.Turns.Limit != w.Turns.Limit || b.Time.Limit != w.Time.Limit || b.TurnTimeout != w.TurnTimeout ||
			b.Approvals.Limit != w.Approvals.Limit || b.Commands.Limit != w.Commands.Limit || b.Tokens.Limit != 900000 || b.Commands.Used == 0 {
			t.Errorf("%s: budget %+v, was %+v", id, b, w)
		}
		all := e2e.Lab.Model.RequestsOf(v.ThreadID)
		if len(all) == 0 || !strings.Contains(string(all[len(all)-1].Body), "data:image/png;base64,") {
			t.Errorf("%s: the image is not in what the model is told", id)
		}
	}
	e2e.OK(t, "session", "resume", id, "--host", "local")
	holds(id, "local")
	closed(t, "keeps-forked")
	e2e.OK(t, "session", "fork", id, "--id", "keeps-forked", "--host", "web-1")
	holds("keeps-forked", "web-1")
	e2e.OK(t, "session", "close", "keeps-forked")
	list := snapshotsOf(t, "keeps-forked")
	if len(list) == 0 {
		t.Fatal("of the closed session there is no snapshot")
	}
	closed(t, "keeps-restored")
	e2e.OK(t, "snapshot", "restore", list[len(list)-1].ID, "--id", "keeps-restored", "--host", "web-1", "--budget", "commands=41")
	was.Budget.Commands.Limit = 41
	holds("keeps-restored", "web-1")
	// If Temporal has forgotten the session, the snapshot has everything except
	// the policy's text and the seed, which must be given.
	forgotten(t, "keeps-forked")
	snap := list[len(list)-1].ID
	e2e.Refused(t, 2, "--policy", "snapshot", "restore", snap, "--host", "web-1", "--seed", "team")
	closed(t, "keeps-remembered")
	e2e.OK(t, "snapshot", "restore", snap, "--id", "keeps-remembered", "--host", "web-1", "--seed", "team", "--policy", rules)
	v := e2e.Show(t, "keeps-remembered")
	for _, word := range []string{"sandbox", "read", "write", "network"} {
		if v.Options[word] != was.Options[word] {
			t.Errorf("of a forgotten session %s is %q, was %q", word, v.Options[word], was.Options[word])
		}
	}
	if b := v.Budget; b.Words() != "tokens=900000,turns=20,approvals=30,commands=40,time=3h0m0s,turn=1h0m0s" {
		t.Errorf("of a forgotten session the budget is %s", b.Words())
	}
}
