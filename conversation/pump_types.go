package conversation

import (
	"encoding/json"
	"time"
)

// ThreadSpec says how a thread is set up. All of it is sent with every start
// and every resume, since codex's resume does not restore the sandbox.
type ThreadSpec struct {
	CWD            string `json:"cwd"`
	Sandbox        string `json:"sandbox"`               // read-only, workspace-write, danger-full-access
	Permissions    string `json:"permissions,omitempty"` // permission profile, sent in place of Sandbox
	ApprovalPolicy string `json:"approval_policy"`       // untrusted, on-request, never
	Model          string `json:"model,omitempty"`
	Effort         string `json:"effort,omitempty"`
	// Instructions are developer instructions. codex keeps them in the thread's
	// history; they are said anew at each resume and fork, since it begins with
	// them when it compacts the thread.
	Instructions string `json:"instructions,omitempty"`
	// Personality is codex's word for how it speaks: none, friendly, pragmatic.
	Personality string `json:"personality,omitempty"`
	// Mark is put into the environment of codex's commands (FAIRLEAD_SESSION).
	Mark string `json:"mark,omitempty"`
	// Name is what people call the thread; codex is told it after each opening.
	Name string `json:"name,omitempty"`
	// Tools are those of ours that the model may call (see Tools); a thread is
	// given them at its start and keeps them.
	Tools []string `json:"tools,omitempty"`
}

// A Cursor is a place in the journal of one incarnation of the process.
type Cursor struct {
	Incarnation int   `json:"incarnation"`
	Offset      int64 `json:"offset"`
}

