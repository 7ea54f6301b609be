package approvals

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	enums "go.temporal.io/api/enums/v1"
	"google.golang.org/protobuf/encoding/protojson"

	"fairlead.dev/fairlead/internal/lab"
	"fairlead.dev/fairlead/internal/lab/e2e"
	"fairlead.dev/fairlead/internal/protocol"
)

// deskAsks are the desk's questions before it books, by the argument of the
// model's call.
var deskAsks = map[string]string{
	"form": `{"message":"For whom?","requestedSchema":{"type":"object","properties":{"name":{"type":"string","title":"Name"},"seats":{"type":"integer","minimum":1,"maximum":8},"word":{"type":"string","title":"The word"}},"required":["name","seats","word"]}}`,
	"page": `{"mode":"url","message":"Sign in first","url":"https://desk.example.com/sign-in?for=table","elicitationId":"e-1"}`,
}

// desk is an MCP server on standard input and output; codex starts this test's
// program as it. It records a person's answers in a file; the model hears only
// whether they said yes.
func desk(in io.Reader, out io.Writer, told string) int {
	type message struct {
		ID     json.RawMessage
		Method string
		Params struct {
			ProtocolVersion string
			Arguments       struct{ By string }
		}
		Result struct{ Action string }
	}
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 1<<20)
	var call json.RawMessage // a call that waits for a person
	for lines.Scan() {
		var m message
		if err := json.Unmarshal(lines.Bytes(), &m); err != nil {
			return 1
		}
		reply := func(id json.RawMessage, result string) {
			fmt.Fprintf(out, `{"jsonrpc":"2.0","id":%s,"result":%s}`+"\n", id, result)
		}
		switch m.Method {
		case "initialize":
			reply(m.ID, fmt.Sprintf(`{"protocolVersion":%q,"capabilities":{"tools":{}},"serverInfo":{"name":"desk","version":"1"}}`, m.Params.ProtocolVersion))
		case "tools/list":
			reply(m.ID, `{"tools":[{"name":"book","description":"books a table","inputSchema":{"type":"object","properties":{"by":{"type":"string"}}}}]}`)
		case "tools/call":
			call = m.ID
			fmt.Fprintf(out, `{"jsonrpc":"2.0","id":"ask","method":"elicitation/create","params":%s}`+"\n", deskAsks[m.Params.Arguments.By])
		case "":
			f, err := os.OpenFile(told, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
			if err != nil {
				return 1
			}
			fmt.Fprintf(f, "%s\n", lines.Bytes())
			if err := f.Close(); err != nil {
				return 1
			}
			if m.Result.Action == "" {
				reply(call, fmt.Sprintf(`{"content":[{"type":"text","text":%q}]}`, lines.Text()))
				continue
			}
			reply(call, fmt.Sprintf(`{"content":[{"type":"text","text":"they %s"}]}`, m.Result.Action))
		}
	}
	return 0
}

