package wire

import (
	"encoding/json"

	"fairlead.dev/fairlead/internal/protocol"
)

// The methods that we use.
const (
	MethodInitialize  = "initialize"
	MethodInitialized = "initialized"
	MethodAccountRead = "account/read"
	MethodModelList   = "model/list"
	MethodStart       = "thread/start"
	MethodResume      = "thread/resume"
	MethodFork        = "thread/fork"
	MethodInject      = "thread/inject_items"
	MethodRead        = "thread/read"
	MethodTurns       = "thread/turns/list"
	MethodTurnStart   = "turn/start"
	MethodTurnSteer   = "turn/steer"
	MethodInterrupt   = "turn/interrupt"
	MethodClean       = "thread/backgroundTerminals/clean"
	MethodCompact     = "thread/compact/start"
	MethodReview      = "review/start"
	MethodName        = "thread/name/set"
)

// InitializeParams are the parameters of initialize.
type InitializeParams struct {
	ClientInfo   ClientInfo   `json:"clientInfo"`
	Capabilities capabilities `json:"capabilities"`
}

type capabilities struct {
	ExperimentalAPI bool `json:"experimentalApi"`
}

// ThreadParams are the parameters of thread/start, thread/resume and thread/fork. Sandbox
// and Permissions exclude each other.
type ThreadParams struct {
	ThreadID       string         `json:"threadId,omitempty"`     // resume, fork
	ExcludeTurns   bool           `json:"excludeTurns,omitempty"` // resume, fork
	CWD            string         `json:"cwd"`
	ApprovalPolicy string         `json:"approvalPolicy"`
	Sandbox        string         `json:"sandbox,omitempty"`
	Permissions    string         `json:"permissions,omitempty"`
	Model          string         `json:"model,omitempty"`
	Instructions   string         `json:"developerInstructions,omitempty"`
	Base           string         `json:"baseInstructions,omitempty"`
	Personality    string         `json:"personality,omitempty"` // start, resume
	Config         map[string]any `json:"config,omitempty"`
	Tools          []ToolSpec     `json:"dynamicTools,omitempty"` // start
}

// TextInput is a text in a turn's input.
type TextInput struct {
	Type string `json:"type"` // text; input_text in an item
	Text string `json:"text"`
}

// TurnStartParams are the parameters of turn/start.
type TurnStartParams struct {
	ThreadID    string          `json:"threadId"`
	Input       []InputItem     `json:"input"`
	MessageID   string          `json:"clientUserMessageId"`
	Model       string          `json:"model,omitempty"`
	Effort      string          `json:"effort,omitempty"`
	Personality string          `json:"personality,omitempty"`
	Schema      json.RawMessage `json:"outputSchema,omitempty"`
}

// TurnSteerParams are the parameters of turn/steer.
type TurnSteerParams struct {
	ThreadID  string      `json:"threadId"`
	TurnID    string      `json:"expectedTurnId"`
	Input     []InputItem `json:"input"`
	MessageID string      `json:"clientUserMessageId"`
}

// TurnInterruptParams are the parameters of turn/interrupt.
type TurnInterruptParams struct {
	ThreadID string `json:"threadId"`
	TurnID   string `json:"turnId"`
}

// ThreadReadParams are the parameters of thread/read.
type ThreadReadParams struct {
	ThreadID     string `json:"threadId"`
	IncludeTurns bool   `json:"includeTurns"`
}

// TurnsListParams are the parameters of thread/turns/list.
type TurnsListParams struct {
	ThreadID  string `json:"threadId"`
	Limit     int    `json:"limit"` // the newest ones
	ItemsView string `json:"itemsView"`
}

// ThreadIDParams are the parameters of methods that take only a thread.
type ThreadIDParams struct {
	ThreadID string `json:"threadId"`
}

// ThreadAnswer answers thread/start, thread/resume and thread/fork.
type ThreadAnswer struct {
	Thread struct {
		ID         string `json:"id"`
		CLIVersion string `json:"cliVersion"`
	} `json:"thread"`
	ThreadID  string `json:"threadId"`
	SessionID string `json:"sessionId"`
	Model     string `json:"model"`
	Provider  string `json:"modelProvider"`
}