// PumpState is what a pump hands to the next one through the workflow. It is
// small whatever the length of the stream, and a pure function of the journal
// up to Cursor and of the inputs so far; but for Named, which also takes a name
// that codex did not answer to in time, and Budget, which says how far a pump came.
type PumpState struct {
	Cursor Cursor `json:"cursor"`
	// Rewind is the place below which nobody reads again: at or below
	// Cursor.Offset, at the start of the oldest open item that a request may
	// need for its context, of text that is not finished, or of a request that
	// is read again to be answered. PumpInput.From says where a pump begins;
	// the lines from there to Cursor only refill these.
	Rewind int64 `json:"rewind"`
	// Seq is the sequence number of the newest transcript entry.
	Seq int64 `json:"seq"`
	// ThreadID is set once the thread was started or resumed in this
	// incarnation (Opened) or known from an earlier one.
	ThreadID string `json:"thread_id,omitempty"`
	// ForkedFrom is the thread that this one was forked from, if it was.
	ForkedFrom string `json:"forked_from,omitempty"`
	// Opened is the incarnation whose handshake is complete.
	Opened int `json:"opened,omitempty"`
	// TurnID is the running turn, if any; Turn its number from 1.
	TurnID string `json:"turn_id,omitempty"`
	Turn   int    `json:"turn,omitempty"`
	// Skipped are the numbers up to it that never became turns.
	Skipped int `json:"skipped,omitempty"`
	// TurnItems counts the running turn's finished items.
	TurnItems int `json:"turn_items,omitempty"`
	// TurnEffects says that the running turn began something that may have had
	// effects: a command, a change, a tool.
	TurnEffects bool `json:"turn_effects,omitempty"`
	// Usage adds up over the session; TurnUsage is the running turn's.
	Usage     Usage `json:"usage"`
	TurnUsage Usage `json:"turn_usage"`
	// Open are the requests that codex waits for, by its own id.
	Open []OpenRequest `json:"open,omitempty"`
	// CodexVersion is read from initialize's userAgent.
	CodexVersion string `json:"codex_version,omitempty"`
	// Model in use, as thread/start or resume answered.
	Model string `json:"model,omitempty"`
	// Provider is the model provider's id, as the same answer names it.
	Provider string `json:"provider,omitempty"`
	// FinalText gathers the running turn's agent messages, cut at 32 KiB.
	FinalText      string `json:"final_text,omitempty"`
	FinalTruncated bool   `json:"final_truncated,omitempty"`

	// FinalAt is where in it the newest message begins. Structured says that
	// the turn has an output schema.
	FinalAt    int  `json:"final_at,omitempty"`
	Structured bool `json:"structured,omitempty"`
	// RateLimits and Context are as codex told them last; nil where it did not.
	RateLimits *RateLimits `json:"rate_limits,omitempty"`
	Context    *Context    `json:"context,omitempty"`

	// The rest is the pump's own; a workflow only carries it.

	// Items are those that are started and not finished, oldest first; at
	// most maxOpenItems. Commands may outlive their turn.
	Items []OpenItem `json:"items,omitempty"`
	// Total is the thread's token count as codex told it last.
	Total Usage `json:"total"`
	// DiffStat sums up what the running turn changed so far.
	DiffStat string `json:"diff_stat,omitempty"`
	// Diffed is the turn and the digest of the diff that was handed over last.
	Diffed string `json:"diffed,omitempty"`
	// TurnStartedMS is when the running turn began, by codex's clock.
	TurnStartedMS int64 `json:"turn_started_ms,omitempty"`
	// AtMS is the newest time that the journal told; lines without a time
	// of their own are taken to be of this time.
	AtMS int64 `json:"at_ms,omitempty"`
	// Budget says how far the interrupt of a running turn got that is over the
	// session's budget; empty while it is within. Spent is what was counted.
	Budget DeliveryState `json:"budget,omitempty"`
	Spent  Spent         `json:"spent,omitzero"`
	// Trimmed is how much of the journal's beginning was given back to the
	// host's file system. Untrimmable says that the host cannot do that.
	Trimmed     int64 `json:"trimmed,omitempty"`
	Untrimmable bool  `json:"untrimmable,omitempty"`
	// Stray says that the last line was no message: a run of such lines
	// makes one transcript entry.
	Stray bool `json:"stray,omitempty"`
	// Login is the generation of the login whose access token codex has been
	// given, where a broker gives them; TokenAsks are codex's requests for a
	// newer one that nobody is known to have answered, Account what it named.
	Login     int64             `json:"login,omitempty"`
	TokenAsks []json.RawMessage `json:"token_asks,omitempty"`
	Account   string            `json:"account,omitempty"`
	// Calls are those of our tools that nobody is known to have answered.
	Calls []OpenCall `json:"calls,omitempty"`
	// Progress is what the model reported last; a turn that begins clears it.
	Progress *Progress `json:"progress,omitempty"`
	// Idle says that codex called the thread idle while the turn runs.
	Idle bool `json:"idle,omitempty"`
	// Tally counts what codex asked for.
	Tally Tally `json:"tally,omitzero"`
	// ToolEnded says that a tool has ended, and the model said nothing since.
	ToolEnded bool `json:"tool_ended,omitempty"`
	// Begins is the Send that codex said yes to and whose turn it has not named
	// yet; Named is the name that this process was told for the thread.
	Begins string `json:"begins,omitempty"`
	Named  string `json:"named,omitempty"`
	// Inner is the turn that codex announced within the running one: a review's
	// own, which an interrupt has to name.
	Inner string `json:"inner,omitempty"`
	// Retrying is why codex tries anew to reach the model, while it does.
	Retrying string `json:"retrying,omitempty"`
}

// An OpenItem is an item of codex's that is not finished.
type OpenItem struct {
	ID   string `json:"id"`
	Type string `json:"type"` // codex's word
	Turn int    `json:"turn"`
	// Offset is where its item/started begins.
	Offset int64 `json:"offset"`
	// Pos counts the bytes of its deltas so far.
	Pos int64 `json:"pos,omitempty"`
	// Held counts those of them at its end that no viewer saw, since they
	// may begin a secret (see heldback.go).
	Held int64 `json:"held,omitempty"`
	// Kept and Half are where the kept part of its text begins, and the
	// newer half of that (see unfinished.go).
	Kept int64 `json:"kept,omitempty"`
	Half int64 `json:"half,omitempty"`
	// Thread is set where the item is of another thread, a sub-agent's.
	Thread string `json:"thread,omitempty"`
	// Background says that the model went on without waiting for its end.
	Background bool `json:"background,omitempty"`
	// Call stands for the call of an MCP tool until codex asked whether it may
	// be made (see requests_tool.go).
	Call string `json:"call,omitempty"`
}

