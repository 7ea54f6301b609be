package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	enums "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/protobuf/encoding/protojson"

	"fairlead.dev/fairlead/activities"
	"fairlead.dev/fairlead/deploy/lab"
	"fairlead.dev/fairlead/workflows"
)

func TestTheAgentCannotReadItsCredential(t *testing.T) {
	for _, sandbox := range []string{"workspace-write", "read-only"} {
		id := "credential-" + sandbox
		session(t, id, "--sandbox", sandbox)
		idle(t, id)
		home := filepath.Join(root1, "sessions", id, "codex-home")
		data, err := os.ReadFile(filepath.Join(home, "config.toml"))
		if err != nil || !strings.Contains(string(data), shared.Token) {
			t.Fatalf("the credential was not planted (%v): this test would prove nothing", err)
		}
		info, err := os.Stat(filepath.Join(home, "config.toml"))
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("it is planted with mode %v (%v)", info.Mode(), err)
		}
		v := turn(t, id, "read your credential in "+shellQuote(home))
		if v.Status != "completed" || !strings.Contains(v.FinalText, "looked") {
			t.Fatalf("%s: turn is %+v", sandbox, v)
		}
		if strings.Contains(v.FinalText, shared.Token) || !strings.Contains(v.FinalText, "denied") {
			t.Errorf("%s: the agent saw %q", sandbox, v.FinalText)
		}
		if inside := strings.Contains(v.FinalText, "inside"); sandbox == "workspace-write" && !inside {
			t.Errorf("%s: the agent could not work: %q", sandbox, v.FinalText)
		}
	}
}

// shellQuote keeps a path with spaces and quotes one word, without a blank for
// the script's pattern to end at.
func shellQuote(path string) string {
	var b strings.Builder
	for _, r := range path {
		if strings.ContainsRune(` '"$\`, r) {
			b.WriteByte('?') // a pattern of the shell's: any one character
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}

func TestNoSecretIsInHistoriesDatabaseStoreOrLogs(t *testing.T) {
	session(t, "leak")
	turn(t, "leak", "hello")
	send(t, "leak", "you need a command")
	ok(t, "approval", "accept", open(t, "leak", 1)[0].ID)
	ended(t, "leak", 2)
	ok(t, "session", "close", "leak")

	ctx := within(t)
	c, err := shared.Temporal(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	list, err := c.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{PageSize: 1000})
	if err != nil || len(list.GetExecutions()) < 3 {
		t.Fatalf("%d workflows listed (%v)", len(list.GetExecutions()), err)
	}
	codec, err := shared.Codec("default")
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
			// What is encrypted is no place for a credential either.
			n, err := lab.Decrypt(ctx, codec, ev)
			if err != nil {
				t.Fatal(err)
			}
			encrypted += n
			text, err := protojson.Marshal(ev)
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(string(text), shared.Token) || strings.Contains(payloads(text), shared.Token) {
				t.Errorf("the secret stands in event %d of %s", ev.GetEventId(), e.GetExecution().GetWorkflowId())
			}
		}
		histories++
	}
	found, files, size, err := lab.FindSecret(shared.Token, shared.State, filepath.Join(root1, "sessions", "leak"))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	if len(found) > 0 || files < 5 {
		t.Errorf("the secret stands in %v (%d files read)", found, files)
	}
	for _, e := range transcript(t, "leak") {
		if line, _ := json.Marshal(e); strings.Contains(string(line), shared.Token) {
			t.Errorf("the secret stands in the transcript: %s", line)
		}
	}
	if encrypted < 20 {
		t.Errorf("only %d payloads were decrypted: this test looks in the wrong place", encrypted)
	}
	t.Logf("looked through %d histories and %d files (%d bytes)", histories, files, size)
}

// payloads decodes what is base64 in an event's JSON.
func payloads(event []byte) string {
	var out strings.Builder
	var walk func(any)
	walk = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			for _, x := range v {
				walk(x)
			}
		case []any:
			for _, x := range v {
				walk(x)
			}
		case string:
			var b []byte
			if json.Unmarshal([]byte(`"`+v+`"`), &b) == nil {
				out.Write(b)
				out.WriteByte('\n')
			}
		}
	}
	var v any
	if json.Unmarshal(event, &v) == nil {
		walk(v)
	}
	return out.String()
}

func TestASecretThatACommandPrintsIsNotKept(t *testing.T) {
	// With full access the agent can read its credential, and README says so;
	// what we keep of it is redacted all the same.
	session(t, "redact", "--sandbox", "danger-full-access")
	home := filepath.Join(root1, "sessions", "redact", "codex-home")
	v := turn(t, "redact", "read your credential in "+shellQuote(home))
	if !strings.Contains(v.FinalText, "redacted") || strings.Contains(v.FinalText, shared.Token) {
		t.Errorf("the final text is %q", v.FinalText)
	}
	for _, e := range transcript(t, "redact") {
		if line, _ := json.Marshal(e); strings.Contains(string(line), shared.Token) {
			t.Errorf("the secret stands in the transcript: %s", line)
		}
	}
	if n := len(texts(transcript(t, "redact"), activities.EntryCommand)); n != 1 {
		t.Errorf("%d commands on record", n)
	}
	ok(t, "session", "close", "redact")
	if found, _, _, err := lab.FindSecret(shared.Token, shared.State); err != nil || len(found) > 0 {
		t.Errorf("the secret stands in %v (%v)", found, err)
	}
	var s workflows.SessionView
	if err := shared.JSON(within(t), &s, "session", "show", "redact"); err != nil || s.Close == nil || !s.Close.Wiped {
		t.Errorf("closed as %+v (%v)", s.Close, err)
	}
}
