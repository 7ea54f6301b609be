package conversation

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"fairlead.dev/fairlead/conversation/wire"
)

// The extract of codex's schema has all parts that describe what we use, in lines that
// people can read and compare. `make schema` makes it anew from the pinned binary and shows
// the changes.

var schemaFile = filepath.Join("testdata", "schema.txt")

// used lists, by file, the definitions of the schema that we use, or the whole file.
var used = map[string][]string{
	"ClientRequest.json": {
		"InitializeParams", "InitializeCapabilities", "ClientInfo", "GetAccountParams", "LoginAccountParams", "ModelListParams",
		"ThreadStartParams", "ThreadResumeParams", "ThreadForkParams", "ThreadReadParams", "ThreadTurnsListParams", "ThreadInjectItemsParams",
		"TurnStartParams", "TurnSteerParams", "TurnInterruptParams", "ThreadBackgroundTerminalsCleanParams", "AskForApproval", "SandboxMode", "UserInput",
		"ThreadCompactStartParams", "ReviewStartParams", "ReviewTarget", "ReviewDelivery", "ThreadSetNameParams", "ThreadLoadedListParams", "DynamicToolSpec", "Personality",
	},
	"ServerNotification.json": {
		"ThreadItem", "Turn", "TurnError", "CodexErrorInfo", "TurnStatus", "ThreadStatus", "ItemStartedNotification", "ItemCompletedNotification",
		"TurnStartedNotification", "TurnCompletedNotification", "ErrorNotification", "ThreadTokenUsageUpdatedNotification", "TokenUsageBreakdown",
		"ServerRequestResolvedNotification", "TurnDiffUpdatedNotification", "AccountLoginCompletedNotification",
		"AgentMessageDeltaNotification", "FileChangePatchUpdatedNotification", "PatchChangeKind", "CommandAction", "ThreadTokenUsage",
		"ThreadStatusChangedNotification", "AccountRateLimitsUpdatedNotification", "RateLimitSnapshot", "RateLimitWindow",
	},
	"CommandExecutionRequestApprovalParams.json": {""}, "CommandExecutionRequestApprovalResponse.json": {"", "CommandExecutionApprovalDecision"},
	"FileChangeRequestApprovalParams.json": {""}, "FileChangeRequestApprovalResponse.json": {"", "FileChangeApprovalDecision"},
	"PermissionsRequestApprovalParams.json": {""}, "PermissionsRequestApprovalResponse.json": {""},
	"ToolRequestUserInputParams.json": {""}, "ToolRequestUserInputResponse.json": {""},
	"McpServerElicitationRequestParams.json": {""}, "McpServerElicitationRequestResponse.json": {""},
	"DynamicToolCallParams.json": {""}, "DynamicToolCallResponse.json": {""},
	"ChatgptAuthTokensRefreshParams.json": {""}, "ChatgptAuthTokensRefreshResponse.json": {""},
	"CurrentTimeReadResponse.json":  {""},
	"ApplyPatchApprovalParams.json": {"", "FileChange"}, "ApplyPatchApprovalResponse.json": {"", "ReviewDecision"},
	"ExecCommandApprovalParams.json": {""}, "ExecCommandApprovalResponse.json": {"", "ReviewDecision"},
	"v2/ModelListResponse.json": {"", "Model", "ReasoningEffortOption"}, "v2/GetAccountResponse.json": {""},
	"v2/ThreadStartResponse.json": {""}, "v2/ThreadResumeResponse.json": {""}, "v2/TurnStartResponse.json": {""}, "v2/ReviewStartResponse.json": {""},
}

// weSay lists the methods that we call. It has all method constants of the package except
// those of codex's own requests: see TestEveryMethodThatWeSpeakOfIsInTheSchema.
var weSay = []string{wire.MethodInitialize, wire.MethodAccountRead, methodLogin, wire.MethodModelList, wire.MethodStart, wire.MethodResume, wire.MethodFork, wire.MethodInject,
	wire.MethodRead, wire.MethodTurns, wire.MethodTurnStart, wire.MethodTurnSteer, wire.MethodInterrupt, wire.MethodClean, wire.MethodCompact, wire.MethodReview, wire.MethodName, methodLoaded}

