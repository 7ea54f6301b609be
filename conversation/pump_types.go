package conversation

import (
	"encoding/json"
	"time"

	"fairlead.dev/fairlead/internal/protocol"
)

// ThreadSpec says how a thread is set up. The pump sends all of it with every start and
// every resume, because codex does not restore the sandbox at a resume.
type ThreadSpec struct {
	CWD            string `json:"cwd"`
	Sandbox        string `json:"sandbox"`               // read-only, workspace-write, danger-full-access
	Permissions    string `json:"permissions,omitempty"` // permission profile, sent in place of Sandbox
	ApprovalPolicy string `json:"approval_policy"`       // untrusted, on-request, never
	Model          string `json:"model,omitempty"`
	Effort         string `json:"effort,omitempty"`
	// Instructions are developer instructions. codex keeps them in the thread's
	// history. They are sent again at each resume and fork, because codex begins the
	// history with them when it compacts the thread.
	Instructions string `json:"instructions,omitempty"`
	// Personality is codex's word for the model's tone: none, friendly, pragmatic.
	Personality string `json:"personality,omitempty"`
	// Mark is put into the environment of codex's commands (FAIRLEAD_SESSION).
	Mark string `json:"mark,omitempty"`
	// Name is the name that people gave the thread; codex is told it after each
	// opening.
	Name string `json:"name,omitempty"`
	// Tools names our tools that the model may call (see Tools). A thread gets them at
	// its start and keeps them.
	Tools []string `json:"tools,omitempty"`
}

