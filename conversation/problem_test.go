package conversation

import (
	"encoding/json"
	"strings"
	"testing"

	"fairlead.dev/fairlead/conversation/wire"
	"fairlead.dev/fairlead/internal/protocol"
)

func TestErrorInfoIsClassified(t *testing.T) {
	for info, want := range map[string]string{
		`"contextWindowExceeded"`: "context_window", `"usageLimitExceeded"`: "quota", `"rateLimitExceeded"`: "rate_limit",
		`"serverOverloaded"`: "overloaded", `"modelNotFound"`: "model_not_found", `"unauthorized"`: "auth", `"sandboxError"`: "sandbox",
		`"badRequest"`: "bad_request", `"other"`: "other", `"neverHeardOf"`: "other", `null`: "other", `7`: "other", ``: "other",
		`{"httpConnectionFailed":{"httpStatusCode":401}}`:           "auth",
		`{"httpConnectionFailed":{"httpStatusCode":null}}`:          "network",
		`{"responseTooManyFailedAttempts":{"httpStatusCode":429}}`:  "rate_limit",
		`{"responseStreamDisconnected":{"httpStatusCode":null}}`:    "network",
		`{"responseStreamConnectionFailed":{"httpStatusCode":503}}`: "overloaded",
		`{"activeTurnNotSteerable":{"turnKind":"review"}}`:          "bad_request",
		`{"one":{},"two":{}}`: "other",
	} {
		p := classify(wire.TurnError{Message: "it went wrong", Info: json.RawMessage(info), Details: "details"})
		if p.Kind != want || p.Hint == "" || p.Message != "it went wrong (details)" {
			t.Errorf("%s: %+v, want %s", info, p, want)
		}
	}
	for text, want := range map[string]string{
		"Missing environment variable: `MYKEY`.":                                                                          "auth",
		"stream disconnected before completion: idle timeout":                                                             "network",
		"no rollout found for thread id x":                                                                                "thread_missing",
		"thread x already has an active writer":                                                                           "thread_busy",
		"failed to load configuration: Model provider `nope` not found":                                                   "bad_request",
		"stream disconnected before completion: Incomplete response returned, reason: max_output_tokens":                  "other",
		"unexpected status 404 Not Found: no such page, url: http://x":                                                    "network",
		"You've hit your usage limit. Try again at 5 PM.":                                                                 "quota",
		"auth refresh request failed: code=-32000":                                                                        "auth",
		"stream disconnected before completion: error sending request for url (https://sandbox.example.com/v1/responses)": "network",
		"error sending request for url (https://bwrap.example.com/sandbox)":                                               "network",
		"sandbox denied exec error, exit code: 1, stdout: , stderr: ":                                                     "sandbox",
		"bwrap: Creating new namespace failed: Resource temporarily":                                                      "sandbox",
		"unexpected status 403 Forbidden: You are not allowed, url: http":                                                 "auth",
		"nobody has seen this one":                                                                                        "other",
	} {
		if p := classify(wire.TurnError{Message: text, Info: json.RawMessage(`"other"`)}); p.Kind != want {
			t.Errorf("%q: %s, want %s", text, p.Kind, want)
		}
	}
	for _, e := range protocol.Endings {
		if kind, hint := e.Kind, e.Hint; hint == "" || strings.ToLower(hint[:1]) != hint[:1] || strings.HasSuffix(hint, ".") {
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

func TestStderrOfADeadOrMuteCodexIsClassified(t *testing.T) {
	const stamp = "2026-11-28T18:00:00.1Z "
	for tail, want := range map[string]string{
		stamp + "ERROR codex_login::auth: Your access token could not be refreshed because your refresh token was revoked.":                 protocol.EndAuth,
		"Error: unexpected status 401 Unauthorized: , url: https://api.example/v1/responses":                                                protocol.EndAuth,
		stamp + "\x1b[31mERROR\x1b[0m codex_core: You've hit your usage limit. Try again later.":                                            protocol.EndQuota,
		"bwrap: Creating new namespace failed: Operation not permitted":                                                                     protocol.EndSandbox,
		"error: unexpected argument '--listen' found\n\nUsage: codex app-server [OPTIONS] [COMMAND]\n\nFor more information, try '--help'.": protocol.EndVersion,
		"error: unrecognized subcommand 'app-server'":                                                                                       protocol.EndVersion,
		"/opt/codex: /lib/libc.so.6: version `GLIBC_2.39' not found (required by /opt/codex)":                                               protocol.EndVersion,
		stamp + "ERROR codex_mcp: server desk: 401 Unauthorized":                                                                            "",
		stamp + " WARN codex_core: bwrap is old":                                                                                            "",
		"thread 'main' panicked at src/main.rs:1":                                                                                           "",
		"Error: rate limit reached":                     "", // passes; the turn's end tells of it
		"not logged in" + strings.Repeat("\nlater", 30): "",
		"": "",
	} {
		p := ExitProblem("exited with status 1", tail)
		if got := p.Kind; got != orWord(want, protocol.EndProcessExit) || want != "" && p.Hint != protocol.HintOf(want) {
			t.Errorf("%q: %+v, want %q", tail, p, want)
		}
		if p := ExitProblem("exited with status 137", tail); p.Kind != protocol.EndProcessExit {
			t.Errorf("%q of a killed codex: %+v", tail, p)
		}
		late := problem(protocol.EndRequestTimeout, "codex did not answer turn/start within 1m0s")
		p = TimeoutProblem(late, tail)
		if p.Kind != orWord(want, protocol.EndRequestTimeout) || !strings.HasPrefix(p.Message, late.Message) || want != "" && !strings.Contains(p.Message, "standard error says") {
			t.Errorf("%q of a mute codex: %+v", tail, p)
		}
	}
}
