package approvals

import (
	"strings"
	"testing"

	"fairlead.dev/fairlead/internal/lab"
	"fairlead.dev/fairlead/internal/lab/e2e"
	"fairlead.dev/fairlead/internal/protocol"
)

func TestADeliveryWaitsForAVerdictAndGoesBackWithComments(t *testing.T) {
	id := "judged-files"
	e2e.Session(t, id, "--tools", "deliver", "--deliver-verdict")
	e2e.Send(t, id, "deliver until it is accepted")
	first := e2e.Open(t, id, 1)[0]
	file, err := protocol.Delivered(first.Args)
	if err != nil || first.Kind != "deliverable" || first.Tool != protocol.ToolDeliver || file.Name != "draft.md" || file.Bytes != 8 || len(file.SHA256) != 64 ||
		strings.Join(first.Offered, " ") != "accept revise decline" || first.DigestCheck != protocol.DigestGiven {
		t.Fatalf("asked is %+v, %+v, %v", first, file, err)
	}
	if list := deliverables(t, id); len(list) != 1 || list[0].Digest != file.SHA256 || list[0].Verdict != nil {
		t.Errorf("before the verdict there is %+v", list)
	}
	if v := e2e.Show(t, id); v.State != protocol.Waiting || len(v.Verdicts) != 0 {
		t.Errorf("the session is %+v", v)
	}
	pid := e2e.WorkerPID(t)
	e2e.Kill(t, pid)
	e2e.Back(t, pid)

	e2e.Exits(t, 2, "approval", "revise", first.ID)
	e2e.Exits(t, 6, "approval", "cancel", first.ID)
	e2e.OK(t, "approval", "revise", first.ID, "--comments", "say whose draft it is", "--reason", "nobody knows")
	e2e.Exits(t, 6, "approval", "accept", first.ID)

	var second protocol.Approval
	e2e.Until(t, "the second delivery waits", func() (bool, error) {
		list, err := lab.Lines[protocol.Approval](e2e.Within(t), e2e.Lab, "approval", "list", "--session", id)
		if len(list) == 1 {
			second = list[0]
		}
		return second.ID != "" && second.ID != first.ID, err
	})
	if second.Digest == first.Digest {
		t.Error("another content has the same digest")
	}
	e2e.OK(t, "approval", "accept", second.ID)
	if v := e2e.Ended(t, id, 1); v.Turn.Status != "completed" {
		t.Fatalf("the session is %+v", v)
	}
	said := e2e.LastText(t, id)
	for _, want := range []string{"To be revised: draft.md (SHA-256 " + file.SHA256, "They say: nobody knows", "Comments:", "say whose draft it is", "Accepted: draft.md"} {
		if !strings.Contains(said, want) {
			t.Errorf("the model had %q, not %q", said, want)
		}
	}
	list := deliverables(t, id)
	if len(list) != 2 || list[0].Verdict == nil || list[1].Verdict == nil {
		t.Fatalf("delivered are %+v", list)
	}
	was, is := list[0].Verdict, list[1].Verdict
	if was.Outcome != protocol.Revise || was.SHA256 != list[0].Digest || was.Comments != "say whose draft it is" || was.Approval != first.ID || was.By == "" ||
		is.Outcome != protocol.Accept || is.SHA256 != list[1].Digest || is.Approval != second.ID {
		t.Errorf("the verdicts are %+v and %+v", was, is)
	}
	if v := e2e.Show(t, id).Verdicts; len(v) != 2 || v[0] != *was || v[1] != *is {
		t.Errorf("the session shows %+v, and the store has %+v and %+v", v, was, is)
	}
	if text := e2e.OK(t, "session", "show", id); !strings.Contains(text, "verdict "+first.ID+" on draft.md (SHA-256 "+file.SHA256+"): to be revised by") {
		t.Errorf("a person is shown\n%s", text)
	}
	script := e2e.OK(t, "transcript", id)
	for _, want := range []string{"waits for a verdict: " + first.ID, "revise " + first.ID, "accept " + second.ID, "say whose draft it is"} {
		if !strings.Contains(script, want) {
			t.Errorf("the transcript lacks %q:\n%s", want, script)
		}
	}
	records := e2e.OK(t, "audit", "list", "--session", id, "-o", "json")
	if !strings.Contains(records, `"outcome":"revise"`) || !strings.Contains(records, second.Digest) {
		t.Errorf("the audit records are %s", records)
	}
	e2e.OK(t, "session", "close", id)
	if list := deliverables(t, id); len(list) != 2 || list[1].Verdict == nil || list[1].Verdict.Outcome != protocol.Accept {
		t.Errorf("after the session's end there are %+v", list)
	}
}

func TestAVerdictThatNobodyGivesIsAStatedOutcome(t *testing.T) {
	id := "unjudged-files"
	e2e.Refused(t, 2, "does not offer the tool deliver", "session", "start", "--host", "web-1", "--seed", "team", "--deliver-verdict")
	e2e.Session(t, id, "--tools", "all", "--deliver-verdict", "--approval-timeout", "2s")
	if v := e2e.Turn(t, id, "deliver it once"); v.Status != "completed" || !strings.Contains(v.FinalText, "No verdict: nobody decided within 2s. end.md (SHA-256 ") {
		t.Errorf("the turn is %+v", v)
	}
	if list := deliverables(t, id); len(list) != 1 || list[0].Verdict == nil || !list[0].Verdict.Expired || list[0].Verdict.Outcome != protocol.Decline {
		t.Errorf("delivered is %+v", list)
	}
}

func TestAPersonAtTheTerminalJudgesWhatIsDelivered(t *testing.T) {
	id := "judged-here"
	e2e.Session(t, id, "--tools", "deliver", "--deliver-verdict")
	p := e2e.At(t, "session", "send", id, "deliver it once")
	p.Types("e revise, with comments", "e")
	p.Types("what is to be changed", "write more")
	if screen := p.Leaves(); !strings.Contains(screen, "write more") || !strings.Contains(screen, "judge end.md: 8 bytes, SHA-256") {
		t.Errorf("on the screen is\n%s", screen)
	}
	if said := e2e.LastText(t, id); !strings.Contains(said, "To be revised") || !strings.Contains(said, "write more") {
		t.Errorf("the model had %q", said)
	}
}
