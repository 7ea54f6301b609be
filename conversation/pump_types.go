package conversation

import (
	"encoding/json"
	"time"

	"fairlead.dev/fairlead/internal/protocol"
)

// ThreadSpec says how a thread is set up. The pump sends all of it with every start and
// resume: codex does not restore the sandbox at a resume.
type ThreadSpec struct {
	CWD            string `json:"cwd"`
	Sandbox        string `json:"sandbox"`               // read-only, workspace-write, danger-full-access
	Permissions    string `json:"permissions,omitempty"` // a profile, sent in place of Sandbox
	ApprovalPolicy string `json:"approval_policy"`       // untrusted, on-request, never
	Model          string `json:"model,omitempty"`
	Effort         string `json:"effort,omitempty"`
	// Instructions are developer instructions. They are sent again at each resume and fork,
	// because codex begins a compacted history with them.
	Instructions string `json:"instructions,omitempty"`
	// Base replaces codex's own base instructions. A long text is in BaseBlob until the caller
	// of Run has read it. It is sent again at each resume and fork.
	Base     string `json:"base,omitempty"`
	BaseBlob string `json:"base_blob,omitempty"`
	// Personality is the model's tone: none, friendly, pragmatic.
	Personality string `json:"personality,omitempty"`
	// Mark is put into the environment of codex's commands (FAIRLEAD_SESSION).
	Mark string `json:"mark,omitempty"`
	// Proxy is the URL of the proxy by which codex's commands reach the network; empty means none.
	Proxy string `json:"proxy,omitempty"`
	// Name is told to codex after each opening.
	Name string `json:"name,omitempty"`
	// Tools names our tools. A thread gets them at its start and keeps them.
	Tools []string `json:"tools,omitempty"`
	// Verdict says that a person judges each file that the tool deliver took.
	Verdict bool `json:"verdict,omitempty"`
	// Children says in words which sessions the agent may start with the tools ChildTools.
	Children string `json:"children,omitempty"`
	// Team are the tools of a team. The caller of Run reads them.
	Team []protocol.TeamTool `json:"-"`
}