func extractSchema(t *testing.T, binary string) []byte {
	t.Helper()
	dir := t.TempDir()
	if out, err := exec.Command(binary, "app-server", "generate-json-schema", "--experimental", "--out", dir).CombinedOutput(); err != nil {
		t.Fatalf("generate the schema: %v\n%s", err, out)
	}
	var b bytes.Buffer
	for _, file := range []string{"ServerRequest.json", "ServerNotification.json"} {
		// The extract keeps all methods that codex may send. Of the methods that may be
		// sent to codex, it keeps only those that we send.
		for _, method := range methodsOf(t, filepath.Join(dir, file)) {
			fmt.Fprintf(&b, "%s %s\n", strings.TrimSuffix(file, ".json"), method)
		}
	}
	known := methodsOf(t, filepath.Join(dir, "ClientRequest.json"))
	for _, method := range weSay {
		fmt.Fprintf(&b, "ClientRequest %s: %v\n", method, slices.Contains(known, method))
	}
	for _, file := range slices.Sorted(maps.Keys(used)) {
		text, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil {
			fmt.Fprintf(&b, "%s: gone\n", file)
			continue
		}
		var root map[string]any
		if err := json.Unmarshal(text, &root); err != nil {
			t.Fatal(err)
		}
		definitions, _ := root["definitions"].(map[string]any)
		for _, name := range used[file] {
			what, at := any(root), strings.TrimSuffix(file, ".json")
			if name != "" {
				what, at = definitions[name], name
			}
			if what == nil {
				fmt.Fprintf(&b, "%s: gone\n", at)
				continue
			}
			outline(&b, at, what)
		}
	}
	return b.Bytes()
}

func methodsOf(t *testing.T, file string) (all []string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var root struct {
		OneOf []struct {
			Properties struct {
				Method struct {
					Enum []string `json:"enum"`
				} `json:"method"`
			} `json:"properties"`
		} `json:"oneOf"`
	}
	if err := json.Unmarshal(text, &root); err != nil {
		t.Fatal(err)
	}
	for _, o := range root.OneOf {
		all = append(all, o.Properties.Method.Enum...)
	}
	slices.Sort(all)
	return all
}

// outline writes the members of a definition, one per line: name, type, and whether
// it is required. Definitions that it refers to are only named.
func outline(b *bytes.Buffer, at string, schema any) {
	o, _ := schema.(map[string]any)
	for _, word := range []string{"oneOf", "anyOf"} {
		some, _ := o[word].([]any)
		for _, one := range some {
			name := at
			if m, ok := one.(map[string]any); ok {
				if values := constants(m); values != "" && m["properties"] == nil {
					fmt.Fprintf(b, "%s = %s\n", at, values)
					continue
				}
				if kind := variant(m); kind != "" {
					name = at + " " + kind
				}
			}
			outline(b, name, one)
		}
	}
	if values := constants(o); values != "" {
		fmt.Fprintf(b, "%s = %s\n", at, values)
	}
	properties, _ := o["properties"].(map[string]any)
	required, _ := o["required"].([]any)
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		must := ""
		if slices.Contains(required, any(name)) {
			must = " required"
		}
		fmt.Fprintf(b, "%s.%s %s%s\n", at, name, typeOf(properties[name]), must)
	}
}

// variant returns the word that tells one variant of a type from the others.
func variant(m map[string]any) string {
	properties, _ := m["properties"].(map[string]any)
	for _, name := range []string{"type", "kind", "mode"} {
		if p, ok := properties[name].(map[string]any); ok {
			if values := constants(p); values != "" {
				return values
			}
		}
	}
	if len(properties) == 1 {
		for name := range properties {
			return "{" + name + "}"
		}
	}
	return ""
}

func constants(m map[string]any) string {
	values, _ := m["enum"].([]any)
	var all []string
	for _, v := range values {
		all = append(all, fmt.Sprint(v))
	}
	return strings.Join(all, "|")
}

