package approvals

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"fairlead.dev/fairlead/activities"
	"fairlead.dev/fairlead/internal/lab"
	"fairlead.dev/fairlead/internal/lab/e2e"
	"fairlead.dev/fairlead/internal/lab/scriptedmodel"
	"fairlead.dev/fairlead/internal/protocol"
)

// asking starts a session whose codex may ask for permissions and ask
// questions, which not every codex does by default.
func asking(t *testing.T, id string, flags ...string) {
	t.Helper()
	askingSeed(t, id, "")
	e2e.Session(t, id, append([]string{"--seed", id}, flags...)...)
}

// askingSeed makes the seed of such a codex; more is further tables for its
// config.toml.
func askingSeed(t *testing.T, name, more string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "asking")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	config := strings.Replace(scriptedmodel.ConfigTOML(e2e.Lab.Model.BaseURL(), e2e.Lab.Token), "[features]\n", "[features]\nrequest_permissions_tool = true\ndefault_mode_request_user_input = true\n", 1)
	if err := os.WriteFile(filepath.Join(dir, "config.toml"), []byte(config+more), 0o600); err != nil {
		t.Fatal(err)
	}
	e2e.OK(t, "seed", "import", name, dir)
}

// decided runs ctl, which must decide, and waits until codex has the decision.
func decided(t *testing.T, outcome string, args ...string) protocol.Approval {
	t.Helper()
	var a protocol.Approval
	if err := e2e.Lab.JSON(e2e.Within(t), &a, args...); err != nil {
		t.Fatal(err)
	}
	if a.Decision == nil || a.Decision.Outcome != outcome || !slices.Contains([]protocol.ApprovalState{protocol.ApprovalDecided, protocol.ApprovalSent, protocol.ApprovalAcknowledged}, a.State) {
		t.Errorf("%q: it is %s, decided as %+v", args, a.State, a.Decision)
	}
	return a
}

func signals(t *testing.T, id, name string, arg map[string]any) {
	t.Helper()
	c, err := e2e.Lab.Temporal(e2e.Within(t))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.SignalWorkflow(e2e.Within(t), protocol.SessionID(id), "", name, arg); err != nil {
		t.Fatal(err)
	}
}

func TestPermissionsAreGivenInPart(t *testing.T) {
	id := "permissions"
	asking(t, id)
	e2e.Send(t, id, "you need permissions")
	a := e2e.Open(t, id, 1)[0]
	if a.Kind != "permissions" || a.Reason != "to write it down" || !slices.Contains(a.Offered, "grant") || !slices.Contains(a.Offered, "decline") {
		t.Fatalf("asked is %+v", a)
	}
	words := strings.Join(activities.PermissionWords(a.Permissions), ", ")
	for _, want := range []string{"use the network", "read /srv/data", "write /srv/out"} {
		if !strings.Contains(words, want) {
			t.Errorf("asked for is %q, want %q", words, want)
		}
	}
	if r := e2e.Lab.Ctl(e2e.Within(t), nil, "approval", "show", a.ID); !strings.Contains(r.Stdout, "write /srv/out") || !strings.Contains(r.Stdout, "grant") {
		t.Errorf("a person is shown %v", r)
	}
	e2e.Refused(t, 2, "it asks to", "approval", "grant", a.ID, "--write", "/etc")
	e2e.Refused(t, 2, "/srv/data", "approval", "grant", a.ID, "--write", "/srv/data")
	e2e.Refused(t, 2, "say what is given", "approval", "grant", a.ID)
	e2e.Refused(t, 2, "asks no question", "approval", "answer", a.ID, "x")
	e2e.Refused(t, 6, "digest", "approval", "grant", a.ID, "--all", "--digest", strings.Repeat("0", 64))
	e2e.Refused(t, 2, "", "approval", "accept", a.ID, "--amend")
	a = decided(t, "grant", "approval", "grant", a.ID, "--write", "/srv/out/today", "--reason", "that will do")
	if got := activities.PermissionWords(a.Decision.Grant); !slices.Equal(got, []string{"write /srv/out/today"}) {
		t.Errorf("given is %q", got)
	}
	if v := e2e.Ended(t, id, 1); v.Turn.Status != "completed" {
		t.Fatalf("session is %+v", v)
	}
	if said := e2e.LastText(t, id); !strings.Contains(said, "/srv/out/today") || strings.Contains(said, "/srv/data") || !strings.Contains(said, `"turn"`) {
		t.Errorf("the model said %q", said)
	}
	e2e.Refused(t, 6, "already decided: grant", "approval", "decline", a.ID)

	// By signal: a grant of more than was asked for is refused and recorded, a
	// partial grant is accepted.
	e2e.Send(t, id, "again you need permissions")
	b := e2e.Open(t, id, 1)[0]
	if b.Digest != a.Digest {
		t.Errorf("the same ask has the digests %s and %s", a.Digest, b.Digest)
	}
	signals(t, id, "decide", map[string]any{"approval": b.ID, "digest": b.Digest, "outcome": "grant", "grant": map[string]any{"fileSystem": map[string]any{"write": []string{"/"}}}})
	signals(t, id, "decide", map[string]any{"approval": b.ID, "digest": b.Digest, "outcome": "grant", "scope": "session", "by": "another program",
		"grant": map[string]any{"network": map[string]any{"enabled": true}}})
	if v := e2e.Ended(t, id, 2); v.Turn.Status != "completed" || len(v.Refusals) != 1 || !strings.Contains(v.Refusals[0].Reason, "lets / be written") {
		t.Errorf("session is %+v", v)
	}
	if said := e2e.LastText(t, id); !strings.Contains(said, `"enabled":true`) || !strings.Contains(said, `"session"`) || strings.Contains(said, "/srv") {
		t.Errorf("the model said %q", said)
	}
}