// PumpState is what a pump hands to the next one through the workflow. It is a pure
// function of the journal up to Cursor and of the inputs so far, with two exceptions: Named
// is also set for a name that codex did not answer in time, and Budget says how far a pump
// got with an interrupt.
type PumpState struct {
	Cursor protocol.Cursor `json:"cursor"`
	// Rewind, at most Cursor.Offset, is where the oldest line begins that a later pump may
	// need: of an open item that a request may need as context, of unfinished text, or of a
	// request that must be read again to be answered.
	Rewind int64 `json:"rewind"`
	Seq    int64 `json:"seq"`
	// ThreadID is the thread of this incarnation (see Opened), or of an earlier one.
	ThreadID   string `json:"thread_id,omitempty"`
	ForkedFrom string `json:"forked_from,omitempty"`
	// Opened is the incarnation whose handshake is complete.
	Opened int `json:"opened,omitempty"`
	// TurnID is the running turn; Turn its number from 1.
	TurnID string `json:"turn_id,omitempty"`
	Turn   int    `json:"turn,omitempty"`
	// Skipped counts the numbers that never became turns.
	Skipped   int `json:"skipped,omitempty"`
	TurnItems int `json:"turn_items,omitempty"`
	// TurnTools counts the tool calls of the turn that have ended. Touched names the
	// PumpInput.Watched of which the turn has changed a file.
	TurnTools int      `json:"turn_tools,omitempty"`
	Touched   []string `json:"touched,omitempty"`
	// TurnEffects says that a command, a file change or a tool may have had effects.
	TurnEffects bool `json:"turn_effects,omitempty"`
	// Usage is the session's total.
	Usage     protocol.Usage `json:"usage"`
	TurnUsage protocol.Usage `json:"turn_usage"`
	Open      []OpenRequest  `json:"open,omitempty"`
	// CodexVersion is from initialize's userAgent.
	CodexVersion string `json:"codex_version,omitempty"`
	// Model and Provider are from the answer that opened the thread.
	Model    string `json:"model,omitempty"`
	Provider string `json:"provider,omitempty"`
	// FinalText is the turn's agent messages, cut at 32 KiB.
	FinalText      string `json:"final_text,omitempty"`
	FinalTruncated bool   `json:"final_truncated,omitempty"`

	// FinalAt is the offset of the newest message. Structured says that the turn has an
	// output schema.
	FinalAt    int  `json:"final_at,omitempty"`
	Structured bool `json:"structured,omitempty"`
	// RateLimits and Context are the last reported values, or nil.
	RateLimits *protocol.RateLimits `json:"rate_limits,omitempty"`
	Context    *protocol.ContextUse `json:"context,omitempty"`

	// The remaining fields are the pump's own; a workflow only carries them.

	// Items are the unfinished items, oldest first, at most maxOpenItems. Commands may
	// outlive their turn.
	Items    []OpenItem     `json:"items,omitempty"`
	Total    protocol.Usage `json:"total"`
	DiffStat string         `json:"diff_stat,omitempty"`
	// Diffed is the turn and digest of the diff that the DiffSink last got.
	Diffed        string `json:"diffed,omitempty"`
	TurnStartedMS int64  `json:"turn_started_ms,omitempty"`
	// AtMS is the newest time in the journal. Lines without a time get this one.
	AtMS int64 `json:"at_ms,omitempty"`
	// Budget says how far the interrupt of a turn that exceeds the budget got; empty while
	// the turn is within the budget. Spent has the counts for the budget that no other
	// field has.
	Budget protocol.DeliveryState `json:"budget,omitempty"`
	Spent  Spent                  `json:"spent,omitzero"`
	// Trimmed counts the bytes at the journal's beginning that the host's file system got
	// back. Untrimmable says that the host cannot do that.
	Trimmed     int64 `json:"trimmed,omitempty"`
	Untrimmable bool  `json:"untrimmable,omitempty"`
	// Stray says that the last line was no message. A run of such lines makes one entry.
	Stray bool `json:"stray,omitempty"`
	// Login is the generation of the token that codex has from a broker. TokenAsks are
	// codex's requests for a newer token that are not known to be answered; Account is the
	// account that the last of them named.
	Login     int64             `json:"login,omitempty"`
	TokenAsks []json.RawMessage `json:"token_asks,omitempty"`
	Account   string            `json:"account,omitempty"`
	Calls     []OpenCall        `json:"calls,omitempty"`
	// Progress is the model's last report, cleared when a turn begins.
	Progress *protocol.Progress `json:"progress,omitempty"`
	// Notices are codex's reports beside the items, and Agents its sub-agents, oldest
	// first, at most maxAgents.
	Notices Noticed       `json:"notices,omitzero"`
	Agents  []AgentThread `json:"agents,omitempty"`
	// Finish is the agent's newest word on how the running turn ends.
	Finish *protocol.Finish `json:"finish,omitempty"`
	// Idle says that codex reports the thread idle during the turn.
	Idle  bool  `json:"idle,omitempty"`
	Tally Tally `json:"tally,omitzero"`
	// ToolEnded says that a tool has ended and the model has been silent since.
	ToolEnded bool `json:"tool_ended,omitempty"`
	// Begins is the Send that codex accepted without naming its turn yet. Named is the
	// thread name that this process has.
	Begins string `json:"begins,omitempty"`
	Named  string `json:"named,omitempty"`
	// Inner is the reviewer's turn within the running review, which an interrupt must name.
	Inner string `json:"inner,omitempty"`
	// Interrupted says that codex accepted an interrupt of the turn.
	Interrupted bool `json:"interrupted,omitempty"`
	// Retrying is why codex tries again to reach the model, or "".
	Retrying string `json:"retrying,omitempty"`
	// RetryingMS is when codex began to try again, in the journal's time, with no
	// progress since; 0 if unknown.
	RetryingMS int64 `json:"retrying_ms,omitempty"`
	// Foreign says that codex began the turn by itself (see foreign.go).
	Foreign bool `json:"foreign,omitempty"`
	// Unsaid says that no entry records yet that the turn is foreign.
	Unsaid bool `json:"unsaid,omitempty"`
	// Restless says that codex may begin turns by itself: it has a goal or sub-agents, or
	// has begun a turn before.
	Restless bool `json:"restless,omitempty"`
}

