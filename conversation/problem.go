package conversation

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"fairlead.dev/fairlead/conversation/wire"
	"fairlead.dev/fairlead/internal/protocol"
)

func problem(kind, message string) *protocol.Problem {
	return &protocol.Problem{Kind: kind, Message: message, Hint: protocol.HintOf(kind)}
}

func orProblem(p, or *protocol.Problem) *protocol.Problem {
	if p == nil {
		return or
	}
	return p
}

// cutProblem shortens p for a workflow; the transcript has all of it.
func cutProblem(p *protocol.Problem) *protocol.Problem {
	if p == nil {
		return p
	}
	text := wire.Excerpt(p.Message, maxProblem)
	if len(text) == len(p.Message) {
		return p
	}
	short := *p
	short.Message = text + " …"
	return &short
}

// kindOfInfo maps codexErrorInfo to kinds. HTTP status or wording tell apart causes that
// share a word.
var kindOfInfo = map[string]string{
	"contextWindowExceeded":       "context_window",
	"sessionBudgetExceeded":       "quota",
	"usageLimitExceeded":          "quota",
	"rateLimitExceeded":           "rate_limit",
	"flexUnavailable":             "overloaded",
	"serverOverloaded":            "overloaded",
	"policyCapacityUnavailable":   "overloaded",
	"modelNotFound":               protocol.EndModelNotFound,
	"unauthorized":                "auth",
	"badRequest":                  "bad_request",
	"sandboxError":                "sandbox",
	"internalServerError":         "network", // the provider's 500
	"cyberPolicy":                 "other",
	"misalignmentPolicyViolation": "other",
	"tooManyDenials":              "other",
	"inferenceHookDenied":         "other",
	"activeTurnNotSteerable":      "bad_request",
}

// classify makes a Problem of a failed turn's error. A specific error word decides, else
// the wording.
func classify(e wire.TurnError) *protocol.Problem {
	message := e.Message
	if e.Details != "" && !strings.Contains(message, e.Details) {
		message += " (" + e.Details + ")"
	}
	if p := tokenProblem(message); p != nil {
		return p
	}
	if p := gatewayProblem(message); p != nil {
		return p
	}
	word, status := errorInfo(e.Info)
	kind, known := kindOfInfo[word]
	switch {
	case status == 401 || status == 403:
		kind = "auth"
	case status == 429:
		kind = "rate_limit"
	case status == 404 && !known:
		kind = kindOfText("unexpected status 404 " + message)
	case status == 503 || status == 529:
		kind = "overloaded"
	case known:
	default:
		kind = kindOfText(message)
		if kind == "other" && (word == "httpConnectionFailed" || strings.HasPrefix(word, "responseStream") || word == "responseTooManyFailedAttempts") {
			kind = "network"
		}
	}
	p := problem(kind, message)
	if strings.Contains(message, tokenLateText) {
		p.Hint, p.Passing = tokenProblems[TokenLater][1], true
	}
	if word == "internalServerError" {
		p.Hint = "the provider failed: wait a little and send the message again"
	}
	return p
}

// errorInfo reads codexErrorInfo: a word, or an object with the word as its only name,
// which holds an HTTP status.
func errorInfo(raw json.RawMessage) (word string, status int) {
	if json.Unmarshal(raw, &word) == nil {
		return word, 0
	}
	var object map[string]json.RawMessage
	if json.Unmarshal(raw, &object) != nil {
		return "", 0
	}
	for word, inner := range object {
		var h struct {
			Status int `json:"httpStatusCode"`
		}
		_ = json.Unmarshal(inner, &h)
		if len(object) == 1 {
			return word, h.Status
		}
	}
	return "", 0
}

// wordings are tried in order in the lower-case text; the first match decides.
var wordings = []struct{ text, kind string }{
	{"is not a git repository", "bad_request"},
	{"no rollout found", "thread_missing"},
	{"missing source rollout", "thread_missing"},
	{"past the source rollout", "thread_missing"}, // a fork's parent is too short
	{"is archived", "thread_missing"},
	{"thread not found", "thread_missing"},
	{"thread not loaded", "thread_missing"},
	{"active writer", "thread_busy"},
	{"usage limit", "quota"},
	{"insufficient_quota", "quota"},
	{"exceeded your current quota", "quota"},
	{"rate limit", "rate_limit"},
	{"too many requests", "rate_limit"},
	{"server overloaded", "overloaded"},
	{"overloaded", "overloaded"},
	{"context window", "context_window"},
	{"context_length_exceeded", "context_window"},
	{"missing environment variable", "auth"},
	{"unauthorized", "auth"},
	{"unexpected status 401", "auth"}, // all that older versions say
	{"unexpected status 403", "auth"},
	{"auth refresh request", "auth"}, // the request failed or timed out
	{"not logged in", "auth"},
	{"refresh token", "auth"},
	{"invalid api key", "auth"},
	{"incorrect api key", "auth"},
	{"model provider", "bad_request"}, // it is not in config.toml
	{"model_not_found", protocol.EndModelNotFound},
	{"does not exist or you do not have access", protocol.EndModelNotFound},
	{"unexpected status 404", "network"},       // no word about the model: the address is wrong
	{"incomplete response", protocol.EndOther}, // older versions report a stream that was cut off
	{"input_too_large", "bad_request"},
	{"input exceeds", "bad_request"},
	{"invalid request", "bad_request"},
	{"invalid_request_error", "bad_request"},
	{"failed to load configuration", "bad_request"},
	{"stream disconnected", "network"},
	{"error sending request", "network"},
	{"connection refused", "network"},
	{"connection reset", "network"},
	{"dns error", "network"},
	{"bwrap", "sandbox"}, // after messages that may contain an address with this word
	{"codex-linux-sandbox", "sandbox"},
	{"sandbox denied", "sandbox"},
	{"sandbox error", "sandbox"},
	{"sandbox rules", "sandbox"}, // rules that Landlock cannot enforce
	{"seccomp", "sandbox"},
	{"timed out", "network"},
}

