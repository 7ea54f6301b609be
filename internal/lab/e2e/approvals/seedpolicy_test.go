package approvals

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.temporal.io/sdk/client"

	"fairlead.dev/fairlead/internal/lab"
	"fairlead.dev/fairlead/internal/lab/e2e"
	"fairlead.dev/fairlead/internal/protocol"
)

// TestASeedsPolicyJudgesBesideTheSessions: the stricter of the two verdicts
// counts; the approvers of the seed's policy must agree; a policy that cannot
// be read declines.
func TestASeedsPolicyJudgesBesideTheSessions(t *testing.T) {
	id := "judged"
	ann, other, ben := newKey(t, "ann", ""), newKey(t, "other", ""), newKey(t, "ben", "")
	own := policyFile(t, `rules:
  - {name: go ahead, when: kind == "command" || kind == "file_change", outcome: accept}
  - {name: room enough, when: kind == "permissions", outcome: decline, reason: it has room enough}
`)
	seeds := policyFile(t, `rules:
  - {name: nothing is written, when: kind == "file_change", outcome: decline, reason: write it elsewhere}
  - {name: as much as it likes, when: kind == "permissions", outcome: accept}
expiry: 2h
required: 2
`, "ann@example.com "+ann.line, "ann@example.com "+other.line, "ben@example.com "+ben.line)
	askingSeed(t, id, "")
	e2e.OK(t, "seed", "set", id, "--policy", seeds, "--amendments", "on")
	e2e.Refused(t, 2, "line 3", "seed", "set", id, "--policy", policyFile(t, "rules:\n  - name: a\n    when: nonsense(\n    outcome: accept\n"))
	c, err := e2e.Lab.Temporal(e2e.Within(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	broken := "default: perhaps\n"
	h, err := c.UpdateWorkflow(e2e.Within(t), client.UpdateWorkflowOptions{WorkflowID: protocol.SeedID(id), UpdateName: protocol.UpdateSetSeed, WaitForStage: client.WorkflowUpdateStageCompleted,
		Args: []any{protocol.SetSeed{Policy: &broken}}})
	if err == nil {
		err = h.Get(e2e.Within(t), nil)
	}
	if err == nil || !strings.Contains(err.Error(), "its policy: ") {
		t.Errorf("a broken one, by another program: %v", err)
	}
	var seed protocol.SeedView
	if err := e2e.Lab.JSON(e2e.Within(t), &seed, "seed", "show", id); err != nil {
		t.Fatal(err)
	}
	if p := seed.Policy; p == nil || p.State != protocol.PolicyActive || p.Required != 2 || !slices.Equal(p.Approvers, []string{"ann@example.com", "ben@example.com"}) || !seed.Amend {
		t.Fatalf("seed is %+v with %+v", seed, seed.Policy)
	}
	e2e.Session(t, id, "--seed", id, "--policy", own)

	t.Run("the stricter word counts", func(t *testing.T) {
		file := filepath.Join(e2e.Lab.Dir, "judged.txt")
		for says, text := range map[string]string{"write it elsewhere": "you need a file at " + file, "it has room enough": "you need permissions"} {
			if v := e2e.Turn(t, id, text); v.Status != "completed" {
				t.Errorf("turn is %+v", v)
			}
			// Nobody was asked. The model learns the reason as far as codex
			// passes it on.
			list, err := lab.Lines[protocol.Approval](e2e.Within(t), e2e.Lab, "approval", "list", "--all", "--session", id)
			if err != nil {
				t.Fatal(err)
			}
			i := slices.IndexFunc(list, func(a protocol.Approval) bool {
				return a.Decision != nil && a.Decision.By == "policy" && a.Decision.Outcome == "decline" && a.Decision.Reason == says && a.Ruling != nil
			})
			if i < 0 {
				t.Errorf("%q was not said: %+v", says, list)
			}
		}
		if _, err := os.Stat(file); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the file is there (%v)", err)
		}
	})
	t.Run("two people have to agree", func(t *testing.T) {
		// The session's own policy accepts; the seed's asks people.
		e2e.Send(t, id, "you need a command")
		a := e2e.Open(t, id, 1)[0]
		if !a.Signed || a.Missing != 2 {
			t.Errorf("asked is %+v", a)
		}
		accept := func(k sshKey) []string { return []string{"approval", "accept", a.ID, "--sign-with", k.file} }
		e2e.Refused(t, 6, "only signed decisions count", "approval", "accept", a.ID)
		var got protocol.Approval
		if err := e2e.Lab.JSON(e2e.Within(t), &got, accept(ann)...); err != nil {
			t.Fatal(err)
		}
		if got.State != protocol.ApprovalOpen || got.Decision != nil || got.Missing != 1 || len(got.Agreed) != 1 || got.Agreed[0].By != "ann@example.com" {
			t.Errorf("after one of two: %+v", got)
		}
		e2e.Refused(t, 6, "ann@example.com said so already; 1 more must agree", accept(ann)...)
		e2e.Refused(t, 6, "ann@example.com said so already; 1 more must agree", accept(other)...)
		if v := e2e.Show(t, id); v.State != protocol.Waiting {
			t.Errorf("session is %+v", v)
		}
		decided(t, "accept", accept(ben)...)
		decidedBy(t, a, "accept", "ann@example.com, ben@example.com")
	})
	t.Run("no rule for all is written by one of them", func(t *testing.T) {
		e2e.Send(t, id, "you need a rule")
		a := e2e.Open(t, id, 1)[0]
		if !slices.Contains(a.Offered, "amend") || len(a.Amendment) != 1 {
			t.Errorf("offered is %q, the amendment %q", a.Offered, a.Amendment)
		}
		e2e.Refused(t, 6, "an amendment would also apply to later messages", "approval", "accept", a.ID, "--amend", "--sign-with", ann.file)
		untouched(t, a.ID)
		decided(t, "decline", "approval", "decline", a.ID, "--sign-with", ben.file) // one is enough
		decidedBy(t, a, "decline", "ben@example.com")
	})
	t.Run("what cannot be read declines", func(t *testing.T) {
		digest := e2e.Show(t, id).Policy.Digest
		gone := 0
		err := filepath.WalkDir(filepath.Join(e2e.Lab.State, "store", "policies"), func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.Type().IsRegular() && strings.HasPrefix(d.Name(), digest) {
				gone++
				err = os.Remove(path)
			}
			return err
		})
		if err != nil || gone == 0 {
			t.Fatalf("%d files of the policy (%v)", gone, err)
		}
		pid := e2e.WorkerPID(t) // the worker has read the policy already
		e2e.Kill(t, pid)
		e2e.Back(t, pid)
		if v := e2e.Turn(t, id, "you need a command"); v.Status != "completed" {
			t.Errorf("turn is %+v", v)
		}
		v := e2e.Show(t, id)
		if p := v.Policy; p == nil || p.State != protocol.PolicyBroken || !strings.Contains(p.Error, "not in the store") || v.SeedPolicy.State != protocol.PolicyActive {
			t.Errorf("policies are %+v and %+v", v.Policy, v.SeedPolicy)
		}
		i := slices.IndexFunc(e2e.Transcript(t, id), func(e protocol.Entry) bool {
			return e.Type == protocol.EntryDecision && e.Data["by"] == "policy" && e.Data["outcome"] == "decline" && strings.Contains(e.Data["reason"], "not in the store")
		})
		if i < 0 {
			t.Errorf("why is not on record: %+v", e2e.Transcript(t, id))
		}
		if data, err := os.ReadFile(filepath.Join(e2e.Root, "sessions", id, "work", "ran.txt")); err != nil || string(data) != "it ran\n" {
			t.Errorf("commands left %q (%v)", data, err) // one command, which two people accepted
		}
	})
	t.Run("another session, when it is taken away", func(t *testing.T) {
		e2e.OK(t, "seed", "set", id, "--policy", "none")
		e2e.Session(t, "unjudged", "--seed", id)
		e2e.Send(t, "unjudged", "you need a rule")
		a := e2e.Open(t, "unjudged", 1)[0]
		if a.Signed || !slices.Contains(a.Offered, "amend") {
			t.Errorf("asked is %+v", a)
		}
		decided(t, "amend", "approval", "accept", a.ID, "--amend")
		if v := e2e.Ended(t, "unjudged", 1); v.Turn.Status != "completed" || v.SeedPolicy != nil {
			t.Errorf("session is %+v", v)
		}
		if v := e2e.Turn(t, "unjudged", "again you need a rule"); v.Status != "completed" {
			t.Errorf("turn is %+v", v) // nobody was asked
		}
		if _, err := os.Stat(filepath.Join(e2e.Root, "sessions", "unjudged", "work", "ruled")); err != nil {
			t.Error(err)
		}
	})
}
