package conversation

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"fairlead.dev/fairlead/conversation/wire"
	"fairlead.dev/fairlead/internal/protocol"
)

// A contract is the JSON schema that the real codex generates.
type contract struct {
	t        *testing.T
	dir      string
	compiled map[string]*jsonschema.Schema
}

func newContract(t *testing.T) *contract {
	t.Helper()
	dir := t.TempDir()
	out, err := exec.Command(binary(t), "app-server", "generate-json-schema", "--experimental", "--out", dir).CombinedOutput()
	if err != nil {
		t.Fatalf("generate the schema: %v\n%s", err, out)
	}
	return &contract{t: t, dir: dir, compiled: map[string]*jsonschema.Schema{}}
}

func (c *contract) check(file string, doc []byte) {
	c.t.Helper()
	s := c.compiled[file]
	if s == nil {
		var err error
		if s, err = jsonschema.NewCompiler().Compile(filepath.Join(c.dir, file)); err != nil {
			c.t.Fatal(err)
		}
		c.compiled[file] = s
	}
	v, err := jsonschema.UnmarshalJSON(strings.NewReader(string(doc)))
	if err != nil {
		c.t.Fatal(err)
	}
	if err := s.Validate(v); err != nil {
		c.t.Errorf("%s: %s\n%v", file, doc, err)
	}
}

// A schema allows unknown members, and codex ignores them, so a misspelt member would have
// no effect. Therefore names checks the names too.
func (c *contract) names(file, definition string, doc []byte) {
	c.t.Helper()
	type object struct {
		Properties  map[string]json.RawMessage `json:"properties"`
		Definitions map[string]struct {
			Properties map[string]json.RawMessage `json:"properties"`
			OneOf      []struct {
				Properties map[string]json.RawMessage `json:"properties"`
			} `json:"oneOf"`
		} `json:"definitions"`
	}
	text, err := os.ReadFile(filepath.Join(c.dir, file))
	if err != nil {
		c.t.Fatal(err)
	}
	var o object
	if err := json.Unmarshal(text, &o); err != nil {
		c.t.Fatal(err)
	}
	known := o.Properties
	if definition != "" {
		known = maps.Clone(o.Definitions[definition].Properties)
		for _, one := range o.Definitions[definition].OneOf { // check finds out which of them applies
			if known == nil {
				known = map[string]json.RawMessage{}
			}
			maps.Copy(known, one.Properties)
		}
	}
	var sent map[string]json.RawMessage
	if err := json.Unmarshal(doc, &sent); err != nil {
		c.t.Fatal(err)
	}
	for name := range sent {
		if _, ok := known[name]; !ok {
			c.t.Errorf("%s %s has no member %q", file, definition, name)
		}
	}
}

func TestEveryMessageObeysCodexsSchema(t *testing.T) {
	c := newContract(t)
	params := map[string]string{
		wire.MethodInitialize: "InitializeParams", wire.MethodAccountRead: "GetAccountParams", wire.MethodModelList: "ModelListParams",
		wire.MethodStart: "ThreadStartParams", wire.MethodResume: "ThreadResumeParams", wire.MethodRead: "ThreadReadParams",
		wire.MethodTurns: "ThreadTurnsListParams", wire.MethodTurnStart: "TurnStartParams", wire.MethodTurnSteer: "TurnSteerParams",
		wire.MethodInterrupt: "TurnInterruptParams", wire.MethodClean: "ThreadBackgroundTerminalsCleanParams",
		wire.MethodFork: "ThreadForkParams", wire.MethodInject: "ThreadInjectItemsParams", wire.MethodCompact: "ThreadCompactStartParams",
		wire.MethodReview: "ReviewStartParams", wire.MethodName: "ThreadSetNameParams", methodLoaded: "ThreadLoadedListParams", methodLogin: "LoginAccountParams",
	}
	answers := map[string]string{
		"item/commandExecution/requestApproval": "CommandExecutionRequestApprovalResponse.json",
		"item/fileChange/requestApproval":       "FileChangeRequestApprovalResponse.json",
		"item/permissions/requestApproval":      "PermissionsRequestApprovalResponse.json",
		methodUserInput:                         "ToolRequestUserInputResponse.json",
		methodExecApproval:                      "ExecCommandApprovalResponse.json",
		methodPatchApproval:                     "ApplyPatchApprovalResponse.json",
		"mcpServer/elicitation/request":         "McpServerElicitationRequestResponse.json",
		"item/tool/call":                        "DynamicToolCallResponse.json",
		"currentTime/read":                      "CurrentTimeReadResponse.json",
		methodTokenRefresh:                      "ChatgptAuthTokensRefreshResponse.json",
	}
	seen := map[string]bool{}
	for _, line := range everythingWeSay(t) {
		var m wire.Message
		if err := json.Unmarshal([]byte(line.text), &m); err != nil {
			t.Fatal(err)
		}
		switch {
		case m.IsRequest():
			seen[m.Method] = true
			c.check("ClientRequest.json", []byte(line.text))
			if params[m.Method] == "" {
				t.Errorf("%s is sent and not checked", m.Method)
				continue
			}
			c.names("ClientRequest.json", params[m.Method], m.Params)
		case m.Method != "":
			seen[m.Method] = true
			c.check("ClientNotification.json", []byte(line.text))
		case m.Error != nil:
			c.check("JSONRPCError.json", []byte(line.text))
		default:
			c.check("JSONRPCResponse.json", []byte(line.text))
			file := answers[line.answers]
			if file == "" {
				t.Errorf("an answer to %s is not checked", line.answers)
				continue
			}
			seen[line.answers] = true
			c.check(file, m.Result)
			c.names(file, "", m.Result)
		}
	}
	for _, method := range slices.Concat(weSay, slices.Collect(maps.Keys(params)), slices.Collect(maps.Keys(answers)), []string{wire.MethodInitialized}) {
		if !seen[method] {
			t.Errorf("%s is never sent here", method)
		}
	}
}