// PumpState is the state that a pump hands to the next one through the workflow. It stays
// small. It is a pure function of the journal up to Cursor and of the inputs so far, with
// two exceptions. Named is also set for a name that codex did not answer in time. Budget
// says how far a pump got with an interrupt.
type PumpState struct {
	Cursor protocol.Cursor `json:"cursor"`
	// Rewind is the offset below which no pump reads again. It is at most Cursor.Offset. It
	// is the start of the oldest line that a later pump may need: of an open item that a
	// request may need as context, of unfinished text, or of a request that has to be read
	// again to be answered. PumpInput.From says where a pump begins; the lines from that
	// place to Cursor only restore these.
	Rewind int64 `json:"rewind"`
	// Seq is the sequence number of the newest transcript entry.
	Seq int64 `json:"seq"`
	// ThreadID is set when the thread was started or resumed in this incarnation (see
	// Opened), or is known from an earlier one.
	ThreadID string `json:"thread_id,omitempty"`
	// ForkedFrom is the thread that this one was forked from, if it was.
	ForkedFrom string `json:"forked_from,omitempty"`
	// Opened is the incarnation whose handshake is complete.
	Opened int `json:"opened,omitempty"`
	// TurnID is the running turn, if any; Turn its number from 1.
	TurnID string `json:"turn_id,omitempty"`
	Turn   int    `json:"turn,omitempty"`
	// Skipped counts the numbers up to Turn that never became turns.
	Skipped int `json:"skipped,omitempty"`
	// TurnItems counts the running turn's finished items.
	TurnItems int `json:"turn_items,omitempty"`
	// TurnEffects says that the running turn began something that may have had effects:
	// a command, a file change, a tool.
	TurnEffects bool `json:"turn_effects,omitempty"`
	// Usage is the session's total; TurnUsage is the running turn's.
	Usage     protocol.Usage `json:"usage"`
	TurnUsage protocol.Usage `json:"turn_usage"`
	// Open holds the requests that wait for an answer, by codex's ids.
	Open []OpenRequest `json:"open,omitempty"`
	// CodexVersion is read from initialize's userAgent.
	CodexVersion string `json:"codex_version,omitempty"`
	// Model is the model in use, from the answer to thread/start or thread/resume.
	Model string `json:"model,omitempty"`
	// Provider is the id of the model provider, from the same answer.
	Provider string `json:"provider,omitempty"`
	// FinalText gathers the running turn's agent messages, cut at 32 KiB.
	FinalText      string `json:"final_text,omitempty"`
	FinalTruncated bool   `json:"final_truncated,omitempty"`

	// FinalAt is the offset in FinalText at which the newest message begins. Structured
	// says that the turn has an output schema.
	FinalAt    int  `json:"final_at,omitempty"`
	Structured bool `json:"structured,omitempty"`
	// RateLimits and Context are the values that codex last reported; nil if it reported
	// none.
	RateLimits *protocol.RateLimits `json:"rate_limits,omitempty"`
	Context    *protocol.ContextUse `json:"context,omitempty"`

	// The remaining fields are the pump's own; a workflow only carries them.

	// Items are the items that have started and not finished, oldest first, at most
	// maxOpenItems. Commands may outlive their turn.
	Items []OpenItem `json:"items,omitempty"`
	// Total is the thread's token count that codex last reported.
	Total protocol.Usage `json:"total"`
	// DiffStat sums up the changes of the running turn so far.
	DiffStat string `json:"diff_stat,omitempty"`
	// Diffed has the turn and the digest of the diff that was last handed to the DiffSink.
	Diffed string `json:"diffed,omitempty"`
	// TurnStartedMS is when the running turn began, by codex's clock.
	TurnStartedMS int64 `json:"turn_started_ms,omitempty"`
	// AtMS is the newest time in the journal. Lines without a time of their own get
	// this time.
	AtMS int64 `json:"at_ms,omitempty"`
	// Budget says how far the interrupt of a running turn that exceeds the session's budget
	// got; empty while the turn is within the budget. Spent has the counts for the budget
	// that no other field has.
	Budget protocol.DeliveryState `json:"budget,omitempty"`
	Spent  Spent                  `json:"spent,omitzero"`
	// Trimmed is how many bytes at the journal's beginning were given back to the
	// host's file system. Untrimmable says that the host cannot do that.
	Trimmed     int64 `json:"trimmed,omitempty"`
	Untrimmable bool  `json:"untrimmable,omitempty"`
	// Stray says that the last line was no message. A run of such lines makes one
	// transcript entry.
	Stray bool `json:"stray,omitempty"`
	// Login is the generation of the login whose access token codex has, if a broker
	// supplies tokens. TokenAsks are codex's requests for a newer token that are not
	// known to be answered; Account is the account that the last of them named.
	Login     int64             `json:"login,omitempty"`
	TokenAsks []json.RawMessage `json:"token_asks,omitempty"`
	Account   string            `json:"account,omitempty"`
	// Calls are calls of our tools that are not known to be answered.
	Calls []OpenCall `json:"calls,omitempty"`
	// Progress is the model's last report of progress. The beginning of a turn clears it.
	Progress *protocol.Progress `json:"progress,omitempty"`
	// Idle says that codex reported the thread idle while the turn runs.
	Idle bool `json:"idle,omitempty"`
	// Tally counts the session's approvals.
	Tally Tally `json:"tally,omitzero"`
	// ToolEnded says that a tool has ended and the model has said nothing since.
	ToolEnded bool `json:"tool_ended,omitempty"`
	// Begins is the id of the Send that codex accepted without naming its turn yet.
	// Named is the thread name that this process was given.
	Begins string `json:"begins,omitempty"`
	Named  string `json:"named,omitempty"`
	// Inner is the turn that codex announced within the running one: the reviewer's
	// turn of a review, which an interrupt must name.
	Inner string `json:"inner,omitempty"`
	// Interrupted says that codex accepted an interrupt of the running turn.
	Interrupted bool `json:"interrupted,omitempty"`
	// Retrying is why codex is trying again to reach the model; empty otherwise.
	Retrying string `json:"retrying,omitempty"`
	// Foreign says that codex began the running turn by itself (see foreign.go).
	Foreign bool `json:"foreign,omitempty"`
	// Unsaid says that no entry records yet that the turn is foreign.
	Unsaid bool `json:"unsaid,omitempty"`
	// Restless says that codex may begin turns by itself: it has an active goal or
	// sub-agents, or has begun a turn before.
	Restless bool `json:"restless,omitempty"`
}

