package protocol

import (
	"time"
)

// An Ending is a reason why a turn or a session's conversation did not end well:
// its cause, and what an operator can do.
type Ending struct {
	Kind, Cause, Hint string
}

// The kinds that code branches on; Endings has all kinds.
const (
	EndAuth           = "auth"
	EndQuota          = "quota"
	EndRateLimit      = "rate_limit"
	EndOverloaded     = "overloaded"
	EndModelNotFound  = "model_not_found"
	EndProcessExit    = "process_exit"
	EndStartTimeout   = "start_timeout"
	EndRequestTimeout = "request_timeout"
	EndTurnTimeout    = "turn_timeout"
	EndSilent         = "silent"
	EndQuietAfterTool = "quiet_after_tool"
	EndOversize       = "oversize"
	EndBudget         = "budget"
	EndHostLost       = "host_lost"
	EndInterrupted    = "interrupted"
	EndOther          = "other"
)

// Endings are all kinds, in the order in which documents show them. There is no
// other list: ctl, workflows, documents and tests use this one.
var Endings = []Ending{
	{EndAuth, "the provider or the login service refused the credential (401, 403), or codex has none",
		"codex could not log in: see `ctl seed verify`, then import or capture the seed anew"},
	{EndQuota, "the account's usage limit is reached, or it has no credit left",
		"the account's usage limit is reached: wait for its reset (`--on-limit wait` does so by itself), add credit, or use a seed of another account"},
	{EndRateLimit, "the provider limits how many requests may come (429), and codex's own tries are used up",
		"the provider limits the rate of requests: send the message again in a while (`--on-limit wait` does so by itself), or run fewer sessions on this seed"},
	{EndOverloaded, "the provider has no capacity (503, 529), or codex's own queue is full",
		"codex or its provider is overloaded: wait a little and send the message again"},
	{"context_window", "the conversation is longer than the model can read",
		"the conversation no longer fits into the model's context: `ctl session compact` it, or go on in a new session"},
	{EndModelNotFound, "the provider does not know the model, or the account may not use it (404)",
		"the provider does not know the model or will not serve it: choose another one with `ctl session set ID --model M`"},
	{"bad_request", "the provider refused the request as malformed (400), or codex did",
		"the provider or codex refused the request as malformed: check the prompt's size and the settings in the seed's config.toml"},
	{"sandbox", "the host cannot confine commands as the session asks",
		"the host's sandbox does not work: run `ctl host check`, allow user namespaces there, or run the session with `--sandbox danger-full-access`"},
	{"network", "the provider cannot be reached, failed (500), or cut its answer off, and codex's own tries are used up",
		"codex could not reach its provider: check the network, proxy and base URL on the host (`ctl host exec`), then send the message again"},
	{"protocol", "codex said something that cannot be understood, or lost the turn",
		"codex said something that this version of fairlead does not understand: see `ctl transcript`, and compare the host's codex with `ctl status`"},
	{EndProcessExit, "codex's process ended on its own or was killed",
		"codex ended on its own: send a message, and the thread is resumed in a new process"},
	{EndStartTimeout, "codex was started and did not answer within --startup-timeout, or a session could not begin within --start-timeout",
		"codex did not answer after its start: look at the host's load with `ctl host exec`, or raise --startup-timeout; a message tries again"},
	{EndRequestTimeout, "codex did not answer a request, or take a message, within --request-timeout",
		"codex did not answer a request and was stopped: send a message, and the thread is resumed in a new process"},
	{EndTurnTimeout, "the turn took longer than --turn-timeout, not counting the time in which only a person was waited for",
		"the turn took longer than its limit and was stopped: raise it with `ctl session set ID --budget turn=D`, then send a message to go on"},
	{EndSilent, "codex said nothing for --silence-timeout, and gave no sign of life when asked for one",
		"codex gave no sign of life and was stopped: send a message, and the thread is resumed in a new process"},
	{EndQuietAfterTool, "a tool had ended, and the model said nothing for --quiet-timeout, although codex lives",
		"the model did not go on after a tool: see `ctl transcript` for what was done, then send a message to go on; raise --quiet-timeout for a model that thinks longer"},
	{EndOversize, "the line that says how the turn ended, or what codex opened, is longer than limits.line",
		"codex wrote a line that is too long to read: have it put large outputs into files, or raise limits.line in the workers' config; a message goes on"},
	{EndBudget, "the session or the turn used what it was given",
		"the turn needs more than its budget: raise it with `ctl session set ID --budget …`, and send a message to go on"},
	{"thread_missing", "the thread's rollout is not on the host, is archived, or lacks what it was forked from",
		"the thread's rollout is not in this CODEX_HOME: restore a snapshot that has it (`ctl snapshot list ID`); no new thread was begun"},
	{"thread_busy", "another codex process holds the thread",
		"another codex process holds the thread: end that process first (`ctl host exec`); no new thread was begun"},
	{EndHostLost, "the host could not be reached for --lost-after",
		"the host is out of reach: `ctl session resume ID` goes on on another host, from the newest snapshot"},
	{EndInterrupted, "somebody interrupted the turn, or the session was closed",
		"the turn was ended on purpose: send a message to go on"},
	{"version", "the host's codex is outside the versions that are supported, or lacks what the session needs",
		"provision the host with the pinned codex: `ctl host provision`"},
	{EndOther, "none of these",
		"read the message; `ctl transcript` says more"},
}

// HintOf returns what an operator can do about a kind.
func HintOf(kind string) string {
	for _, e := range Endings {
		if e.Kind == kind {
			return e.Hint
		}
	}
	return ""
}

// A Problem is a classified failure with a sentence for the operator.
type Problem struct {
	Kind    string `json:"kind"` // one of Endings
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"`
	// Passing says, for kind auth, that the credential may still be good: a newer
	// access token was late. For an activity that failed for good it says that waiting
	// may help.
	Passing bool `json:"passing,omitempty"`
	// ResetAt is when a limit ends, if that is known.
	ResetAt time.Time `json:"reset_at,omitzero"`
}

// EndingKinds are all kinds of endings of turns.
func EndingKinds() (kinds []string) {
	for _, e := range Endings {
		kinds = append(kinds, e.Kind)
	}
	return kinds
}