// history returns what Temporal stores of a session, decrypted.
func history(t *testing.T, id string) string {
	t.Helper()
	c, err := e2e.Lab.Temporal(e2e.Within(t))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	codec, err := e2e.Lab.Codec("default")
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	it := c.GetWorkflowHistory(e2e.Within(t), protocol.SessionID(id), "", false, enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for it.HasNext() {
		ev, err := it.Next()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := lab.Decrypt(e2e.Within(t), codec, ev); err != nil {
			t.Fatal(err)
		}
		text, err := protojson.Marshal(ev)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(text)
		all.WriteString(e2e.Payloads(text))
	}
	return all.String()
}

// TestPeopleAnswerServersOfMCP answers forms and pages, with yes and no, by ctl
// and at the terminal. Secrets in the answers reach only the server.
func TestPeopleAnswerServersOfMCP(t *testing.T) {
	id, secret, typed := "desk", "marked-secret-3f9a51c2", "marked-typed-77d0be18"
	told, word := filepath.Join(t.TempDir(), "told"), filepath.Join(t.TempDir(), "word")
	if err := os.WriteFile(word, []byte(secret+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	askingSeed(t, id, fmt.Sprintf("\n[mcp_servers.desk]\ncommand = %q\nenv = { DESK_TOLD = %q }\n", program, told))
	watch := lab.WatchProcesses(secret)
	e2e.Session(t, id, "--seed", id)
	// asked accepts the call of the tool and returns the server's question.
	asked := func(t *testing.T, by string) protocol.Approval {
		t.Helper()
		e2e.Send(t, id, "book a table by a "+by)
		a := e2e.Open(t, id, 1)[0]
		if a.Kind != "elicitation" || a.Server != "desk" || a.Tool != "book" || !strings.Contains(a.Args, by) {
			t.Fatalf("asked is %+v", a)
		}
		decided(t, "accept", "approval", "accept", a.ID)
		var b protocol.Approval
		e2e.Until(t, "what the server asks", func() (bool, error) {
			list, err := lab.Lines[protocol.Approval](e2e.Within(t), e2e.Lab, "approval", "list", "--session", id)
			if i := slices.IndexFunc(list, func(x protocol.Approval) bool { return x.ID != a.ID }); i >= 0 {
				b = list[i]
			}
			return b.ID != "", err
		})
		if b.Kind != "elicitation" || b.Server != "desk" {
			t.Fatalf("asked is %+v", b)
		}
		return b
	}
	// hears checks what the server was told last, and what the model heard of
	// it.
	hears := func(t *testing.T, a protocol.Approval, action string, content ...string) {
		t.Helper()
		if v := e2e.Ended(t, id, a.Turn); v.Turn.Status != "completed" {
			t.Errorf("turn is %+v", v.Turn)
		}
		data, err := os.ReadFile(told)
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(strings.TrimSpace(string(data)), "\n")
		last := lines[len(lines)-1]
		for _, want := range append(content, `"action":"`+action+`"`) {
			if !strings.Contains(last, want) {
				t.Errorf("the server was told %s, and not %s", last, want)
			}
		}
		if said := e2e.LastText(t, id); !strings.Contains(said, "they "+action) {
			t.Errorf("the model said %q", said)
		}
	}
	t.Run("a form by ctl", func(t *testing.T) {
		a := asked(t, "form")
		if len(a.Questions) != 3 || a.Reason != "For whom?" || !slices.Equal(a.Offered, []string{"answer", "decline", "cancel"}) {
			t.Errorf("asked is %+v", a)
		}
		e2e.Refused(t, 2, `"seats"`, "approval", "answer", a.ID, "name=Ann", "seats=9", "--secret", "word="+word)
		e2e.Refused(t, 2, "is not answered", "approval", "answer", a.ID, "seats=2", "--secret", "word="+word)
		e2e.Refused(t, 6, "not offered", "approval", "accept", a.ID)
		d := decided(t, "answer", "approval", "answer", a.ID, "name=marked-guest", "seats=2", "--secret", "word="+word).Decision
		if fmt.Sprint(d.Answers) != "map[name:[marked-guest] seats:[2]]" || !slices.Equal(d.Secret, []string{"word"}) {
			t.Errorf("decided %+v", d)
		}
		hears(t, a, "accept", `"name":"marked-guest"`, `"seats":2`, `"word":"`+secret+`"`)
	})
	t.Run("a form at the terminal", func(t *testing.T) {
		a := asked(t, "form")
		p := e2e.At(t, "approval", "answer", a.ID, "seats=3", "--secret", "word")
		p.Then("word (not shown) >", typed)
		p.Then("Name", "Ben")
		if screen := p.Leaves(); strings.Contains(screen, typed) {
			t.Errorf("on the screen is\n%s", screen)
		}
		hears(t, a, "accept", `"name":"Ben"`, `"seats":3`, `"word":"`+typed+`"`)
	})
	t.Run("no form", func(t *testing.T) {
		a := asked(t, "form")
		decided(t, "decline", "approval", "decline", a.ID)
		hears(t, a, "decline")
	})
	t.Run("a page", func(t *testing.T) {
		a := asked(t, "page")
		if a.URL != "https://desk.example.com/sign-in?for=table" || a.Reason != "Sign in first" || !slices.Equal(a.Offered, []string{"accept", "decline", "cancel"}) {
			t.Errorf("asked is %+v", a)
		}
		if shown := e2e.OK(t, "approval", "show", a.ID); !strings.Contains(shown, a.URL) {
			t.Errorf("a person is shown %s", shown)
		}
		decided(t, "accept", "approval", "accept", a.ID)
		hears(t, a, "accept")
	})
	t.Run("no page", func(t *testing.T) {
		a := asked(t, "page")
		decided(t, "decline", "approval", "decline", a.ID)
		hears(t, a, "decline")
	})
	t.Run("what is secret is nowhere else", func(t *testing.T) {
		all := history(t, id)
		if !strings.Contains(all, "marked-guest") {
			t.Error("the history does not have the plain answer: this test looks in the wrong place")
		}
		for _, secret := range []string{secret, typed} {
			if strings.Contains(all, secret) {
				t.Error("a secret answer stands in the history")
			}
			for _, e := range e2e.Transcript(t, id) {
				if line, _ := json.Marshal(e); strings.Contains(string(line), secret) {
					t.Errorf("a secret answer stands in the transcript: %s", line)
				}
			}
			// The session is still open, so its journals exist. codex's own log
			// contains all input of codex and is deleted with the session's
			// folder.
			found, files, _, err := lab.FindSecret(secret, e2e.Lab.State, filepath.Join(e2e.Root, "sessions", id))
			found = slices.DeleteFunc(found, func(file string) bool { return strings.Contains(file, "/codex-home/logs_") })
			if err != nil || len(found) > 0 || files < 10 {
				t.Errorf("a secret answer stands in %v (%d files read, %v)", found, files, err)
			}
		}
		e2e.OK(t, "session", "close", id)
		if _, err := os.Stat(filepath.Join(e2e.Root, "sessions", id)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the session's folder is still there: %v", err)
		}
		for _, secret := range []string{secret, typed} {
			if found, files, _, err := lab.FindSecret(secret, e2e.Lab.State); err != nil || len(found) > 0 || files < 5 {
				t.Errorf("a secret answer stands in %v (%d files read, %v)", found, files, err)
			}
		}
		if seen, samples := watch.Stop(); len(seen) > 0 || samples == 0 {
			t.Errorf("a secret answer was seen in %v (%d samples)", seen, samples)
		}
	})
}
