package teamtool

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"fairlead.dev/fairlead/internal/protocol"
)

func TestAToolWithAnActivityIsReadAndItsMistakesAreTold(t *testing.T) {
	one := func(activity string) string {
		return "tools: [{name: a, description: b, timeout: 1m, activity: " + activity + "}, {name: hook, description: b, webhook: 'https://x.example/a'}]"
	}
	g, err := Parse([]byte(one("{queue: tickets, type: Lookup, attempt_timeout: 20s, heartbeat: 5s, attempts: 3}")))
	if err != nil {
		t.Fatal(err)
	}
	tools, err := Read(g.Text)
	if err != nil || tools[0].Activity == nil || *tools[0].Activity != (protocol.ToolActivity{Queue: "tickets", Type: "Lookup", Attempt: 20 * time.Second, Heartbeat: 5 * time.Second, Attempts: 3}) {
		t.Fatalf("%+v, %v", tools, err)
	}
	if !slices.Equal(g.Activities, []string{"a"}) || !slices.Equal(protocol.Requires(map[string]any{"team_tools": g}), []string{"team_tools", "team_tools.activities"}) {
		t.Errorf("activities are %q, and a session requires %q", g.Activities, protocol.Requires(map[string]any{"team_tools": g}))
	}
	if hooks, err := Parse([]byte("tools: [{name: hook, description: b, webhook: 'https://x.example/a'}]")); err != nil || !slices.Equal(protocol.Requires(map[string]any{"team_tools": hooks}), []string{"team_tools"}) || strings.Contains(hooks.Text, "activity") {
		t.Errorf("without activities: %+v, %v", hooks, err)
	}
	for activity, says := range map[string]string{
		"{queue: fairlead, type: ExecOnHost}":       "Fairlead's own workers",
		"{queue: Fairlead-north, type: Exec}":       "Fairlead's own workers",
		"{queue: /_sys/x, type: Exec}":              "Temporal's own",
		"{type: Exec}":                              "queue \"\": it has 0 bytes",
		"{queue: q}":                                "type \"\": it has 0 bytes",
		"{queue: 'a b', type: Exec}":                "visible ones",
		"{queue: q, type: T, heartbeat: 2m}":        "heartbeat 2m0s: want 1s to the timeout of the tool, 1m0s",
		"{queue: q, type: T, attempt_timeout: 1ms}": "attempt_timeout 1ms",
		"{queue: q, type: T, attempts: 1000}":       "attempts is 1000",
		"{queue: q, type: T, attempts: -1}":         "attempts is -1",
		"{queue: q, type: T, retry: 3}":             "retry",
		"{queue: q, type: T, heartbeat: often}":     "not a duration",
	} {
		if _, err := Parse([]byte(one(activity))); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", activity, err, says)
		}
	}
	if _, err := Parse([]byte("tools: [{name: a, description: b, webhook: 'https://x.example/a', activity: {queue: q, type: T}}]")); err == nil || !strings.Contains(err.Error(), "want one handler") {
		t.Errorf("two handlers: %v", err)
	}
}

func TestOnlyActivitiesOfTheConfigAreCalled(t *testing.T) {
	targets := []ActivityTarget{{Queue: "a", Types: []string{"One", "Two"}}, {Queue: "b", Types: []string{"Three"}}}
	for at, want := range map[string]bool{"a One": true, "a Two": true, "b Three": true, "a Three": false, "b One": false, "A One": false, "c One": false, "a one": false} {
		queue, kind, _ := strings.Cut(at, " ")
		if _, err := FindActivity(targets, protocol.ToolActivity{Queue: queue, Type: kind}); (err == nil) != want {
			t.Errorf("%s: %v", at, err)
		}
	}
}