// An OpenItem is an unfinished item.
type OpenItem struct {
	ID   string `json:"id"`
	Type string `json:"type"`
	Turn int    `json:"turn"`
	// Offset is where the item/started line begins.
	Offset int64 `json:"offset"`
	// Pos counts the bytes of its deltas.
	Pos int64 `json:"pos,omitempty"`
	// Held counts the last bytes that no viewer saw, because they may begin a secret (see
	// heldback.go).
	Held int64 `json:"held,omitempty"`
	// Kept is where the kept text begins, and Half its newer half (see unfinished.go).
	Kept int64 `json:"kept,omitempty"`
	Half int64 `json:"half,omitempty"`
	// Thread is set for a sub-agent's item.
	Thread string `json:"thread,omitempty"`
	// CWD is set for a command that runs elsewhere than in the thread's folder.
	CWD string `json:"cwd,omitempty"`
	// Background says that the model did not wait for the item's end.
	Background bool `json:"background,omitempty"`
	// Call identifies an MCP tool call until codex asks about it (see requests_tool.go).
	Call string `json:"call,omitempty"`
	// Reports counts the progress reports of an MCP tool call. Report is the newest one if
	// no entry has it.
	Reports int    `json:"reports,omitempty"`
	Report  string `json:"report,omitempty"`
}

// An OpenRequest is a request that codex waits for.
type OpenRequest struct {
	RPC      json.RawMessage `json:"rpc"`
	Reported bool            `json:"reported,omitempty"` // the workflow knows it
	Item     string          `json:"item,omitempty"`
	Thread   string          `json:"thread,omitempty"` // as in OpenItem
	TurnID   string          `json:"turn_id,omitempty"`
	// At is where the request's line begins, if later pumps must read it to answer. Bulk is
	// the size of the part that cannot be cut.
	At   int64 `json:"at,omitempty"`
	Bulk int   `json:"bulk,omitempty"`
	// Remembers says that codex would remember exactly this request if told to accept for
	// its session.
	Remembers bool `json:"remembers,omitempty"`
	// OfTool says that codex itself asks whether a tool may be called.
	OfTool bool `json:"of_tool,omitempty"`
	// Decided says that Tally counted a person's decision. Judged is a policy's answer.
	Decided bool  `json:"decided,omitempty"`
	Judged  *Send `json:"judged,omitempty"`
}

// PumpInput is the input of a pump. Times come from the workflow, so that attempts write
// the same transcript.
type PumpInput struct {
	Session string    `json:"session"`
	State   PumpState `json:"state"`
	// Thread is used until the incarnation is opened. It is resumed if State.ThreadID and
	// Resume are set, and otherwise started.
	Thread ThreadSpec `json:"thread"`
	Resume bool       `json:"resume,omitempty"`
	// Fork opens a fork of State.ThreadID. It may stay set: once State.ForkedFrom is set,
	// the thread is resumed.
	Fork bool `json:"fork,omitempty"`
	// Tell is for the next turn. Deliveries report its state under its ID. The workflow
	// gives it to the next pump only while that state is Decided.
	Tell  *Tell  `json:"tell,omitempty"`
	Sends []Send `json:"sends,omitempty"`
	// NextTurn is the number for a foreign turn; 0 means the one after State.Turn.
	NextTurn int    `json:"next_turn,omitempty"`
	Notes    []Note `json:"notes,omitempty"`
	// Prefix makes the ids of our requests unique for ever (e.g. "g1.p7"). A pump that
	// takes over from one without a result gets the same prefix, so that it finds that
	// pump's answers in the journal, above all the started thread. Again counts the pumps
	// that took over, from 1.
	Prefix string `json:"prefix"`
	Again  int    `json:"again,omitempty"`
	Limits Limits `json:"limits"`
	// Policy is the SHA-256 of the policy file (hex); empty means that people decide
	// everything.
	Policy string `json:"policy,omitempty"`
	// Amend allows amendments of the codex home's rules to be offered.
	Amend bool `json:"amend,omitempty"`
	// Models asks for the models even without an opening, which always asks.
	Models bool `json:"models,omitempty"`
	// Watched are the files of which TurnEnd.Touched tells, by name.
	Watched []WatchedFiles `json:"watched,omitempty"`
}

// WatchedFiles are those below the work folder that match one of the patterns (see
// protocol.FollowUp).
type WatchedFiles struct {
	Name     string   `json:"name"`
	Patterns []string `json:"patterns"`
}

