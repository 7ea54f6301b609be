package credentials

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	enums "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/protobuf/encoding/protojson"

	"fairlead.dev/fairlead/internal/lab"
	"fairlead.dev/fairlead/internal/lab/e2e"
	"fairlead.dev/fairlead/internal/protocol"
)

func TestTheAgentCannotReadItsCredential(t *testing.T) {
	for _, sandbox := range []string{"workspace-write", "read-only"} {
		id := "credential-" + sandbox
		e2e.Session(t, id, "--sandbox", sandbox)
		e2e.Idle(t, id)
		home, err := filepath.EvalSymlinks(filepath.Join(e2e.Root, "sessions", id, "codex-home"))
		if err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(filepath.Join(home, "config.toml"))
		if err != nil || !strings.Contains(string(data), e2e.Lab.Token) {
			t.Fatalf("the credential was not planted (%v): this test would prove nothing", err)
		}
		info, err := os.Stat(filepath.Join(home, "config.toml"))
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("it is planted with mode %v (%v)", info.Mode(), err)
		}
		v := e2e.Turn(t, id, "read your credential in "+shellQuote(home))
		// codex may leave out standard output of a command that ends at once, so what
		// the command did is looked up on the host.
		if v.Status != "completed" || strings.Contains(v.FinalText, e2e.Lab.Token) || !strings.Contains(v.FinalText, "denied") {
			t.Errorf("%s: the agent saw %q in turn %+v", sandbox, v.FinalText, v)
		}
		made, err := os.ReadFile(filepath.Join(e2e.Root, "sessions", id, "work", "inside.txt"))
		switch {
		case sandbox == "workspace-write" && string(made) != "inside":
			t.Errorf("%s: the agent could not work: %q, %v", sandbox, made, err)
		case sandbox == "read-only" && !errors.Is(err, fs.ErrNotExist):
			t.Errorf("%s: the agent made a file: %q, %v", sandbox, made, err)
		}
	}
}

// shellQuote turns a path with spaces and quotes into one shell word without
// spaces, because the script's pattern ends at a space.
func shellQuote(path string) string {
	var b strings.Builder
	for _, r := range path {
		if strings.ContainsRune(` '"$\`, r) {
			b.WriteByte('?') // matches any one character in the shell
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}

func TestNoSecretIsInHistoriesDatabaseStoreOrLogs(t *testing.T) {
	e2e.Session(t, "leak")
	e2e.Turn(t, "leak", "hello")
	e2e.Send(t, "leak", "you need a command")
	e2e.OK(t, "approval", "accept", e2e.Open(t, "leak", 1)[0].ID)
	e2e.Ended(t, "leak", 2)
	e2e.OK(t, "session", "close", "leak")

	ctx := e2e.Within(t)
	c, err := e2e.Lab.Temporal(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	list, err := c.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{PageSize: 1000})
	if err != nil || len(list.GetExecutions()) < 3 {
		t.Fatalf("%d workflows listed (%v)", len(list.GetExecutions()), err)
	}
	codec, err := e2e.Lab.Codec("default")
	if err != nil {
		t.Fatal(err)
	}
	histories, encrypted := 0, 0
	for _, e := range list.GetExecutions() {
		it := c.GetWorkflowHistory(ctx, e.GetExecution().GetWorkflowId(), e.GetExecution().GetRunId(), false, enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
		for it.HasNext() {
			ev, err := it.Next()
			if err != nil {
				t.Fatal(err)
			}
			// Encrypted payloads must not contain a credential either.
			n, err := lab.Decrypt(ctx, codec, ev)
			if err != nil {
				t.Fatal(err)
			}
			encrypted += n
			text, err := protojson.Marshal(ev)
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(string(text), e2e.Lab.Token) || strings.Contains(e2e.Payloads(text), e2e.Lab.Token) {
				t.Errorf("the secret stands in event %d of %s", ev.GetEventId(), e.GetExecution().GetWorkflowId())
			}
		}
		histories++
	}
	found, files, size, err := lab.FindSecret(e2e.Lab.Token, e2e.Lab.State, filepath.Join(e2e.Root, "sessions", "leak"))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	if len(found) > 0 || files < 5 {
		t.Errorf("the secret stands in %v (%d files read)", found, files)
	}
	for _, e := range e2e.Transcript(t, "leak") {
		if line, _ := json.Marshal(e); strings.Contains(string(line), e2e.Lab.Token) {
			t.Errorf("the secret stands in the transcript: %s", line)
		}
	}
	if encrypted < 20 {
		t.Errorf("only %d payloads were decrypted: this test looks in the wrong place", encrypted)
	}
	t.Logf("looked through %d histories and %d files (%d bytes)", histories, files, size)
}

func TestASecretThatACommandPrintsIsNotKept(t *testing.T) {
	// With full access the agent can read its credential, as docs/explanation/security.md says;
	// what is stored is redacted all the same.
	e2e.Session(t, "redact", "--sandbox", "danger-full-access")
	home := filepath.Join(e2e.Root, "sessions", "redact", "codex-home")
	v := e2e.Turn(t, "redact", "read your credential in "+shellQuote(home))
	if !strings.Contains(v.FinalText, "redacted") || strings.Contains(v.FinalText, e2e.Lab.Token) {
		t.Errorf("the final text is %q", v.FinalText)
	}
	for _, e := range e2e.Transcript(t, "redact") {
		if line, _ := json.Marshal(e); strings.Contains(string(line), e2e.Lab.Token) {
			t.Errorf("the secret stands in the transcript: %s", line)
		}
	}
	if n := len(e2e.Texts(e2e.Transcript(t, "redact"), protocol.EntryCommand)); n != 1 {
		t.Errorf("%d commands on record", n)
	}
	e2e.OK(t, "session", "close", "redact")
	if found, _, _, err := lab.FindSecret(e2e.Lab.Token, e2e.Lab.State); err != nil || len(found) > 0 {
		t.Errorf("the secret stands in %v (%v)", found, err)
	}
	var s protocol.SessionView
	if err := e2e.Lab.JSON(e2e.Within(t), &s, "session", "show", "redact"); err != nil || s.Close == nil || !s.Close.Wiped {
		t.Errorf("closed as %+v (%v)", s.Close, err)
	}
}