type saidLine struct {
	text    string
	answers string // the method that it answers
}

// everythingWeSay makes the pump write every kind of line that it can write.
func everythingWeSay(t *testing.T) []saidLine {
	var all []saidLine
	take := func(s *stage, answers string) {
		for _, l := range s.said {
			all = append(all, saidLine{l, answers})
		}
	}
	initAnswer := `{"id":"g1.p9.initialize.0","result":{"userAgent":"f/0.169.0 (x)"}}`
	for _, spec := range []ThreadSpec{
		{CWD: "/w", Sandbox: "workspace-write", ApprovalPolicy: "on-request", Model: "m", Effort: "high", Instructions: "be kind", Base: "you are kind", Mark: "x", Personality: "none", Tools: protocol.Tools},
		{CWD: "/w", Sandbox: "read-only", Permissions: "fl", ApprovalPolicy: "untrusted"},
		{CWD: "/w", Sandbox: "danger-full-access", ApprovalPolicy: "never"},
	} {
		for _, how := range []string{"start", "resume", "fork"} {
			in := PumpInput{State: PumpState{Cursor: protocol.Cursor{Incarnation: 1}, ThreadID: ourThread}, Resume: how != "start", Fork: how == "fork", Thread: spec}
			s := perform(t, in, Options{})
			s.hear(initAnswer)
			take(s, "")
		}
	}
	message := Send{ID: "m", Kind: SendTurn, Turn: 5, Text: "hello <&> \u2028", Model: "m", Effort: "low"}
	take(perform(t, PumpInput{State: opened(), Sends: []Send{message}}, Options{}), "")
	take(perform(t, PumpInput{State: opened(), Tell: &Tell{ID: "t", Text: "hello <&> \u2028"}}, Options{}), "")
	message.Uncertain = true
	take(perform(t, PumpInput{State: opened(), Sends: []Send{message}}, Options{}), "")
	s := perform(t, PumpInput{State: running(), Sends: []Send{{ID: "s", Kind: SendSteer, Text: "x"}, {ID: "i", Kind: SendInterrupt}}}, Options{})
	s.hear(`{"id":"send/i/0","result":{}}`)
	take(s, "")
	for _, act := range []Send{{Do: protocol.ActCompact}, {Do: protocol.ActReview}, {Do: protocol.ActReview, Review: &protocol.Review{Base: "main"}},
		{Do: protocol.ActReview, Review: &protocol.Review{Commit: "abc"}}, {Do: protocol.ActReview, Review: &protocol.Review{Instructions: "look"}}} {
		act.ID, act.Kind, act.Turn = "act", SendTurn, 5
		take(perform(t, PumpInput{State: opened(), Thread: ThreadSpec{Name: "a name"}, Models: true, Sends: []Send{act}}, Options{}), "")
	}
	take(perform(t, PumpInput{State: opened(), Sends: []Send{{ID: "with", Kind: SendTurn, Turn: 5, Text: "look", Schema: json.RawMessage(`{"type":"object"}`),
		Inputs: []protocol.Input{{Kind: protocol.InputImage, Name: "a.png", Blob: "b", Path: "/in/a.png"}, {Kind: protocol.InputFile, Name: "a.txt", Blob: "c", Path: "/in/a.txt"}}}}}, Options{}), "")
	s = perform(t, freshInput(), noBroker)
	s.hear(saidInitialized)
	s.give("", NewToken(aToken, "acct-1", "pro", 7), nil)
	take(s, "")
	s = perform(t, PumpInput{State: running()}, noBroker)
	s.hear(refreshAsked(1))
	s.give(s.wantsToken()[0].key, NewToken(aToken, "acct-1", "pro", 8), nil)
	take(s, methodTokenRefresh)
	for _, f := range askedFamilies {
		first, r := f.ask(t, Options{})
		for _, a := range f.answers {
			take(f.answer(t, first, r, a.send, Options{}), f.method)
		}
	}
	for _, method := range []string{
		"item/permissions/requestApproval", "item/tool/requestUserInput", "mcpServer/elicitation/request", "item/tool/call", "currentTime/read",
		"account/chatgptAuthTokens/refresh", "attestation/generate", "applyPatchApproval", "execCommandApproval", "nobody/knows",
	} {
		s := perform(t, PumpInput{State: running()}, Options{Now: time.Now})
		s.hear(fmt.Sprintf(`{"method":%q,"id":1,"params":{}}`, method))
		take(s, method)
	}
	return all
}