// A Tell is a developer message that reaches a thread at most once and begins no turn. ID
// is unique for ever.
type Tell struct {
	ID   string `json:"id"`
	Text string `json:"text"`
	// Incarnation is the process that may already have the message, because a pump returned
	// no result; 0 if there is none.
	Incarnation int `json:"incarnation,omitempty"`
}

// Limits of a pump; zero means the default, given below.
type Limits struct {
	Settle  time.Duration `json:"settle,omitempty"`  // quiet time before open requests are reported; 100 ms
	Request time.Duration `json:"request,omitempty"` // answer to one of our requests; 60 s
	StartUp time.Duration `json:"startup,omitempty"` // answer to initialize; 60 s
	Turn    time.Duration `json:"turn,omitempty"`    // whole turn, without waiting for people; 24 h
	Attach  time.Duration `json:"attach,omitempty"`  // longest stay of one pump; 12 h
	Silence time.Duration `json:"silence,omitempty"` // of a running turn before codex is asked for a sign of life; 2 min
	Quiet   time.Duration `json:"quiet,omitempty"`   // of the model after a tool has ended; 30 min, negative means no limit
	Retry   time.Duration `json:"retry,omitempty"`   // of a turn in which codex only tries again to reach its provider; 30 min, negative means no limit
	Line    int           `json:"line,omitempty"`    // longest line in bytes; 32 MiB
	Excerpt int           `json:"excerpt,omitempty"` // longest text inside a result; 8 KiB
	// Bytes bounds the journal that one pump folds; 256 MiB. The pump then returns Bound.
	Bytes int64 `json:"bytes,omitempty"`
	// Budget bounds the session. The pump interrupts a turn that exceeds it.
	Budget protocol.Bounds `json:"budget,omitzero"`
}

// SendKind is the kind of a Send.
type SendKind string

const (
	SendTurn      SendKind = "turn"      // turn/start with Text
	SendSteer     SendKind = "steer"     // turn/steer of the running turn with Text
	SendDecision  SendKind = "decision"  // answer to the request RPC
	SendInterrupt SendKind = "interrupt" // turn/interrupt
)

// A Send is one message for codex. ID is unique for ever.
type Send struct {
	ID   string   `json:"id"`
	Kind SendKind `json:"kind"`
	Text string   `json:"text,omitempty"`
	// Blob names a long text in the store; the caller of Run fills Text from it.
	Blob   string           `json:"blob,omitempty"`
	Inputs []protocol.Input `json:"inputs,omitempty"`
	// Schema is the output schema; SchemaBlob names a long one in the store.
	Schema     json.RawMessage `json:"schema,omitempty"`
	SchemaBlob string          `json:"schema_blob,omitempty"`
	// Unsayable says what the message lacks. The pump rejects the message with this reason,
	// unless codex already has it.
	Unsayable string `json:"-"`
	// Turn is the number that the turn will have, or of the turn to steer.
	Turn int `json:"turn,omitempty"`
	// Do is the act of a turn without text. Review is set if Do is ActReview.
	Do     protocol.Act     `json:"do,omitempty"`
	Review *protocol.Review `json:"review,omitempty"`
	Model  string           `json:"model,omitempty"`
	Effort string           `json:"effort,omitempty"`
	// RPC and Incarnation name the request that a decision answers. RequestKind decides the
	// answer's shape if Method is empty. For an uncertain message that begins a turn,
	// Incarnation is the process that may have it.
	RPC         json.RawMessage      `json:"rpc,omitempty"`
	Incarnation int                  `json:"incarnation,omitempty"`
	RequestKind protocol.RequestKind `json:"request_kind,omitempty"`
	// Method is Request.Method and decides the answer's shape.
	Method     string           `json:"method,omitempty"`
	Outcome    protocol.Outcome `json:"outcome,omitempty"`
	ForSession bool             `json:"for_session,omitempty"`
	// Answers are by question id (Outcome Answer). A field of an elicitation's form counts
	// as a question whose id is the field's name.
	Answers map[string][]string `json:"answers,omitempty"`
	// AnswersBlob names Answers in the store if one is secret; the caller of Run fills
	// Answers from it and tells its Redactor.
	AnswersBlob string `json:"answers_blob,omitempty"`
	// Grant is the granted part of the permissions, in codex's shape (Outcome Grant);
	// Accept grants all.
	Grant json.RawMessage `json:"grant,omitempty"`
	// Reason goes to the model if codex's answer has a field for it.
	Reason string `json:"reason,omitempty"`
	// Verdict is the decision on a request of KindDeliverable.
	Verdict *protocol.FileVerdict `json:"verdict,omitempty"`
	// Uncertain says that an earlier pump may have sent the message.
	Uncertain bool `json:"uncertain,omitempty"`
}

