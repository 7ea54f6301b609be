package conversation

import (
	"encoding/json"

	"fairlead.dev/fairlead/internal/protocol"
)

// The methods that we use, and the shapes that we send. All other parts of codex's messages
// stay raw.
const (
	methodInitialize  = "initialize"
	methodInitialized = "initialized"
	methodAccountRead = "account/read"
	methodModelList   = "model/list"
	methodStart       = "thread/start"
	methodResume      = "thread/resume"
	methodFork        = "thread/fork"
	methodInject      = "thread/inject_items"
	methodRead        = "thread/read"
	methodTurns       = "thread/turns/list"
	methodTurnStart   = "turn/start"
	methodTurnSteer   = "turn/steer"
	methodInterrupt   = "turn/interrupt"
	methodClean       = "thread/backgroundTerminals/clean"
	methodCompact     = "thread/compact/start"
	methodReview      = "review/start"
	methodName        = "thread/name/set"
)

type initializeParams struct {
	ClientInfo   ClientInfo   `json:"clientInfo"`
	Capabilities capabilities `json:"capabilities"`
}

type capabilities struct {
	ExperimentalAPI bool `json:"experimentalApi"`
}

// threadParams serves thread/start, thread/resume and thread/fork. Sandbox and
// Permissions exclude each other.
type threadParams struct {
	ThreadID       string         `json:"threadId,omitempty"`     // resume, fork
	ExcludeTurns   bool           `json:"excludeTurns,omitempty"` // resume, fork
	CWD            string         `json:"cwd"`
	ApprovalPolicy string         `json:"approvalPolicy"`
	Sandbox        string         `json:"sandbox,omitempty"`
	Permissions    string         `json:"permissions,omitempty"`
	Model          string         `json:"model,omitempty"`
	Instructions   string         `json:"developerInstructions,omitempty"`
	Personality    string         `json:"personality,omitempty"` // start, resume
	Config         map[string]any `json:"config,omitempty"`
	Tools          []toolSpec     `json:"dynamicTools,omitempty"` // start
}

type textInput struct {
	Type string `json:"type"` // text; input_text in an item
	Text string `json:"text"`
}

type turnStartParams struct {
	ThreadID    string          `json:"threadId"`
	Input       []inputItem     `json:"input"`
	MessageID   string          `json:"clientUserMessageId"`
	Model       string          `json:"model,omitempty"`
	Effort      string          `json:"effort,omitempty"`
	Personality string          `json:"personality,omitempty"`
	Schema      json.RawMessage `json:"outputSchema,omitempty"`
}

type turnSteerParams struct {
	ThreadID  string      `json:"threadId"`
	TurnID    string      `json:"expectedTurnId"`
	Input     []inputItem `json:"input"`
	MessageID string      `json:"clientUserMessageId"`
}

type turnInterruptParams struct {
	ThreadID string `json:"threadId"`
	TurnID   string `json:"turnId"`
}

type threadReadParams struct {
	ThreadID     string `json:"threadId"`
	IncludeTurns bool   `json:"includeTurns"`
}

type turnsListParams struct {
	ThreadID  string `json:"threadId"`
	Limit     int    `json:"limit"` // the newest ones
	ItemsView string `json:"itemsView"`
}

type threadIDParams struct {
	ThreadID string `json:"threadId"`
}

// The parts of codex's messages that we read.

type threadAnswer struct {
	Thread struct {
		ID         string `json:"id"`
		CLIVersion string `json:"cliVersion"`
	} `json:"thread"`
	Model    string `json:"model"`
	Provider string `json:"modelProvider"`
}

type accountAnswer struct {
	Account            json.RawMessage `json:"account"`
	RequiresOpenAIAuth bool            `json:"requiresOpenaiAuth"`
}

type turnAnswer struct {
	Turn   wireTurn `json:"turn"`
	TurnID string   `json:"turnId"` // turn/steer
}

type wireTurn struct {
	ID          string     `json:"id"`
	Status      string     `json:"status"`
	Error       *turnError `json:"error"`
	StartedAt   int64      `json:"startedAt"`   // seconds
	CompletedAt int64      `json:"completedAt"` // seconds
}

type turnError struct {
	Message string          `json:"message"`
	Info    json.RawMessage `json:"codexErrorInfo"`
	Details string          `json:"additionalDetails"`
}

type wireChange struct {
	Path string `json:"path"`
	Kind struct {
		Type     string `json:"type"`
		MovePath string `json:"move_path"`
	} `json:"kind"`
	Diff string `json:"diff"`
}

// A wireItem is an item of any type; the type decides which members are set.
type wireItem struct {
	ID       string          `json:"id"`
	Type     string          `json:"type"`
	ClientID string          `json:"clientId"`
	Text     string          `json:"text"`
	Content  json.RawMessage `json:"content"`
	Summary  []string        `json:"summary"`
	Command  string          `json:"command"`
	CWD      string          `json:"cwd"`
	Output   string          `json:"aggregatedOutput"`
	ExitCode *int            `json:"exitCode"`
	Status   string          `json:"status"`
	Changes  []wireChange    `json:"changes"`
	Server   string          `json:"server"`
	Space    string          `json:"namespace"`
	Tool     string          `json:"tool"`
	Args     json.RawMessage `json:"arguments"`
	Result   json.RawMessage `json:"result"`
	Items    json.RawMessage `json:"contentItems"`
	Error    json.RawMessage `json:"error"`
	Query    string          `json:"query"`
	Path     string          `json:"path"`
	Review   string          `json:"review"`
}

// notice holds the members that most notifications share.
type notice struct {
	ThreadID string `json:"threadId"`
	TurnID   string `json:"turnId"`
	ItemID   string `json:"itemId"`
}

type itemNotice struct {
	notice
	Item          wireItem `json:"item"`
	StartedAtMS   int64    `json:"startedAtMs"`
	CompletedAtMS int64    `json:"completedAtMs"`
}

type deltaNotice struct {
	notice
	Delta string `json:"delta"`
}

type tokens struct {
	Input  int64 `json:"inputTokens"`
	Output int64 `json:"outputTokens"`
	Cached int64 `json:"cachedInputTokens"`
	All    int64 `json:"totalTokens"`
}

func (t tokens) usage() protocol.Usage {
	return protocol.Usage{Input: t.Input, Output: t.Output, Cached: t.Cached}
}

type usageNotice struct {
	notice
	Usage struct {
		Total tokens `json:"total"`
		Last  tokens `json:"last"`
		// Window is the model's context window; 0 if codex does not know it.
		Window int64 `json:"modelContextWindow"`
	} `json:"tokenUsage"`
}

type errorNotice struct {
	notice
	Error     turnError `json:"error"`
	WillRetry bool      `json:"willRetry"`
}

type resolvedNotice struct {
	RequestID json.RawMessage `json:"requestId"`
}

type turnNotice struct {
	ThreadID string   `json:"threadId"`
	TurnID   string   `json:"turnId"`
	Turn     wireTurn `json:"turn"`
}

type statusNotice struct {
	ThreadID string `json:"threadId"`
	Status   struct {
		Type string `json:"type"`
	} `json:"status"`
}

type warningNotice struct {
	ThreadID string `json:"threadId"`
	Message  string `json:"message"`
	Summary  string `json:"summary"`
	Details  string `json:"details"`
}
