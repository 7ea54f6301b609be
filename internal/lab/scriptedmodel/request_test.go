package scriptedmodel

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"
)

func user(text string) item { return item{Type: "message", Role: "user", Content: content{text}} }

func TestContextThatCodexWritesIsNoUserMessage(t *testing.T) {
	r := request{Input: []item{
		user("# AGENTS.md instructions for /srv/project\n\nbe kind"),
		user("<environment_context>\n  <cwd>/home/me/work</cwd>\n</environment_context>"),
		user("first"),
		{Type: "message", Role: "assistant", Content: content{"answer"}},
		user("<turn_aborted>\nThe user interrupted.\n</turn_aborted>"),
		user("is <b>this</b> mine?"),
		user("<a> and <b>"),
	}}
	want := []string{"first", "is <b>this</b> mine?", "<a> and <b>"}
	if got := r.userMessages(); !slices.Equal(got, want) {
		t.Errorf("user messages %q, want %q", got, want)
	}
	if got := r.cwd(); got != "/home/me/work" {
		t.Errorf("cwd %q", got)
	}
}

// The outputs are as codex 0.169 sent them.
func TestOutputsAreReadInBothDialects(t *testing.T) {
	for name, test := range map[string]struct {
		items []item
		want  history
	}{
		"nothing": {nil, history{}},
		"command": {[]item{
			{Type: "function_call", CallID: "call_s0_x_0", Name: "exec_command"},
			{Type: "function_call_output", CallID: "call_s0_x_0", Output: content{
				"Chunk ID: d27695\nWall time: 0.2311 seconds\nProcess exited with code 3\nOriginal token count: 1\nOutput:\none\n"}},
		}, history{step: 1, results: []Result{{"one\n", 3}}}},
		"patch": {[]item{
			{Type: "custom_tool_call", CallID: "call_s1_x_0", Name: "apply_patch"},
			{Type: "custom_tool_call_output", CallID: "call_s1_x_0", Output: content{
				"Exit code: 0\nWall time: 0.1 seconds\nOutput:\nSuccess. Updated the following files:\nA a.txt\n"}},
		}, history{step: 2, results: []Result{{"Success. Updated the following files:\nA a.txt\n", 0}}}},
		"refusal": {[]item{
			{Type: "custom_tool_call", CallID: "call_s0_x_0", Name: "apply_patch"},
			{Type: "custom_tool_call_output", CallID: "call_s0_x_0", Output: content{"patch rejected by user"}},
		}, history{step: 1, results: []Result{{"patch rejected by user", -1}}}},
		"call without output yet": {[]item{
			{Type: "function_call", CallID: "call_s0_x_0", Name: "exec_command"},
		}, history{step: 1}},
		"call of another model": {[]item{
			{Type: "function_call", CallID: "call_abc", Name: "exec_command"},
			{Type: "function_call_output", CallID: "call_abc", Output: content{"x"}},
		}, history{}},
		"program": {[]item{
			{Type: "custom_tool_call", CallID: "call_s0_x_0", Name: "exec"},
			{Type: "custom_tool_call_output", CallID: "call_s0_x_0", Output: content{
				"Script completed\nWall time 0.6 seconds\nOutput:\n",
				`[{"value":{"exit_code":3,"output":"one\n"}},{"value":{}},{"error":"no"},{"value":"text"}]`}},
		}, history{step: 1, results: []Result{{"one\n", 3}, {"{}", -1}, {"no", -1}, {"text", -1}}}},
		"running": {[]item{
			{Type: "function_call", CallID: "call_s0_x_0", Name: "exec_command"},
			{Type: "function_call_output", CallID: "call_s0_x_0", Output: content{
				"Chunk ID: f9\nWall time: 0.3010 seconds\nProcess running with session ID 34419\nOriginal token count: 1\nOutput:\na\n"}},
		}, history{step: 1, results: []Result{{"a\n", -1}}, running: []running{{session: "34419"}}}},
		"running in the background": {[]item{
			{Type: "function_call", CallID: "call_s0b_x_0", Name: "exec_command"},
			{Type: "function_call_output", CallID: "call_s0b_x_0", Output: content{
				"Wall time: 0.3010 seconds\nProcess running with session ID 34419\nOutput:\na\n"}},
		}, history{step: 1, results: []Result{{"a\n", -1}}}},
		"ran and ended": {[]item{
			{Type: "function_call", CallID: "call_s0_x_0", Name: "exec_command"},
			{Type: "function_call_output", CallID: "call_s0_x_0", Output: content{
				"Wall time: 0.3 seconds\nProcess running with session ID 7\nOutput:\na\n"}},
			{Type: "function_call", CallID: "call_s0w_y_0", Name: "write_stdin", Arguments: `{"session_id":7,"chars":""}`},
			{Type: "function_call_output", CallID: "call_s0w_y_0", Output: content{
				"Wall time: 0.3 seconds\nProcess exited with code 0\nOutput:\nb\n"}},
		}, history{step: 1, results: []Result{{"a\nb\n", 0}}, running: []running{}}},
		"program that yielded": {[]item{
			{Type: "custom_tool_call", CallID: "call_s0_x_0", Name: "exec"},
			{Type: "custom_tool_call_output", CallID: "call_s0_x_0", Output: content{"Script running with cell ID 2\nWall time 0.3 seconds\nOutput:\n"}},
		}, history{step: 1, running: []running{{cell: "2"}}}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := readHistory(test.items); !reflect.DeepEqual(got, test.want) {
				t.Errorf("got  %+v\nwant %+v", got, test.want)
			}
		})
	}
}