func TestQuestionsAreAnsweredByKeyNumberAndSignal(t *testing.T) {
	id := "questions"
	asking(t, id)
	r := e2e.Lab.Ctl(e2e.Within(t), nil, "session", "send", id, "you need to know", "--no-input")
	if r.Code != 7 || !strings.Contains(r.Stderr, id+".1") {
		t.Errorf("without a person: %v", r)
	}
	a := e2e.Open(t, id, 1)[0]
	if a.Kind != "user_input" || len(a.Questions) != 2 || a.Questions[0].ID != "colour" || a.Questions[0].Options[1].Label != "blue" || !slices.Contains(a.Offered, "answer") {
		t.Fatalf("asked is %+v", a)
	}
	if v := e2e.Show(t, id); len(v.Requests) != 1 || v.Requests[0].Kind != "user_input" || v.State != protocol.Waiting {
		t.Errorf("session is %+v", v)
	}
	if r := e2e.Lab.Ctl(e2e.Within(t), nil, "approval", "show", a.ID); !strings.Contains(r.Stdout, "Which colour is it?") || !strings.Contains(r.Stdout, "2) blue") {
		t.Errorf("a person is shown %v", r)
	}
	e2e.Refused(t, 2, "is not answered", "approval", "answer", a.ID, "colour=blue")
	e2e.Refused(t, 2, "key of a question", "approval", "answer", a.ID, "blue")
	e2e.Refused(t, 2, "key of a question", "approval", "answer", a.ID, "size=9", "colour=blue", "word=x")
	e2e.Refused(t, 2, "user_input", "approval", "accept", a.ID)
	e2e.Refused(t, 2, "asks for no permissions", "approval", "grant", a.ID, "--network")
	e2e.Refused(t, 3, "", "approval", "answer", id+".77", "x")
	// The worker is killed before the person answers.
	pid := e2e.WorkerPID(t)
	e2e.Kill(t, pid)
	e2e.Back(t, pid)
	a = decided(t, "answer", "approval", "answer", a.ID, "colour=2", "word=some", "--reason", "I looked")
	if fmt.Sprint(a.Decision.Answers) != "map[colour:[blue] word:[some]]" || a.Decision.Reason != "I looked" {
		t.Errorf("decided as %+v", a.Decision)
	}
	if v := e2e.Ended(t, id, 1); v.Turn.Status != "completed" {
		t.Fatalf("session is %+v", v)
	}
	if said := e2e.LastText(t, id); !strings.Contains(said, "blue") || !strings.Contains(said, "some") || strings.Contains(said, "red") {
		t.Errorf("the model said %q", said)
	}
	e2e.Refused(t, 6, "already decided: answer", "approval", "answer", a.ID, "colour=1", "word=some")
	i := slices.IndexFunc(e2e.Transcript(t, id), func(e protocol.Entry) bool {
		return e.Type == protocol.EntryDecision && e.Data["answers"] == `{"colour":["blue"],"word":["some"]}` && e.Data["reason"] == "I looked"
	})
	if i < 0 {
		t.Error("what was answered is not on record")
	}
	for _, again := range []struct {
		decide map[string]any
		says   string
	}{
		{map[string]any{"outcome": "answer", "answers": map[string]any{"colour": "red", "word": []string{"none"}}}, "red"},
		{map[string]any{"outcome": "decline", "reason": "not now"}, "I was told"},
	} {
		e2e.Send(t, id, "and again you need to know")
		b := e2e.Open(t, id, 1)[0]
		again.decide["approval"], again.decide["digest"] = b.ID, b.Digest
		signals(t, id, "decide", again.decide)
		if v := e2e.Ended(t, id, b.Turn); v.Turn.Status != "completed" || len(v.Refusals) != 0 {
			t.Errorf("session is %+v", v)
		}
		if said := e2e.LastText(t, id); !strings.Contains(said, again.says) {
			t.Errorf("after %v the model said %q", again.decide, said)
		}
	}
}