// An OpenItem is an item of codex's that has not finished.
type OpenItem struct {
	ID   string `json:"id"`
	Type string `json:"type"` // codex's word
	Turn int    `json:"turn"`
	// Offset is where the item/started line begins.
	Offset int64 `json:"offset"`
	// Pos counts the bytes of the item's deltas so far.
	Pos int64 `json:"pos,omitempty"`
	// Held counts the bytes at the end of these that no viewer saw, because they may
	// begin a secret (see heldback.go).
	Held int64 `json:"held,omitempty"`
	// Kept is where the kept part of the text begins, and Half where its newer half
	// begins (see unfinished.go).
	Kept int64 `json:"kept,omitempty"`
	Half int64 `json:"half,omitempty"`
	// Thread is set if the item belongs to another thread: a sub-agent's.
	Thread string `json:"thread,omitempty"`
	// Background says that the model went on without waiting for its end.
	Background bool `json:"background,omitempty"`
	// Call identifies the call of an MCP tool until codex asked whether it may be made
	// (see requests_tool.go).
	Call string `json:"call,omitempty"`
}

// An OpenRequest is a request that codex waits for, by its id within one
// incarnation.
type OpenRequest struct {
	RPC      json.RawMessage `json:"rpc"`
	Reported bool            `json:"reported,omitempty"` // the workflow knows it
	Item     string          `json:"item,omitempty"`     // the item that waits for it
	Thread   string          `json:"thread,omitempty"`   // set for another thread, as in OpenItem
	TurnID   string          `json:"turn_id,omitempty"`
	// At is where the request's line begins, if later pumps must read it again to
	// answer. Bulk is the size of the part that cannot be cut.
	At   int64 `json:"at,omitempty"`
	Bulk int   `json:"bulk,omitempty"`
	// Remembers says that codex may be told to accept for its whole session, because codex
	// would remember exactly this request.
	Remembers bool `json:"remembers,omitempty"`
	// OfTool says that the request is codex's own question and asks whether a tool may be
	// called.
	OfTool bool `json:"of_tool,omitempty"`
	// Decided says that a person decided and that Tally counted the decision. Judged is a
	// policy's answer.
	Decided bool  `json:"decided,omitempty"`
	Judged  *Send `json:"judged,omitempty"`
}

// PumpInput is the input of a pump. Times come from the workflow, so that a second
// attempt writes the same transcript.
type PumpInput struct {
	Session string    `json:"session"`
	State   PumpState `json:"state"`
	// Thread is used until the incarnation is opened. The thread is resumed if
	// State.ThreadID and Resume are set, and otherwise started.
	Thread ThreadSpec `json:"thread"`
	Resume bool       `json:"resume,omitempty"`
	// Fork opens a fork of State.ThreadID instead of resuming that thread. It may stay
	// set: once State.ForkedFrom is set, the thread is resumed like any other.
	Fork bool `json:"fork,omitempty"`
	// Tell is a developer message for codex before the next turn. Deliveries report its
	// state under its ID. The workflow gives it to the next pump only while that state
	// is Decided.
	Tell *Tell `json:"tell,omitempty"`
	// Sends are to be delivered, in order, each at most once.
	Sends []Send `json:"sends,omitempty"`
	// NextTurn is the number for a turn that codex begins by itself; 0 means the one
	// after State.Turn.
	NextTurn int `json:"next_turn,omitempty"`
	// Notes are the workflow's own transcript entries, written first.
	Notes []Note `json:"notes,omitempty"`
	// Prefix makes the ids of our JSON-RPC requests unique for ever (e.g. "g1.p7"). If a
	// pump ended without a result, the pump that takes over gets the same prefix. So it
	// finds the answers to the earlier pump in the journal, above all the answer with the
	// started thread. Again counts the pumps that took over, from 1.
	Prefix string `json:"prefix"`
	Again  int    `json:"again,omitempty"`
	Limits Limits `json:"limits"`
	// Policy names the policy file by its SHA-256 (hex); empty means that people decide
	// everything. The caller of Run has the file's text and judges by Options.Judge.
	Policy string `json:"policy,omitempty"`
	// Amend says that amendments of the codex home's rules may be offered.
	Amend bool `json:"amend,omitempty"`
	// Models asks codex for its list of models even if nothing has to be opened; an
	// opening always asks.
	Models bool `json:"models,omitempty"`
}