// Usage counts tokens.
type Usage struct {
	Input  int64 `json:"input_tokens"`
	Output int64 `json:"output_tokens"`
	Cached int64 `json:"cached_tokens"`
}

// OpenRequest is codex's id of a request, within one incarnation.
type OpenRequest struct {
	RPC      json.RawMessage `json:"rpc"`
	Reported bool            `json:"reported,omitempty"` // the workflow knows it
	Item     string          `json:"item,omitempty"`     // the item that waits for it
	Thread   string          `json:"thread,omitempty"`   // of another one, as in OpenItem
	TurnID   string          `json:"turn_id,omitempty"`
	// At is where its line begins, of one that cannot be answered without:
	// later pumps read it again. Bulk is how much of it cannot be cut.
	At   int64 `json:"at,omitempty"`
	Bulk int   `json:"bulk,omitempty"`
	// Remembers says that codex may be told of an accept that it holds for its
	// session: what it remembers is what was asked.
	Remembers bool `json:"remembers,omitempty"`
	// OfTool says that it is codex's own question whether a tool may be called.
	OfTool bool `json:"of_tool,omitempty"`
	// Decided says that somebody decided, and was counted; Judged is the
	// answer of a policy.
	Decided bool  `json:"decided,omitempty"`
	Judged  *Send `json:"judged,omitempty"`
}

// PumpInput is what a pump is told. Times come from the workflow, so that a
// second attempt writes the same transcript.
type PumpInput struct {
	Session string    `json:"session"`
	State   PumpState `json:"state"`
	// Thread is used where the incarnation is not opened yet: the thread is
	// resumed when State.ThreadID is set and Resume, else started.
	Thread ThreadSpec `json:"thread"`
	Resume bool       `json:"resume,omitempty"`
	// Fork opens a thread of its own from State.ThreadID in place of resuming
	// that one. It may stay set: once State says ForkedFrom, that thread is
	// resumed as any other.
	Fork bool `json:"fork,omitempty"`
	// Tell is one developer message, which codex has before the next turn
	// begins. Deliveries say what became of it, under its ID. The workflow
	// hands it to the next pump too while that is Decided, and never again
	// after any other word.
	Tell *Tell `json:"tell,omitempty"`
	// Sends are to be delivered, in order, each at most once.
	Sends []Send `json:"sends,omitempty"`
	// Notes are the workflow's own transcript entries, written first.
	Notes []Note `json:"notes,omitempty"`
	// Prefix makes the ids of our JSON-RPC requests unique for ever (e.g.
	// "g1.p7"). Only a pump that takes up another's work, because that one
	// brought no result, has its prefix again: it finds the answers that the
	// other got in the journal, above all the thread that it started. Again
	// then counts such pumps, from 1.
	Prefix string `json:"prefix"`
	Again  int    `json:"again,omitempty"`
	Limits Limits `json:"limits"`
	// Policy names the policy file by its SHA-256 (hex); empty means that
	// people are asked for everything. Whoever runs the pump has its text, and
	// judges by Options.Judge.
	Policy string `json:"policy,omitempty"`
	// Amend says that amendments of the codex home's rules may be offered.
	Amend bool `json:"amend,omitempty"`
	// Models asks codex which models it lists, also where nothing is to be
	// opened; opening always asks.
	Models bool `json:"models,omitempty"`
}

// A Tell is what a thread is told in a developer message, at most once whatever
// dies meanwhile; it begins no turn. ID is the workflow's, unique for ever.
type Tell struct {
	ID   string `json:"id"`
	Text string `json:"text"`
	// Incarnation is the process that may have had it already, since a pump
	// that had it to tell brought no result; 0 if none. A pump that says Decided
	// has found out that it was none.
	Incarnation int `json:"incarnation,omitempty"`
}