// AccountAnswer answers account/read.
type AccountAnswer struct {
	Account            json.RawMessage `json:"account"`
	RequiresOpenAIAuth bool            `json:"requiresOpenaiAuth"`
}

// TurnAnswer answers turn/start and turn/steer.
type TurnAnswer struct {
	Turn   Turn   `json:"turn"`
	TurnID string `json:"turnId"` // turn/steer
}

// Turn is a turn as codex describes it.
type Turn struct {
	ID          string     `json:"id"`
	Status      string     `json:"status"`
	Error       *TurnError `json:"error"`
	StartedAt   int64      `json:"startedAt"`   // seconds
	CompletedAt int64      `json:"completedAt"` // seconds
}

// TurnError is why codex ended a turn.
type TurnError struct {
	Message string          `json:"message"`
	Info    json.RawMessage `json:"codexErrorInfo"`
	Details string          `json:"additionalDetails"`
}

// Change is the change of one file.
type Change struct {
	Path string `json:"path"`
	Kind struct {
		Type     string `json:"type"`
		MovePath string `json:"move_path"`
	} `json:"kind"`
	Diff string `json:"diff"`
}

// Item is an item of any type, which decides which members are set.
type Item struct {
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
	Changes  []Change        `json:"changes"`
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

// Notice is what most notifications share.
type Notice struct {
	ThreadID string `json:"threadId"`
	TurnID   string `json:"turnId"`
	ItemID   string `json:"itemId"`
}

// ItemNotice tells of one item.
type ItemNotice struct {
	Notice
	Item          Item  `json:"item"`
	StartedAtMS   int64 `json:"startedAtMs"`
	CompletedAtMS int64 `json:"completedAtMs"`
}

// DeltaNotice has streamed text.
type DeltaNotice struct {
	Notice
	Delta string `json:"delta"`
}

type tokens struct {
	Input  int64 `json:"inputTokens"`
	Output int64 `json:"outputTokens"`
	Cached int64 `json:"cachedInputTokens"`
	All    int64 `json:"totalTokens"`
}

func (t tokens) Usage() protocol.Usage {
	return protocol.Usage{Input: t.Input, Output: t.Output, Cached: t.Cached}
}

// UsageNotice tells a thread's token use.
type UsageNotice struct {
	Notice
	Usage struct {
		Total tokens `json:"total"`
		Last  tokens `json:"last"`
		// Window is the context window; 0 if codex does not know it.
		Window int64 `json:"modelContextWindow"`
	} `json:"tokenUsage"`
}

// ErrorNotice tells of an error in a turn.
type ErrorNotice struct {
	Notice
	Error     TurnError `json:"error"`
	WillRetry bool      `json:"willRetry"`
}

// ResolvedNotice says that a request needs no answer any more.
type ResolvedNotice struct {
	RequestID json.RawMessage `json:"requestId"`
}

// TurnNotice tells of a turn's start or end.
type TurnNotice struct {
	ThreadID string `json:"threadId"`
	TurnID   string `json:"turnId"`
	Turn     Turn   `json:"turn"`
}

// StatusNotice tells a thread's status.
type StatusNotice struct {
	ThreadID string `json:"threadId"`
	Status   struct {
		Type string `json:"type"`
	} `json:"status"`
}

// WarningNotice has a text for people.
type WarningNotice struct {
	ThreadID string `json:"threadId"`
	Message  string `json:"message"`
	Summary  string `json:"summary"`
	Details  string `json:"details"`
}

// InputItem is a part of a user message.
type InputItem struct {
	Type string `json:"type"`
	Text string `json:"text,omitempty"`
	Path string `json:"path,omitempty"`
}

// ToolSpec describes a tool of ours.
type ToolSpec struct {
	Type        string          `json:"type"` // function
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Schema      json.RawMessage `json:"inputSchema"`
}