func typeOf(schema any) string {
	m, ok := schema.(map[string]any)
	if !ok {
		return "any"
	}
	if ref, ok := m["$ref"].(string); ok {
		return ref[strings.LastIndexByte(ref, '/')+1:]
	}
	if values := constants(m); values != "" {
		return values
	}
	for _, word := range []string{"anyOf", "oneOf", "allOf"} {
		if some, ok := m[word].([]any); ok {
			var all []string
			for _, one := range some {
				all = append(all, typeOf(one))
			}
			return strings.Join(all, "|")
		}
	}
	switch word := m["type"].(type) {
	case string:
		if word == "array" {
			return "[]" + typeOf(m["items"])
		}
		return word
	case []any:
		var all []string
		for _, one := range word {
			if one == "array" {
				one = "[]" + typeOf(m["items"])
			}
			all = append(all, fmt.Sprint(one))
		}
		return strings.Join(all, "|")
	}
	return "any"
}

// changed returns the lines that only one of two extracts has.
func changed(old, now []byte) (all []string) {
	lines := func(text []byte) map[string]bool {
		m := map[string]bool{}
		for line := range strings.Lines(string(text)) {
			m[strings.TrimSpace(line)] = true
		}
		return m
	}
	a, b := lines(old), lines(now)
	for line := range a {
		if !b[line] {
			all = append(all, line+"   (gone)")
		}
	}
	for line := range b {
		if !a[line] {
			all = append(all, line+"   (new)")
		}
	}
	slices.Sort(all)
	return all
}

// TestSchemaIsTheOneWeKnow checks that the extract of the pinned binary's schema equals the
// committed one.
func TestSchemaIsTheOneWeKnow(t *testing.T) {
	now := extractSchema(t, binary(t))
	old, err := os.ReadFile(schemaFile)
	if err != nil && !(*update && os.IsNotExist(err)) {
		t.Fatalf("%v (make it with `make schema`)", err)
	}
	if *update {
		for _, line := range changed(old, now) {
			t.Log(line)
		}
		if err := os.WriteFile(schemaFile, now, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	for _, line := range changed(old, now) {
		t.Errorf("codex's schema has changed: %s (`make schema` renews it)", line)
	}
	if bytes.Contains(now, []byte(": gone")) || bytes.Contains(now, []byte(": false")) {
		t.Error("something that we use is not in the schema")
	}
}

// TestEveryMethodThatWeSpeakOfIsInTheSchema checks that the extract has every method that
// the source names.
func TestEveryMethodThatWeSpeakOfIsInTheSchema(t *testing.T) {
	watched, err := os.ReadFile(schemaFile)
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("*.go")
	if err == nil {
		var wires []string
		wires, err = filepath.Glob("wire/*.go")
		files = append(files, wires...)
	}
	if err != nil {
		t.Fatal(err)
	}
	named, n := regexp.MustCompile(`(?m)^\s*[mM]ethod\w+\s*=\s*"([^"]+)"`), 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range named.FindAllStringSubmatch(string(text), -1) {
			n++
			if m[1] != wire.MethodInitialized && !bytes.Contains(watched, []byte("ClientRequest "+m[1]+": true\n")) && !bytes.Contains(watched, []byte("ServerRequest "+m[1]+"\n")) {
				t.Errorf("%s: %s is not watched", file, m[1])
			}
		}
	}
	if n < len(weSay) {
		t.Errorf("found %d methods", n)
	}
}

// TestSchemaDriftIsSeen checks that the schema of an older binary differs where its
// messages differ.
func TestSchemaDriftIsSeen(t *testing.T) {
	old, err := os.ReadFile(schemaFile)
	if err != nil {
		t.Fatal(err)
	}
	drift := strings.Join(changed(extractSchema(t, binaryOf(t, "0.130.0")), old), "\n")
	for _, want := range []string{"TurnStartParams.clientUserMessageId string|null   (new)", "ServerRequest currentTime/read   (new)", "AskForApproval = untrusted|on-failure|on-request|never   (gone)"} {
		if !strings.Contains(drift, want) {
			t.Errorf("%q is not in what changed since 0.130:\n%s", want, drift)
		}
	}
}