func kindOfText(text string) string {
	text = strings.ToLower(text)
	for _, w := range wordings {
		if strings.Contains(text, w.text) {
			return w.kind
		}
	}
	return "other"
}

func classifyAnswer(method string, e *wire.RPCError) *protocol.Problem {
	kind := kindOfText(e.Message)
	switch {
	case e.Code == wire.CodeOverloaded:
		kind = "overloaded"
	case e.Code == wire.CodeInvalidParams:
		kind = "bad_request"
	case strings.Contains(e.Message, "unknown variant"):
		kind = "protocol" // codex's code for an unknown method
	}
	return problem(kind, fmt.Sprintf("%s: %s", method, e.Message))
}

// ExitProblem describes a codex that ended on its own. how is e.g. "exited with status 1",
// tail the end of its standard error.
func ExitProblem(how, tail string) *protocol.Problem {
	tail = meaningful(tail)
	text := strings.ToLower(tail)
	p := problem(protocol.EndProcessExit, "codex ended ("+how+")")
	if gaveUp(how) {
		if kind := kindOfTail(tail); kind != "" {
			p = problem(kind, p.Message)
		}
	}
	switch {
	case p.Kind != protocol.EndProcessExit:
	case strings.Contains(text, "codex_home"), strings.Contains(text, "config.toml"), strings.Contains(text, "model provider"):
		p.Hint = "codex could not read its home or configuration: check the seed's config.toml"
	case strings.Contains(text, "no space left"):
		p.Hint = "the host's disk is full: make room, then send a message"
	case strings.Contains(text, "out of memory"), strings.Contains(text, "cannot allocate"), strings.Contains(how, "137"), strings.Contains(how, "killed"):
		p.Hint = "codex was killed, perhaps for want of memory: check the host's memory, then send a message"
	}
	if tail != "" {
		p.Message += ": " + lastLines(tail, 2<<10)
	}
	return p
}

// TimeoutProblem adds to a time-out what codex's standard error says. tail is its end.
func TimeoutProblem(p *protocol.Problem, tail string) *protocol.Problem {
	kind := kindOfTail(meaningful(tail))
	if p == nil || kind == "" {
		return p
	}
	why := problem(kind, p.Message+"; its standard error says: "+lastLines(meaningful(tail), 2<<10))
	return cutProblem(why)
}

var exitStatus = regexp.MustCompile(`status (\d+)$`)

// gaveUp reports whether codex itself ended, with a failure: no signal killed it.
func gaveUp(how string) bool {
	in := exitStatus.FindStringSubmatch(how)
	if in == nil {
		return false
	}
	n, err := strconv.Atoi(in[1])
	return err == nil && n > 0 && n <= 128
}

// tailKinds are the kinds of failures that standard error may show.
var tailKinds = []string{protocol.EndAuth, protocol.EndQuota, protocol.EndSandbox, protocol.EndVersion}

// versionWordings are messages of a loader or a program which show that the host's codex is
// not the expected one.
var versionWordings = []string{"unrecognized subcommand", "unexpected argument", "version `glibc_", "exec format error"}

// quieter finds lines that report no failure.
var quieter = regexp.MustCompile(`\b(WARN|WARNING|INFO|DEBUG|TRACE)\b`)

// kindOfTail returns the kind that the newest line about a failure shows, or "". What
// codex says of MCP servers is not about codex.
func kindOfTail(tail string) string {
	lines := strings.Split(tail, "\n")
	for i := len(lines) - 1; i >= max(len(lines)-maxTailLines, 0); i-- {
		text := strings.ToLower(lines[i])
		if quieter.MatchString(lines[i]) || strings.Contains(text, "mcp") {
			continue
		}
		if slices.ContainsFunc(versionWordings, func(w string) bool { return strings.Contains(text, w) }) {
			return protocol.EndVersion
		}
		if kind := kindOfText(text); slices.Contains(tailKinds, kind) {
			return kind
		}
	}
	return ""
}

// maxTailLines bounds how far back a failure is looked for.
const maxTailLines = 20

var colours = regexp.MustCompile("\x1b\\[[0-9;]*m")

// meaningful removes colours and the error that codex logs for each blank line of ours
// (which keeps torn lines apart).
func meaningful(tail string) string {
	var b strings.Builder
	for line := range strings.Lines(colours.ReplaceAllString(tail, "")) {
		if !strings.Contains(line, "EOF while parsing a value at line 1 column 0") {
			b.WriteString(line)
		}
	}
	return strings.TrimSpace(b.String())
}

func lastLines(text string, max int) string {
	if len(text) <= max {
		return text
	}
	text = text[len(text)-max:]
	if i := strings.IndexByte(text, '\n'); i >= 0 && i < len(text)-1 {
		text = text[i+1:]
	}
	return strings.ToValidUTF8(text, "")
}