// A Note is an entry of the workflow's. Notes with one ID are one entry.
type Note struct {
	ID   string             `json:"id"`
	Type protocol.EntryType `json:"type"` // decision, state, error
	At   time.Time          `json:"at"`
	Turn int                `json:"turn,omitempty"`
	Text string             `json:"text,omitempty"`
	// Data holds further fields, e.g. approval, outcome, by.
	Data map[string]string `json:"data,omitempty"`
}

// PumpReason is why a pump returned.
type PumpReason string

const (
	TurnEnded     PumpReason = "turn_ended"
	RequestsOpen  PumpReason = "requests" // codex waits for a decision
	ProcessEnded  PumpReason = "process_ended"
	PumpCancelled PumpReason = "cancelled"
	Bound         PumpReason = "bound"      // Limits.Attach or Limits.Bytes reached, nothing left to do, or codex withdrew requests
	Overloaded    PumpReason = "overloaded" // codex accepts no messages; Sends still Decided had no effects
	TurnBegun     PumpReason = "turn_begun" // codex began a turn by itself; State names it
	TimedOut      PumpReason = "timed_out"  // Problem says which limit was exceeded
	Refused       PumpReason = "refused"    // codex refused the handshake or thread; Problem says why
)

// PumpResult is the result of a pump.
type PumpResult struct {
	Reason     PumpReason          `json:"reason"`
	State      PumpState           `json:"state"`
	Deliveries []protocol.Delivery `json:"deliveries,omitempty"`
	// Requests are newly reported. Resolved are the RPC ids of known requests that are no
	// longer open.
	Requests []protocol.Request `json:"requests,omitempty"`
	Resolved []json.RawMessage  `json:"resolved,omitempty"`
	// Judged are the newest requests that a policy answered. Only the newest 20 have a summary
	// and the policy.
	Judged []protocol.Judged `json:"judged,omitempty"`
	// Busy says that other items of the turn run while requests wait.
	Busy bool `json:"busy,omitempty"`
	// Turn is set when Reason is TurnEnded.
	Turn *TurnEnd `json:"turn,omitempty"`
	// Begun says that codex began another turn, for the next pump.
	Begun bool `json:"begun,omitempty"`
	// Waited is how long the turn waited only for people, since the input was first due.
	Waited  time.Duration      `json:"waited,omitempty"`
	Models  protocol.ModelList `json:"models,omitzero"`
	Problem *protocol.Problem  `json:"problem,omitempty"`
}

// TurnEnd is how a turn ended. Status is codex's word (completed, interrupted, failed) or
// "unknown".
type TurnEnd struct {
	N              int               `json:"n"`
	ID             string            `json:"id"`
	Status         string            `json:"status"`
	FinalText      string            `json:"final_text"`
	FinalTruncated bool              `json:"final_truncated,omitempty"`
	Items          int               `json:"items"`
	Usage          protocol.Usage    `json:"usage"`
	DiffStat       string            `json:"diff_stat,omitempty"`
	Problem        *protocol.Problem `json:"problem,omitempty"`
	// FinalAt is the offset of the last message in FinalText, which is JSON if Structured.
	FinalAt    int  `json:"final_at,omitempty"`
	Structured bool `json:"structured,omitempty"`
	Effects    bool `json:"effects,omitempty"`
	// Tools counts the tool calls. Touched names the PumpInput.Watched of which a file changed.
	// Run sets those that codex itself edited.
	Tools   int      `json:"tools,omitempty"`
	Touched []string `json:"touched,omitempty"`
	// Foreign says that codex began the turn by itself and took no Send into it.
	Foreign bool `json:"foreign,omitempty"`
	// Finish is what the agent declared, or nil. If it declared the turn failed, Status
	// is failed although codex says completed.
	Finish      *protocol.Finish `json:"finish,omitempty"`
	StartedAtMS int64            `json:"started_at_ms,omitempty"`
	EndedAtMS   int64            `json:"ended_at_ms,omitempty"`
}