// TestOurToolAsksAPersonLikeAnyRequest answers by key, by number, with a free
// text only if that is allowed, and with a reason if nobody wants to answer.
func TestOurToolAsksAPersonLikeAnyRequest(t *testing.T) {
	id := "asked-by-tool"
	e2e.Session(t, id, "--tools", "ask_human")
	for _, c := range []struct {
		decide []string
		says   string
	}{
		{[]string{"answer", "", "2"}, "right"},
		{[]string{"answer", "", "answer=left"}, "left"},
		{[]string{"decline", "", "--reason", "ask me tomorrow"}, "ask me tomorrow"},
	} {
		e2e.Send(t, id, "you need a person")
		a := e2e.Open(t, id, 1)[0]
		if a.Kind != "user_input" || a.Tool != "ask_human" || len(a.Questions) != 1 || a.Questions[0].Text != "Which way?" || len(a.Questions[0].Options) != 2 {
			t.Fatalf("asked is %+v", a)
		}
		e2e.Refused(t, 2, "not one of its options", "approval", "answer", a.ID, "straight on")
		c.decide[1] = a.ID
		decided(t, c.decide[0], append([]string{"approval"}, c.decide...)...)
		if v := e2e.Ended(t, id, a.Turn); v.Turn.Status != "completed" {
			t.Errorf("session is %+v", v)
		}
		if said := e2e.LastText(t, id); !strings.Contains(said, c.says) {
			t.Errorf("after %q the model said %q", c.decide, said)
		}
	}
}

// TestASecretAnswerReachesTheModelAndNothingElse: codex receives the answer and
// repeats it; what people see and what is stored has a placeholder.
func TestASecretAnswerReachesTheModelAndNothingElse(t *testing.T) {
	id, secret := "secret-answer", "correct horse battery staple 7741"
	asking(t, id)
	e2e.Send(t, id, "you need to know")
	a := e2e.Open(t, id, 1)[0]
	file := filepath.Join(t.TempDir(), "word")
	if err := os.WriteFile(file, []byte(secret+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	e2e.Refused(t, 2, "there is no terminal", "approval", "answer", a.ID, "colour=1", "--secret", "word")
	e2e.Refused(t, 2, "no such file", "approval", "answer", a.ID, "colour=1", "--secret", "word="+file+"-not")
	e2e.Refused(t, 2, "no question has the key", "approval", "answer", a.ID, "colour=1", "--secret", "nothing="+file)
	e2e.Refused(t, 2, `"colour" is not answered`, "approval", "answer", a.ID, "colour= ", "--secret", "word="+file)
	r := e2e.Lab.Ctl(e2e.Within(t), strings.NewReader(secret+"\n"), "approval", "answer", a.ID, "colour=1", "--secret", "word=-", "-o", "json")
	if err := json.Unmarshal([]byte(r.Stdout), &a); err != nil || r.Code != 0 || !slices.Equal(a.Decision.Secret, []string{"word"}) || len(a.Decision.Answers) != 1 {
		t.Fatalf("decided as %+v: %v", a.Decision, r)
	}
	if v := e2e.Ended(t, id, 1); v.Turn.Status != "completed" {
		t.Fatalf("session is %+v", v)
	}
	if said := e2e.LastText(t, id); strings.Contains(said, "horse") || !strings.Contains(said, "redacted") || !strings.Contains(said, "red") {
		t.Errorf("the model is shown to have said %q", said)
	}
	told := slices.ContainsFunc(e2e.Lab.Model.Requests(), func(q scriptedmodel.Request) bool { return strings.Contains(string(q.Body), secret) })
	if !told {
		t.Error("the model was never told")
	}
	blobs, err := filepath.Glob(filepath.Join(e2e.Lab.State, "store", "answers", id, "*"))
	if err != nil || len(blobs) > 0 {
		t.Errorf("after they were delivered the store has %q (%v)", blobs, err)
	}
	// A new worker, which never saw the secret, hides it, too.
	pid := e2e.WorkerPID(t)
	e2e.Kill(t, pid)
	e2e.Back(t, pid)
	if v := e2e.Turn(t, id, "you said: "+secret); strings.Contains(v.FinalText, "horse") {
		t.Errorf("a later worker shows %q", v.FinalText)
	}
	e2e.OK(t, "session", "close", id)
	left, err := filepath.Glob(filepath.Join(e2e.Lab.State, "store", "told", id, "*"))
	if err != nil || len(left) > 0 {
		t.Errorf("after the session is closed the store has %q (%v)", left, err)
	}
	found, files, _, err := lab.FindSecret(secret, filepath.Join(e2e.Lab.State, "logs"), filepath.Join(e2e.Root, "sessions", id))
	if err != nil && !os.IsNotExist(err) || len(found) > 0 || files == 0 {
		t.Errorf("the answer stands in %v (%d files, %v)", found, files, err)
	}
}
