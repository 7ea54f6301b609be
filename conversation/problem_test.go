package conversation

import (
	"encoding/json"
	"strings"
	"testing"

	"fairlead.dev/fairlead/deploy/scriptedmodel"
)

func failuresOfTheRealCodexAreClassified(t *testing.T, c *codex) {
	kinds := []struct{ kind, want string }{
		{"unauthorized", "auth"},
		{"forbidden", "auth"},
		{"bad_request", "bad_request"},
		{"server_error", "network"},
		{"overloaded", "overloaded"},
		{"rate_limited", "rate_limit"},
		{"usage_limit", "quota"},
		{"cut", "network"},
		{"context_length", "context_window"}, // last: codex compacts before the next turn
	}
	var script strings.Builder
	script.WriteString("rules:\n")
	for _, c := range kinds {
		script.WriteString("  - when: {exact: " + c.kind + "}\n    steps:\n      - - fail: {kind: " + c.kind + ", times: -1}\n        - say: never\n")
	}
	s := scriptedmodel.Serve(t, script.String())
	k := c.talk(t, s)
	for n, c := range kinds {
		kind, want := c.kind, c.want
		r := k.pump(TurnEnded, turn(n+1, "m-"+kind, kind))
		if r.Turn.Status != "failed" || r.Turn.Problem == nil {
			t.Errorf("%s: turn %+v", kind, r.Turn)
			continue
		}
		if p := r.Turn.Problem; p.Kind != want || p.Hint == "" {
			t.Errorf("%s: %+v, want kind %s", kind, p, want)
		}
		if texts := k.sink.text(EntryError); len(texts) == 0 {
			t.Errorf("%s: no entry tells of it", kind)
		}
	}
}

func TestErrorInfoIsClassified(t *testing.T) {
	for info, want := range map[string]string{
		`"contextWindowExceeded"`: "context_window", `"usageLimitExceeded"`: "quota", `"rateLimitExceeded"`: "rate_limit",
		`"serverOverloaded"`: "overloaded", `"modelNotFound"`: "model", `"unauthorized"`: "auth", `"sandboxError"`: "sandbox",
		`"badRequest"`: "bad_request", `"other"`: "other", `"neverHeardOf"`: "other", `null`: "other", `7`: "other", ``: "other",
		`{"httpConnectionFailed":{"httpStatusCode":401}}`:           "auth",
		`{"httpConnectionFailed":{"httpStatusCode":null}}`:          "network",
		`{"responseTooManyFailedAttempts":{"httpStatusCode":429}}`:  "rate_limit",
		`{"responseStreamDisconnected":{"httpStatusCode":null}}`:    "network",
		`{"responseStreamConnectionFailed":{"httpStatusCode":503}}`: "overloaded",
		`{"activeTurnNotSteerable":{"turnKind":"review"}}`:          "bad_request",
		`{"one":{},"two":{}}`: "other",
	} {
		p := classify(turnError{Message: "it went wrong", Info: json.RawMessage(info), Details: "details"})
		if p.Kind != want || p.Hint == "" || p.Message != "it went wrong (details)" {
			t.Errorf("%s: %+v, want %s", info, p, want)
		}
	}
	for text, want := range map[string]string{
		"Missing environment variable: `MYKEY`.":                          "auth",
		"stream disconnected before completion: idle timeout":             "network",
		"no rollout found for thread id x":                                "thread_missing",
		"thread x already has an active writer":                           "thread_busy",
		"failed to load configuration: Model provider `nope` not found":   "model",
		"You've hit your usage limit. Try again at 5 PM.":                 "quota",
		"auth refresh request failed: code=-32000":                        "auth",
		"bwrap: Creating new namespace failed: Resource temporarily":      "sandbox",
		"unexpected status 403 Forbidden: You are not allowed, url: http": "auth",
		"nobody has seen this one":                                        "other",
	} {
		if p := classify(turnError{Message: text, Info: json.RawMessage(`"other"`)}); p.Kind != want {
			t.Errorf("%q: %s, want %s", text, p.Kind, want)
		}
	}
	for kind, hint := range hints {
		if hint == "" || strings.ToLower(hint[:1]) != hint[:1] || strings.HasSuffix(hint, ".") {
			t.Errorf("hint of %s: %q", kind, hint)
		}
	}
}

func TestExitProblemSaysWhatToDo(t *testing.T) {
	p := ExitProblem("exit status 1", "line one\n"+strings.Repeat("long ", 1000)+"\nError: CODEX_HOME points to nowhere\n")
	if p.Kind != "process_exit" || !strings.Contains(p.Hint, "config") || !strings.Contains(p.Message, "points to nowhere") || len(p.Message) > 3<<10 {
		t.Errorf("%+v", p)
	}
	noise := "\x1b[31mERROR\x1b[0m transport: Failed to deserialize JSONRPCMessage: EOF while parsing a value at line 1 column 0\n"
	if p := ExitProblem("exit status 1", "\x1b[2mreal\x1b[0m trouble\n"+noise+noise); p.Message != "codex ended (exit status 1): real trouble" {
		t.Errorf("%q", p.Message)
	}
	if p := ExitProblem("exit status 137", ""); !strings.Contains(p.Hint, "memory") {
		t.Errorf("%+v", p)
	}
}
