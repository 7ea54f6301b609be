package e2e

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.temporal.io/sdk/client"

	"fairlead.dev/fairlead/activities"
	"fairlead.dev/fairlead/deploy/lab"
	"fairlead.dev/fairlead/workflows"
)

// TestASeedsPolicyJudgesBesideTheSessions: the stricter word counts, whose ever
// it is; whom the seed's policy names have to agree; one that is gone declines.
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
	ok(t, "seed", "set", id, "--policy", seeds, "--amendments", "on")
	refusedWith(t, 2, "line 3", "seed", "set", id, "--policy", policyFile(t, "rules:\n  - name: a\n    when: nonsense(\n    outcome: accept\n"))
	c, err := shared.Temporal(within(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	broken := "default: perhaps\n"
	h, err := c.UpdateWorkflow(within(t), client.UpdateWorkflowOptions{WorkflowID: workflows.SeedID(id), UpdateName: workflows.UpdateSetSeed, WaitForStage: client.WorkflowUpdateStageCompleted,
		Args: []any{workflows.SetSeed{Policy: &broken}}})
	if err == nil {
		err = h.Get(within(t), nil)
	}
	if err == nil || !strings.Contains(err.Error(), "its policy: ") {
		t.Errorf("a broken one, by another program: %v", err)
	}
	var seed workflows.SeedView
	if err := shared.JSON(within(t), &seed, "seed", "show", id); err != nil {
		t.Fatal(err)
	}
	if p := seed.Policy; p == nil || p.State != workflows.PolicyActive || p.Required != 2 || !slices.Equal(p.Approvers, []string{"ann@example.com", "ben@example.com"}) || !seed.Amend {
		t.Fatalf("seed is %+v with %+v", seed, seed.Policy)
	}
	session(t, id, "--seed", id, "--policy", own)

	t.Run("the stricter word counts", func(t *testing.T) {
		file := filepath.Join(shared.Dir, "judged.txt")
		for says, text := range map[string]string{"write it elsewhere": "you need a file at " + file, "it has room enough": "you need permissions"} {
			if v := turn(t, id, text); v.Status != "completed" {
				t.Errorf("turn is %+v", v)
			}
			// Nobody was asked; the model hears of it as far as codex tells it.
			list, err := lab.Lines[workflows.Approval](within(t), shared, "approval", "list", "--all", "--session", id)
			if err != nil {
				t.Fatal(err)
			}
			i := slices.IndexFunc(list, func(a workflows.Approval) bool {
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
		// The session's own policy accepts it; the seed's asks people.
		send(t, id, "you need a command")
		a := open(t, id, 1)[0]
		if !a.Signed || a.Missing != 2 {
			t.Errorf("asked is %+v", a)
		}
		accept := func(k sshKey) []string { return []string{"approval", "accept", a.ID, "--sign-with", k.file} }
		refusedWith(t, 6, "only signed decisions count", "approval", "accept", a.ID)
		var got workflows.Approval
		if err := shared.JSON(within(t), &got, accept(ann)...); err != nil {
			t.Fatal(err)
		}
		if got.State != workflows.ApprovalOpen || got.Decision != nil || got.Missing != 1 || len(got.Agreed) != 1 || got.Agreed[0].By != "ann@example.com" {
			t.Errorf("after one of two: %+v", got)
		}
		refusedWith(t, 6, "ann@example.com said so already; 1 more must agree", accept(ann)...)
		refusedWith(t, 6, "ann@example.com said so already; 1 more must agree", accept(other)...)
		if v := show(t, id); v.State != workflows.Waiting {
			t.Errorf("session is %+v", v)
		}
		decided(t, "accept", accept(ben)...)
		decidedBy(t, a, "accept", "ann@example.com, ben@example.com")
	})
	t.Run("no rule for all is written by one of them", func(t *testing.T) {
		send(t, id, "you need a rule")
		a := open(t, id, 1)[0]
		if !slices.Contains(a.Offered, "amend") || len(a.Amendment) != 1 {
			t.Errorf("offered is %q, the amendment %q", a.Offered, a.Amendment)
		}
		refusedWith(t, 6, "an amendment holds for all who ask", "approval", "accept", a.ID, "--amend", "--sign-with", ann.file)
		untouched(t, a.ID)
		decided(t, "decline", "approval", "decline", a.ID, "--sign-with", ben.file) // one is enough
		decidedBy(t, a, "decline", "ben@example.com")
	})
	t.Run("what cannot be read declines", func(t *testing.T) {
		digest := show(t, id).Policy.Digest
		gone := 0
		err := filepath.WalkDir(filepath.Join(shared.State, "store", "policies"), func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.Type().IsRegular() && strings.HasPrefix(d.Name(), digest) {
				gone++
				err = os.Remove(path)
			}
			return err
		})
		if err != nil || gone == 0 {
			t.Fatalf("%d files of the policy (%v)", gone, err)
		}
		pid := workerPID(t) // it has read the policy already
		kill(t, pid)
		back(t, pid)
		if v := turn(t, id, "you need a command"); v.Status != "completed" {
			t.Errorf("turn is %+v", v)
		}
		v := show(t, id)
		if p := v.Policy; p == nil || p.State != workflows.PolicyBroken || !strings.Contains(p.Error, "not in the store") || v.SeedPolicy.State != workflows.PolicyActive {
			t.Errorf("policies are %+v and %+v", v.Policy, v.SeedPolicy)
		}
		i := slices.IndexFunc(transcript(t, id), func(e activities.Entry) bool {
			return e.Type == activities.EntryDecision && e.Data["by"] == "policy" && e.Data["outcome"] == "decline" && strings.Contains(e.Data["reason"], "not in the store")
		})
		if i < 0 {
			t.Errorf("why is not on record: %+v", transcript(t, id))
		}
		if data, err := os.ReadFile(filepath.Join(root1, "sessions", id, "work", "ran.txt")); err != nil || string(data) != "it ran\n" {
			t.Errorf("commands left %q (%v)", data, err) // one, that two people accepted
		}
	})
	t.Run("another session, when it is taken away", func(t *testing.T) {
		ok(t, "seed", "set", id, "--policy", "none")
		session(t, "unjudged", "--seed", id)
		send(t, "unjudged", "you need a rule")
		a := open(t, "unjudged", 1)[0]
		if a.Signed || !slices.Contains(a.Offered, "amend") {
			t.Errorf("asked is %+v", a)
		}
		decided(t, "amend", "approval", "accept", a.ID, "--amend")
		if v := ended(t, "unjudged", 1); v.Turn.Status != "completed" || v.SeedPolicy != nil {
			t.Errorf("session is %+v", v)
		}
		if v := turn(t, "unjudged", "again you need a rule"); v.Status != "completed" {
			t.Errorf("turn is %+v", v) // nobody was asked
		}
		if _, err := os.Stat(filepath.Join(root1, "sessions", "unjudged", "work", "ruled")); err != nil {
			t.Error(err)
		}
	})
}