func TestContentIsTextOrParts(t *testing.T) {
	for in, want := range map[string]content{
		`"a"`:                                   {"a"},
		`[{"type":"input_text","text":"a"}]`:    {"a"},
		`[{"type":"input_image"},{"text":"b"}]`: {"b"},
		`{"odd":1}`:                             {`{"odd":1}`},
	} {
		var got content
		if err := json.Unmarshal([]byte(in), &got); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %q, %v", in, got, err)
		}
	}
}

func TestToolThatIsNotOfferedIsASurprise(t *testing.T) {
	d := (&request{Tools: []tool{{Type: "function", Name: "exec_command"}}}).dialect()
	if _, err := d.callItems([]Action{Shell("ls")}, 0, "x", 0); err != nil {
		t.Errorf("offered, yet %v", err)
	}
	_, err := d.callItems([]Action{Patch("x")}, 0, "x", 0)
	if err == nil || !strings.Contains(err.Error(), "apply_patch, only: exec_command") {
		t.Errorf("not offered: %v", err)
	}
}

func TestCodeModeMakesOneProgramOfCallsThatFollowEachOther(t *testing.T) {
	r := request{Input: []item{{Type: "additional_tools", Tools: []tool{{Type: "namespace", Name: "functions", Tools: []tool{
		{Type: "custom", Name: "exec"}, {Type: "function", Name: "wait"}}}}}}}
	d := r.dialect()
	items, err := d.callItems([]Action{
		Shell(`echo "</script>"`), Patch("*** Begin Patch\n"),
		{Call: &Call{Name: "wait", Arguments: map[string]any{"cell_id": "1"}}},
		{Call: &Call{Name: "nested"}},
	}, 4, "x", 0)
	if err != nil {
		t.Fatal(err)
	}
	var names []any
	for _, it := range items {
		names = append(names, it["name"])
		if id := it["call_id"].(string); !strings.HasPrefix(id, "call_s4_x_") {
			t.Errorf("call id %s", id)
		}
	}
	if want := []any{"exec", "wait", "exec"}; !slices.Equal(names, want) {
		t.Fatalf("items %v, want %v", names, want)
	}
	first := items[0]["input"].(string)
	if strings.Count(first, "settle(() =>") != 2 || !strings.Contains(first, "tools.apply_patch(") {
		t.Errorf("program %s", first)
	}
}

func TestWordsJoinedAreTheText(t *testing.T) {
	for _, text := range []string{"", " ", "a", "a b", "  a\n\nb  ", "日本 語"} {
		if got := strings.Join(words(text), ""); got != text {
			t.Errorf("%q became %q", text, got)
		}
	}
	if got := words("a  b\nc"); !slices.Equal(got, []string{"a  ", "b\n", "c"}) {
		t.Errorf("words %q", got)
	}
}