// Limits of a pump; a zero means the default beside it.
type Limits struct {
	Settle  time.Duration `json:"settle,omitempty"`  // quiet time before open requests are reported; 100 ms
	Request time.Duration `json:"request,omitempty"` // answer to one of our requests; 60 s
	StartUp time.Duration `json:"startup,omitempty"` // answer to initialize; 60 s
	Turn    time.Duration `json:"turn,omitempty"`    // whole turn while attached; 24 h
	Attach  time.Duration `json:"attach,omitempty"`  // longest stay of one pump; 12 h
	Silence time.Duration `json:"silence,omitempty"` // of a running turn, before codex is asked for a sign of life; 2 min
	Quiet   time.Duration `json:"quiet,omitempty"`   // of the model after a tool has ended; 30 min, negative is any time
	Line    int           `json:"line,omitempty"`    // longest line in bytes; 32 MiB
	Excerpt int           `json:"excerpt,omitempty"` // longest text inside a result; 8 KiB
	// Bytes is how much of the journal one pump folds at most; 256 MiB. It
	// returns Bound then, so that the cursor moves on for good.
	Bytes int64 `json:"bytes,omitempty"`
	// Budget bounds the whole session. A turn that goes over it is interrupted
	// by the pump: its end has a Problem of kind budget.
	Budget Budget `json:"budget,omitzero"`
}

// SendKind names what is sent.
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
	// Blob names the text in the store where it is too long for a workflow;
	// whoever runs the pump fills Text from it first.
	Blob string `json:"blob,omitempty"`
	// Inputs are the files that go with a turn or a steer.
	Inputs []Input `json:"inputs,omitempty"`
	// Schema is the output schema of the turn; SchemaBlob names it in the store
	// where it is long, as Blob does the text.
	Schema     json.RawMessage `json:"schema,omitempty"`
	SchemaBlob string          `json:"schema_blob,omitempty"`
	// Unsayable says why it cannot be said: what goes with it is not to be had.
	// It is rejected with that, unless codex has it already.
	Unsayable string `json:"-"`
	// Turn is the number that the turn will have (SendTurn), or of the one that
	// is to be steered (SendSteer).
	Turn int `json:"turn,omitempty"`
	// Do is what a turn does that takes no text (SendTurn); Review is of ActReview.
	Do     Act     `json:"do,omitempty"`
	Review *Review `json:"review,omitempty"`
	Model  string  `json:"model,omitempty"`
	Effort string  `json:"effort,omitempty"`
	// RPC and Incarnation name the request that a decision answers; Kind of
	// the request and the outcome say in which shape. Of an uncertain message
	// that begins a turn, Incarnation is the process that may have had it.
	RPC         json.RawMessage `json:"rpc,omitempty"`
	Incarnation int             `json:"incarnation,omitempty"`
	RequestKind RequestKind     `json:"request_kind,omitempty"`
	// Method is codex's name of the request, from Request.Method: the shape
	// of the answer goes by it.
	Method     string  `json:"method,omitempty"`
	Outcome    Outcome `json:"outcome,omitempty"`
	ForSession bool    `json:"for_session,omitempty"`
	// Answers are to the questions asked, by their ids (Outcome Answer). The
	// field of an elicitation's form is a question, its name the id.
	Answers map[string][]string `json:"answers,omitempty"`
	// AnswersBlob names Answers in the store where one of them is secret;
	// whoever runs the pump fills Answers from it and tells its Redactor.
	AnswersBlob string `json:"answers_blob,omitempty"`
	// Grant is the part of the permissions asked for that is given, in
	// codex's shape (Outcome Grant); Accept gives all of them.
	Grant json.RawMessage `json:"grant,omitempty"`
	// Reason is told to the model where the shape of the answer has room.
	Reason string `json:"reason,omitempty"`
	// Uncertain says that an earlier pump may have sent it already.
	Uncertain bool `json:"uncertain,omitempty"`
}

// Outcome of a decision, in Fairlead's words.
type Outcome string

const (
	Accept  Outcome = "accept"
	Decline Outcome = "decline"
	Cancel  Outcome = "cancel"
	Answer  Outcome = "answer" // with Answers
	Grant   Outcome = "grant"  // with Grant
	Amend   Outcome = "amend"  // accept, and allow what begins like it in this codex home for ever
)

// DeliveryState of a Send.
type DeliveryState string