func TestKeysOfAQueueEncryptAndAreChangedWithoutAGap(t *testing.T) {
	const one, two = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=", "YTEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="
	keys := func(text string) ([]QueueKey, error) {
		name := filepath.Join(t.TempDir(), "keys")
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return ReadQueueKeys(name)
	}
	all, err := keys("one:" + one + "\ntwo:" + two + "\n")
	if err != nil || len(all) != 2 || all[0].ID != "one" {
		t.Fatalf("%v", err)
	}
	sealed, err := all[0].Seal([]byte("secret"))
	if err != nil || strings.Contains(string(sealed), "secret") {
		t.Fatalf("%q, %v", sealed, err)
	}
	if plain, err := all[0].Open(sealed); err != nil || string(plain) != "secret" {
		t.Errorf("%q, %v", plain, err)
	}
	if _, err := all[1].Open(sealed); err == nil {
		t.Error("another key opened it")
	}
	sealed[len(sealed)-1] ^= 1
	for _, bad := range [][]byte{sealed, sealed[:5], nil} {
		if _, err := all[0].Open(bad); err == nil {
			t.Errorf("%x was opened", bad)
		}
	}
	for _, text := range []string{"", one, "one:" + one[:20], ":" + one, "a b:" + one, "one:" + one + "\none:" + two, "hunter2:hunter2"} {
		if _, err := keys(text); err == nil || strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), one[:8]) {
			t.Errorf("%.20q: %v", text, err)
		}
	}
}

func TestTheModelIsToldHowACallOfAnActivityEnded(t *testing.T) {
	tool := protocol.TeamTool{Name: "lookup"}
	for _, c := range []struct {
		r    protocol.CallToolResult
		says string
		done bool // the model is told that it may have been carried out
	}{
		{protocol.CallToolResult{Outcome: protocol.ToolNotBegun}, "took the call within 1m0s. It was not carried out.", false},
		{protocol.CallToolResult{Outcome: protocol.ToolRefused, Why: "there is no ABC-1"}, "refused the call: there is no ABC-1", false},
		{protocol.CallToolResult{Outcome: protocol.ToolRefused}, "refused the call: without a reason", false},
		{protocol.CallToolResult{Outcome: protocol.ToolFailed, Why: "closed"}, "failed (closed), and is not tried again.", true},
		{protocol.CallToolResult{Outcome: protocol.ToolTimedOut}, "gave no answer within 1m0s.", true},
		{protocol.CallToolResult{Outcome: protocol.ToolTimedOut, Why: strings.Repeat("é", 4000)}, "[cut at 2048 bytes]", true},
		{protocol.CallToolResult{Outcome: protocol.ToolTooLong, Bytes: 300_000}, "carried out the call, and answered with 300000 bytes", false},
		{protocol.CallToolResult{Outcome: protocol.ToolStopped}, "somebody stopped the call", true},
		{protocol.CallToolResult{Outcome: "of a newer release"}, "no answer that can be read", true},
	} {
		r := aCall.Ended(tool, c.r)
		if r.OK || !strings.Contains(r.Text, c.says) || strings.Contains(r.Text, "may have been carried out") != c.done || len(r.Text) > maxWhy+400 {
			t.Errorf("%+v: %.300q", c.r, r.Text)
		}
	}
	for _, c := range []struct {
		json bool
		data string
		want Reply
	}{
		{true, `"it is open"`, Reply{"it is open", true}},
		{true, `{"text":"no","success":false}`, Reply{"no", false}},
		{true, `{"text":"yes"}`, Reply{"yes", true}},
		{true, `{"state":"open"}`, Reply{`{"state":"open"}`, true}},
		{true, `null`, Reply{"Done; the tool had nothing to say.", true}},
		{false, ``, Reply{"Done; the tool had nothing to say.", true}},
		{false, "raw\x00", Reply{"raw\uFFFD", true}},
	} {
		if r := Answer(c.json, []byte(c.data)); r != c.want {
			t.Errorf("%s: %+v", c.data, r)
		}
	}
	if r := Answer(true, []byte(`"`+strings.Repeat("x", MaxReply+1)+`"`)); !strings.Contains(r.Text, "[cut at") {
		t.Error("a long answer is not cut")
	}
	first, err := aCall.Argument("lookup")
	if again, _ := aCall.Argument("lookup"); err != nil || string(first) != string(again) || !json.Valid(first) ||
		string(first) != `{"id":"call_1","session":"s","turn":3,"tool":"lookup","arguments":{"id":"A-1"},"timestamp":"1970-01-01T00:00:01Z"}` {
		t.Errorf("the argument is %s, %v", first, err)
	}
}