// A Tell is a developer message that reaches a thread at most once, even if workers
// die. It begins no turn. ID is the workflow's, unique for ever.
type Tell struct {
	ID   string `json:"id"`
	Text string `json:"text"`
	// Incarnation is the codex process that may already have the message, because a pump
	// returned no result; 0 if there is none.
	Incarnation int `json:"incarnation,omitempty"`
}

// Limits of a pump; zero means the default given beside the field.
type Limits struct {
	Settle  time.Duration `json:"settle,omitempty"`  // quiet time before open requests are reported; 100 ms
	Request time.Duration `json:"request,omitempty"` // answer to one of our requests; 60 s
	StartUp time.Duration `json:"startup,omitempty"` // answer to initialize; 60 s
	Turn    time.Duration `json:"turn,omitempty"`    // whole turn, without waiting for people; 24 h
	Attach  time.Duration `json:"attach,omitempty"`  // longest stay of one pump; 12 h
	Silence time.Duration `json:"silence,omitempty"` // how long a running turn may be silent before codex is asked for a sign of life; 2 min
	Quiet   time.Duration `json:"quiet,omitempty"`   // how long the model may be silent after a tool has ended; 30 min, negative means no limit
	Line    int           `json:"line,omitempty"`    // longest line in bytes; 32 MiB
	Excerpt int           `json:"excerpt,omitempty"` // longest text inside a result; 8 KiB
	// Bytes is how much of the journal one pump folds at most; 256 MiB. The pump then
	// returns Bound, so that the cursor's progress is kept.
	Bytes int64 `json:"bytes,omitempty"`
	// Budget bounds the whole session. The pump interrupts a turn that exceeds it; the
	// TurnEnd then has a Problem of kind budget.
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

// A Send is one message for codex. ID is the workflow's, unique for ever.
type Send struct {
	ID   string   `json:"id"`
	Kind SendKind `json:"kind"`
	Text string   `json:"text,omitempty"`
	// Blob names the text in the store if it is too long for a workflow; the caller of
	// Run fills Text from it first.
	Blob string `json:"blob,omitempty"`
	// Inputs are the files that go with a turn or a steer.
	Inputs []protocol.Input `json:"inputs,omitempty"`
	// Schema is the output schema of the turn; SchemaBlob names it in the store if it
	// is long, as Blob does for Text.
	Schema     json.RawMessage `json:"schema,omitempty"`
	SchemaBlob string          `json:"schema_blob,omitempty"`
	// Unsayable says why the message cannot be sent: something that belongs to it is not
	// available. The pump rejects the message with this reason, unless codex already has
	// it.
	Unsayable string `json:"-"`
	// Turn is the number that the turn will have (SendTurn), or the number of the turn
	// to steer (SendSteer).
	Turn int `json:"turn,omitempty"`
	// Do is the act of a turn without text (SendTurn). Review is set if Do is ActReview.
	Do     protocol.Act     `json:"do,omitempty"`
	Review *protocol.Review `json:"review,omitempty"`
	Model  string           `json:"model,omitempty"`
	Effort string           `json:"effort,omitempty"`
	// RPC and Incarnation name the request that a decision answers. RequestKind decides the
	// shape of the answer if Method is empty. For an uncertain message that begins a turn,
	// Incarnation is the codex process that may have received it.
	RPC         json.RawMessage      `json:"rpc,omitempty"`
	Incarnation int                  `json:"incarnation,omitempty"`
	RequestKind protocol.RequestKind `json:"request_kind,omitempty"`
	// Method is codex's name of the request, from Request.Method. The shape of the
	// answer depends on it.
	Method     string           `json:"method,omitempty"`
	Outcome    protocol.Outcome `json:"outcome,omitempty"`
	ForSession bool             `json:"for_session,omitempty"`
	// Answers answer the questions by their ids (Outcome Answer). A field of an
	// elicitation's form counts as a question whose id is the field's name.
	Answers map[string][]string `json:"answers,omitempty"`
	// AnswersBlob names Answers in the store if one of them is secret; the caller of
	// Run fills Answers from it and tells its Redactor.
	AnswersBlob string `json:"answers_blob,omitempty"`
	// Grant is the granted part of the requested permissions, in codex's shape (Outcome
	// Grant); Accept grants all of them.
	Grant json.RawMessage `json:"grant,omitempty"`
	// Reason is passed to the model if codex's shape of the answer has a field for it.
	Reason string `json:"reason,omitempty"`
	// Uncertain says that an earlier pump may have sent the message.
	Uncertain bool `json:"uncertain,omitempty"`
}

// A Note is a transcript entry that the workflow writes. If it is written several times,
// its ID makes it one entry.
type Note struct {
	ID   string             `json:"id"`
	Type protocol.EntryType `json:"type"` // decision, state, error
	At   time.Time          `json:"at"`
	Turn int                `json:"turn,omitempty"`
	Text string             `json:"text,omitempty"`
	// Data holds further fields of the entry, e.g. approval, outcome, by.
	Data map[string]string `json:"data,omitempty"`
}

// PumpReason is why a pump returned.
type PumpReason string

const (
	TurnEnded     PumpReason = "turn_ended"
	RequestsOpen  PumpReason = "requests"      // codex waits for a decision
	ProcessEnded  PumpReason = "process_ended" // the process is gone
	PumpCancelled PumpReason = "cancelled"     // the workflow cancelled the pump
	Bound         PumpReason = "bound"         // Limits.Attach or Limits.Bytes was reached, nothing is left to do, or codex withdrew requests
	Overloaded    PumpReason = "overloaded"    // codex accepts no messages for now; the Sends that are still Decided had no effects
	TurnBegun     PumpReason = "turn_begun"    // codex began a turn by itself; State names it
	TimedOut      PumpReason = "timed_out"     // a time limit was exceeded; Problem says which
	Refused       PumpReason = "refused"       // codex refused the handshake or thread; Problem says why
)

// PumpResult is the result of a pump for the workflow.
type PumpResult struct {
	Reason     PumpReason          `json:"reason"`
	State      PumpState           `json:"state"`
	Deliveries []protocol.Delivery `json:"deliveries,omitempty"`
	// Requests are the newly reported requests. Resolved are the RPC ids of known
	// requests that are no longer open.
	Requests []protocol.Request `json:"requests,omitempty"`
	Resolved []json.RawMessage  `json:"resolved,omitempty"`
	// Judged are the newest of the requests that a policy answered.
	Judged []protocol.Judged `json:"judged,omitempty"`
	// Busy says that other items of the turn are still running while requests wait.
	Busy bool `json:"busy,omitempty"`
	// Turn is set when Reason is TurnEnded.
	Turn *TurnEnd `json:"turn,omitempty"`
	// Begun says that codex began another turn after Turn. It belongs to the next pump.
	Begun bool `json:"begun,omitempty"`
	// Waited is how long the turn that runs or has ended waited for people and nothing
	// else, counted since the input was first due to run.
	Waited time.Duration `json:"waited,omitempty"`
	// Models is set if codex listed its models in this pump.
	Models protocol.ModelList `json:"models,omitzero"`
	// Problem is set if something went wrong.
	Problem *protocol.Problem `json:"problem,omitempty"`
}

// TurnEnd is how a turn ended. Status is codex's own word (completed, interrupted,
// failed) or "unknown".
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
	// FinalAt is the offset in FinalText at which the last message begins. With an
	// output schema (Structured) that message is JSON.
	FinalAt    int  `json:"final_at,omitempty"`
	Structured bool `json:"structured,omitempty"`
	// Effects says that the turn began something that may have had effects.
	Effects bool `json:"effects,omitempty"`
	// Foreign says that codex began the turn by itself and took no message of ours into
	// it: it is not the turn of a Send.
	Foreign     bool  `json:"foreign,omitempty"`
	StartedAtMS int64 `json:"started_at_ms,omitempty"`
	EndedAtMS   int64 `json:"ended_at_ms,omitempty"`
}