const (
	Decided      DeliveryState = "decided"      // not written to codex, for certain
	Sent         DeliveryState = "sent"         // written; whether codex has it is not known
	Acknowledged DeliveryState = "acknowledged" // codex answered, resolved or echoed it
	Rejected     DeliveryState = "rejected"     // codex refused it; Error says why
	Void         DeliveryState = "void"         // what it answers is gone
)

// A Delivery is what became of a Send.
type Delivery struct {
	ID    string        `json:"id"`
	State DeliveryState `json:"state"`
	Error string        `json:"error,omitempty"`
}

// A Note is a transcript entry of the workflow's. Its ID makes it one entry
// however often it is written.
type Note struct {
	ID   string    `json:"id"`
	Type EntryType `json:"type"` // decision, state, error
	At   time.Time `json:"at"`
	Turn int       `json:"turn,omitempty"`
	Text string    `json:"text,omitempty"`
	// Data are further fields of the entry, e.g. approval, outcome, by.
	Data map[string]string `json:"data,omitempty"`
}

// PumpReason says why a pump returned.
type PumpReason string

const (
	TurnEnded     PumpReason = "turn_ended"
	RequestsOpen  PumpReason = "requests"      // codex waits for a decision
	ProcessEnded  PumpReason = "process_ended" // the process is gone
	PumpCancelled PumpReason = "cancelled"     // the workflow wanted it back
	Bound         PumpReason = "bound"         // Limits.Attach was reached, nothing more to do, or codex took requests back
	TimedOut      PumpReason = "timed_out"     // Limits.Request, StartUp or Turn; Problem says which
	Refused       PumpReason = "refused"       // codex refused the handshake or thread; Problem says why
)

// PumpResult is what the workflow learns from a pump.
type PumpResult struct {
	Reason     PumpReason `json:"reason"`
	State      PumpState  `json:"state"`
	Deliveries []Delivery `json:"deliveries,omitempty"`
	// Requests are those newly reported; Resolved are the RPC ids of known
	// ones that are open no more.
	Requests []Request         `json:"requests,omitempty"`
	Resolved []json.RawMessage `json:"resolved,omitempty"`
	// Judged are those that a policy answered, the newest ones.
	Judged []Judged `json:"judged,omitempty"`
	// Busy says that other items of the turn still run while requests wait.
	Busy bool `json:"busy,omitempty"`
	// Turn is set when Reason is TurnEnded.
	Turn *TurnEnd `json:"turn,omitempty"`
	// Models is set where codex told in this pump which ones it lists.
	Models ModelList `json:"models,omitzero"`
	// Problem is set when something went wrong.
	Problem *Problem `json:"problem,omitempty"`
}

// TurnEnd is how a turn ended, in codex's own words for Status
// (completed, interrupted, failed) or "unknown".
type TurnEnd struct {
	N              int      `json:"n"`
	ID             string   `json:"id"`
	Status         string   `json:"status"`
	FinalText      string   `json:"final_text"`
	FinalTruncated bool     `json:"final_truncated,omitempty"`
	Items          int      `json:"items"`
	Usage          Usage    `json:"usage"`
	DiffStat       string   `json:"diff_stat,omitempty"`
	Problem        *Problem `json:"problem,omitempty"`
	// FinalAt is where in FinalText the last message begins: with an output
	// schema (Structured) that is JSON.
	FinalAt    int  `json:"final_at,omitempty"`
	Structured bool `json:"structured,omitempty"`
	// Effects says that it began something that may have had effects.
	Effects     bool  `json:"effects,omitempty"`
	StartedAtMS int64 `json:"started_at_ms,omitempty"`
	EndedAtMS   int64 `json:"ended_at_ms,omitempty"`
}

// A Problem is a classified failure with a sentence for the operator.
type Problem struct {
	Kind    string `json:"kind"` // one of Endings
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"`
	// Passing says of kind auth that the credential may be as good as ever: a
	// newer access token did not come in time.
	Passing bool `json:"passing,omitempty"`
	// ResetAt is when a limit ends, where that is known.
	ResetAt time.Time `json:"reset_at,omitzero"`
}
