package workflows

import (
	"maps"
	"slices"
	"time"

	"fairlead.dev/fairlead/activities"
)

// sessionState is all that a session carries across continue-as-new.
type sessionState struct {
	Status    SessionStatus `json:"status"`
	CreatedAt time.Time     `json:"created_at"`
	UpdatedAt time.Time     `json:"updated_at"`

	// Lease is the slot on a host; nil before it is granted.
	Lease    *hostLease          `json:"lease,omitempty"`
	Seed     *activities.SeedRef `json:"seed,omitempty"`
	SeedHeld bool                `json:"seed_held,omitempty"`
	// SeedGone says that the lease on the seed was lost while its login was on the
	// host. Codex does not start there before the session holds the seed again.
	// SeedNo says that the session cannot have it; a message tries again.
	SeedGone bool `json:"seed_gone,omitempty"`
	SeedNo   bool `json:"seed_no,omitempty"`
	// SeedAsks counts the requests for the seed while the session had nothing to
	// do. SeedAskAt is when it asks next.
	SeedAsks  int       `json:"seed_asks,omitempty"`
	SeedAskAt time.Time `json:"seed_ask_at,omitzero"`
	// SeedLeftOn is a host that the session left while the lease was lost.
	SeedLeftOn *seedPlace `json:"seed_left_on,omitempty"`
	// Progress is what the model reported last.
	Progress *activities.Progress `json:"progress,omitempty"`
	// SeedProven is when the newest turn began that completed with the seed.
	// SeedDoubted says that the seed was told of a failure since.
	SeedProven  time.Time `json:"seed_proven,omitzero"`
	SeedDoubted bool      `json:"seed_doubted,omitempty"`
	// Effects says what turns may have done: some, unknown; empty means none.
	Effects string `json:"effects,omitempty"`
	// Asked is the workflow that was asked for a lease. Answers are its answers
	// that are not taken yet.
	Asked   string    `json:"asked,omitempty"`
	Answers []granted `json:"answers,omitempty"`

	Attempt    int   `json:"attempt"`    // leases of a host so far
	Generation int64 `json:"generation"` // rises with every lease: the first part of the epoch
	PumpN      int64 `json:"pump_n"`     // the second part; never reused

	Touched     bool               `json:"touched,omitempty"` // something of ours may be on the host
	Layout      *activities.Layout `json:"layout,omitempty"`
	Permissions string             `json:"permissions,omitempty"`
	// Unprotected says why the agent can read its credential there.
	Unprotected string              `json:"unprotected,omitempty"`
	Incarnation int                 `json:"incarnation"`
	Alive       bool                `json:"alive"`                 // the process, as far as is known
	ProcessEnd  string              `json:"process_end,omitempty"` // how it ended, in words
	EarlyEnds   int                 `json:"early"`                 // processes in a row that ended before they were opened
	HasTurn     bool                `json:"has_turn"`              // the thread has a rollout: it can be resumed
	MayHaveTurn bool                `json:"may_turn,omitempty"`    // codex may have got a message for the thread
	TurnSpent   time.Duration       `json:"turn_spent,omitempty"`  // how long pumps were attached to the running turn
	Model       string              `json:"model,omitempty"`       // as a message last asked for it; a resumed thread gets it again
	Effort      string              `json:"effort,omitempty"`
	Retired     *activities.Problem `json:"retired,omitempty"`      // why the process was stopped; its journal has yet to be read to the end
	Reap        bool                `json:"reap,omitempty"`         // a dead process may have left something behind
	Cut         *Failure            `json:"cut,omitempty"`          // what cut off a turn whose message codex may or may not have had
	Said        *Message            `json:"said,omitempty"`         // the running turn's message, if it may be said again
	Shape       *outputShape        `json:"shape,omitempty"`        // what the running turn is to end in
	AuthRetries int                 `json:"auth_retries,omitempty"` // turns in a row that said the same message again
	Limit       *limitWait          `json:"limit,omitempty"`        // what the session waits out
	GoOns       int                 `json:"go_ons,omitempty"`       // turns in a row that were cut off and continued
	GoOnN       int                 `json:"go_on_n,omitempty"`      // number of the session's own messages
	Foreign     string              `json:"foreign,omitempty"`      // the running turn, if codex began it by itself
	CloseDue    bool                `json:"close_due,omitempty"`    // it closes once codex begins no further turn
	BudgetN     int                 `json:"budget_n,omitempty"`     // times that the budget was set
	BudgetNews  bool                `json:"budget_news,omitempty"`  // the attached pump does not know the newest bounds
	Fruitless   int                 `json:"fruitless,omitempty"`    // pumps in a row that brought nothing

	// Begun says that the session was prepared once. From then on it comes up
	// again, whatever happens to its host.
	Begun   bool             `json:"begun,omitempty"`
	Parked  *parked          `json:"parked,omitempty"` // it holds nothing
	Warm    *warm            `json:"warm,omitempty"`
	QuietAt time.Time        `json:"quiet_at,omitzero"` // since when nobody wants anything of it
	Park    *Park            `json:"park,omitempty"`    // a request to park
	Resume  *Resume          `json:"resume,omitempty"`  // a request to come up, or to go elsewhere
	UpAs    SessionStatus    `json:"up_as,omitempty"`   // its state once it has come up, if not idle
	Ups     int              `json:"ups,omitempty"`     // hosts in a row that could not be reached
	Stopped bool             `json:"stopped,omitempty"` // it was checked that nothing of codex runs there
	Commit  string           `json:"commit,omitempty"`  // of the repository that it began with
	Bare    bool             `json:"bare,omitempty"`    // the folder may have no credential: it has to be prepared again
	LeftOn  string           `json:"left_on,omitempty"` // the host that it left without cleaning up, while it is on no other
	Lost    *LostView        `json:"lost,omitempty"`
	Fault   *Failure         `json:"fault,omitempty"` // why nothing can be done on the host; for its pool
	Leave   *leaveHost       `json:"leave,omitempty"` // its host is being drained
	Was     string           `json:"was,omitempty"`   // the host before this one
	Moved   *moved           `json:"moved,omitempty"` // set until codex knows
	Tell    *activities.Tell `json:"tell,omitempty"`
	TellN   int              `json:"tell_n,omitempty"`
	ForkOf  string           `json:"fork_of,omitempty"` // the thread of the snapshot that it began with
	Pinned  bool             `json:"pinned,omitempty"`  // that snapshot is kept from being dropped

	Chosen   chosen    `json:"chosen,omitzero"`
	Archived *archived `json:"archived,omitempty"`

	Pump   activities.PumpState `json:"pump"`
	Prefix string               `json:"prefix,omitempty"` // of the newest pump's requests
	Again  int                  `json:"again,omitempty"`  // pumps since then that brought no result
	Busy   bool                 `json:"busy,omitempty"`   // other items run while requests wait
	// Stirred says that something happened to the process while nothing was
	// attached to it.
	Stirred bool `json:"stirred,omitempty"`

	// Files came with messages that codex has, the oldest first; FilesAt is the
	// generation that brought them to its host.
	Files   []activities.Input `json:"files,omitempty"`
	FilesAt int64              `json:"files_at,omitempty"`

	Snap   snapState `json:"snap,omitzero"`
	TickAt time.Time `json:"tick_at,omitzero"` // when the next snapshot within the turn is due

	Queue   []queuedMessage `json:"queue,omitempty"`
	Seen    []seenMessage   `json:"seen,omitempty"` // messages that left the queue, newest last, to answer repeats
	Turns   []TurnView      `json:"turns,omitempty"`
	TurnN   int             `json:"turn_n"`            // the newest turn that began
	Skipped int             `json:"skipped,omitempty"` // numbers up to TurnN whose turns never began
	NextN   int             `json:"next_n"`            // the newest number promised to a message
	Running bool            `json:"running"`           // turn TurnN has not ended
	Held    bool            `json:"held,omitempty"`    // the queue waits for the next message: codex could not go on
	Downed  bool            `json:"downed,omitempty"`  // it is held only because no host or seed was available
	Sends   []pendingSend   `json:"sends,omitempty"`

	SeedPolicy   string              `json:"seed_policy,omitempty"`
	SeedAmend    bool                `json:"seed_amend,omitempty"`      // amendments may be offered
	PolicyBroken map[string]string   `json:"policies_broken,omitempty"` // by owner: why, as a worker reported
	Judged       []activities.Judged `json:"judged,omitempty"`          // the newest requests that policies answered
	Requesters   []string            `json:"requesters,omitempty"`      // who sent the running turn's messages
	// FormerRequesters are those of the turn before.
	FormerRequesters []string `json:"former_requesters,omitempty"`

	Approvals []approvalState   `json:"approvals,omitempty"`
	ApprovalN int               `json:"approval_n"`
	Grants    map[string]string `json:"grants,omitempty"`   // digest → who accepted it for the session
	Earlier   []earlierDecision `json:"earlier,omitempty"`  // decisions that were lost with a process of codex; oldest first
	Messages  []MessageView     `json:"messages,omitempty"` // how far they came; oldest first

	Told   bool     `json:"told,omitempty"`   // codex was given secret answers, or is to be
	Forget []string `json:"forget,omitempty"` // blobs of secret answers that it will never be given

	Notes    []activities.Note `json:"notes,omitempty"`
	Handing  []activities.Note `json:"handing,omitempty"` // given to a pump that has not returned
	NoteN    int               `json:"note_n"`
	Refusals []Refusal         `json:"refusals,omitempty"`

	Interrupt  *Interrupt `json:"interrupt,omitempty"` // who asked, for the record
	InterruptN int        `json:"interrupt_n,omitempty"`

	Close      *Close `json:"close,omitempty"`
	CloseTries int    `json:"close_tries,omitempty"` // pumps that were to end the turn
	GraceOver  bool   `json:"grace_over,omitempty"`  // codex had its time to end it
	Ended      bool   `json:"ended,omitempty"`       // no message becomes a turn any more
	CleanTries int    `json:"clean_tries,omitempty"` // times that cleaning up failed for good
	// Failing is why the session fails once codex's journal is read: its host was
	// away when it was to fail.
	Failing    *Failure   `json:"failing,omitempty"`
	CleanError string     `json:"clean_error,omitempty"` // why, as last noted
	EndTold    bool       `json:"end_told,omitempty"`    // the end was told although it is not cleaned up
	Closed     *CloseView `json:"closed,omitempty"`
	Left       string     `json:"left,omitempty"`  // why something of it may still be on the host
	Waits      string     `json:"waits,omitempty"` // what a lease waits for, in words
	Trouble    *trouble   `json:"trouble,omitempty"`
	Started    bool       `json:"started,omitempty"`  // its first turn could begin
	Down       *Interrupt `json:"down,omitempty"`     // somebody called off its coming back
	Named      bool       `json:"named,omitempty"`    // a person named the host that it was granted last, and it is not up there yet
	OwnEnds    int        `json:"own_ends,omitempty"` // of EarlyEnds, those in a row that codex chose itself
	EarlyAt    time.Time  `json:"early_at,omitzero"`  // the first of EarlyEnds
	Error      *Failure   `json:"error,omitempty"`
}

// hostLease is a slot that the pool granted.
type hostLease struct {
	Spec   activities.HostSpec `json:"spec"`
	Epoch  int64               `json:"epoch"`
	Labels map[string]string   `json:"labels,omitempty"` // of the host
}

// queuedMessage is a message and the turn that was promised to it.
type queuedMessage struct {
	Message
	N int `json:"n"`
}

// seenMessage is the answer that a repeated message gets again.
type seenMessage struct {
	ID  string `json:"id"`
	N   int    `json:"n"`
	Sum string `json:"sum,omitempty"` // of what it said
}

// pendingSend is something that codex has yet to acknowledge.
type pendingSend struct {
	Send     activities.Send `json:"send"`
	Handed   bool            `json:"handed"`             // a pump has had it in its input
	Approval int             `json:"approval,omitempty"` // the approval that it decides
	Named    bool            `json:"named,omitempty"`    // it steers the turn that it names or none
	By       string          `json:"by,omitempty"`       // whose message it is
}

// maybe reports whether codex may have it.
func (p pendingSend) maybe() bool { return p.Handed || p.Send.Uncertain }

// approvalState is an approval with what is needed to answer it.
type approvalState struct {
	N         int                `json:"n"`
	Turn      int                `json:"turn"`
	Request   activities.Request `json:"request"`
	AskedAt   time.Time          `json:"asked_at"`
	Expires   time.Time          `json:"expires"`
	State     ApprovalState      `json:"state"`
	Decision  *Decision          `json:"decision,omitempty"`
	Delivery  string             `json:"delivery,omitempty"` // how far the decision came, as last told
	Why       string             `json:"why,omitempty"`      // why it is void
	Earlier   *EarlierDecision   `json:"earlier,omitempty"`
	Agreed    []Agreement        `json:"agreed,omitempty"`
	TakenBack []Agreement        `json:"taken_back,omitempty"` // what they said before
}

// Bounds of what is carried: older things are in the transcript.
const (
	keepTurns     = 10
	keepUnsent    = 10 // turns whose messages were taken back
	keepTexts     = 3  // turns with their whole final text
	keepApprovals = 40
	keepDiffs     = 10 // approvals with all that was asked
	keepSeen      = 400
	keepRefusals  = 20
	maxQueue      = 1000
	maxGrants     = 500
	maxEarlier    = 100

	keepMessageViews = 20

	// maxCarry is how much a run may hand to the next one; Temporal takes
	// 2 MiB.
	maxCarry = 1800 << 10
)

func (st *sessionState) turn(n int) *TurnView {
	for i := range st.Turns {
		if st.Turns[i].N == n {
			return &st.Turns[i]
		}
	}
	return nil
}

func (st *sessionState) approval(n int) *approvalState {
	for i := range st.Approvals {
		if st.Approvals[i].N == n {
			return &st.Approvals[i]
		}
	}
	return nil
}

// open lists the approvals that wait for a person.
func (st *sessionState) open() []*approvalState {
	var out []*approvalState
	for i := range st.Approvals {
		if st.Approvals[i].State == ApprovalOpen {
			out = append(out, &st.Approvals[i])
		}
	}
	return out
}

// sending returns the send of a kind that is not settled, or nil.
func (st *sessionState) sending(kind activities.SendKind) *pendingSend {
	for i := range st.Sends {
		if st.Sends[i].Send.Kind == kind {
			return &st.Sends[i]
		}
	}
	return nil
}

// texts returns how many bytes queued messages and those on their way take.
func (st *sessionState) texts() int {
	n := 0
	for _, q := range st.Queue {
		n += encoded(q)
	}
	for _, p := range st.Sends {
		n += encoded(p.Send)
	}
	return n
}

// remember keeps the answer to a message that has left the queue.
func (st *sessionState) remember(m Message, n int) {
	said := sum(m)
	st.Seen = slices.DeleteFunc(st.Seen, func(seen seenMessage) bool {
		if seen.ID == m.ID && seen.Sum != "" {
			said = seen.Sum // it was put back; its sum is that of the message as it came
		}
		return seen.ID == m.ID
	})
	st.Seen = append(st.Seen, seenMessage{m.ID, n, said})
}

// trim drops what exceeds the bounds, but only what has ended.
func (st *sessionState) trim() {
	over := len(st.Approvals) - keepApprovals
	st.Approvals = slices.DeleteFunc(st.Approvals, func(a approvalState) bool {
		if over <= 0 || st.live(a) {
			return false
		}
		over--
		return true
	})
	for i := range st.Approvals[:max(len(st.Approvals)-keepDiffs, 0)] {
		if a := &st.Approvals[i]; !st.live(*a) {
			a.strip()
		}
	}
	st.trimTurns()
	if n := len(st.Seen) - keepSeen; n > 0 {
		st.Seen = st.Seen[n:]
	}
	if n := len(st.Refusals) - keepRefusals; n > 0 {
		st.Refusals = st.Refusals[n:]
	}
}

// trimTurns bounds the turns that began and those that never did separately.
// Otherwise those that never began would push out the turn that runs.
func (st *sessionState) trimTurns() {
	began, not := 0, 0
	for i := len(st.Turns) - 1; i >= 0; i-- {
		t := &st.Turns[i]
		n, keep := &began, keepTurns
		if t.Error != nil && t.Error.Kind == unsent {
			n, keep = &not, keepUnsent
		}
		switch *n++; {
		case *n > keep && t.Done():
			st.Turns = slices.Delete(st.Turns, i, i+1)
		case n == &began && began > keepTexts && len(t.FinalText) > 4<<10:
			t.FinalText, t.FinalTruncated = excerpt(t.FinalText, 4<<10), true
		}
	}
}

// skipTo makes n the newest turn. The messages of the turns between were taken
// back.
func (st *sessionState) skipTo(n int) {
	st.Skipped += n - st.TurnN - 1
	st.TurnN = n
}

// live reports whether an approval is open or its decision is on its way.
func (st *sessionState) live(a approvalState) bool {
	return a.State == ApprovalOpen ||
		slices.ContainsFunc(st.Sends, func(p pendingSend) bool { return p.Approval == a.N })
}

// strip keeps only what a list shows of a request.
func (a *approvalState) strip() {
	r := &a.Request
	if d := a.Decision; d != nil && encoded(d.Answers)+len(d.Grant) > 1<<10 {
		d.Answers, d.Grant, r.Truncated = nil, nil, true
	}
	if encoded(r.Questions)+len(r.Permissions)+len(r.URL)+len(r.Args) > 2<<10 {
		r.Questions, r.Permissions, r.URL, r.Args, r.Truncated = nil, nil, excerpt(r.URL, 512), excerpt(r.Args, 512), true
	}
	if len(r.Changes) == 0 && len(r.Command)+len(r.Reason) <= 1<<10 {
		return
	}
	r.Command, r.Reason, r.Changes, r.Truncated = excerpt(r.Command, 512), excerpt(r.Reason, 256), nil, true
}

// fit drops what the transcript also has until a run can hand the state on. The
// bounds above make it needless except for extreme texts. beside is how many bytes
// go along with the state.
func (st *sessionState) fit(beside int) {
	if encoded(st)+beside <= maxCarry {
		return
	}
	for i := range st.Turns {
		if t := &st.Turns[i]; len(t.FinalText) > 1<<10 {
			t.FinalText, t.FinalTruncated = excerpt(t.FinalText, 1<<10), true
		}
	}
	for i := range st.Approvals {
		if a := &st.Approvals[i]; !st.live(*a) {
			a.strip()
		}
	}
	shorten(st.Notes)
	st.Refusals = nil
	// Notes that were given to a pump are to be written as they were, if possible.
	if encoded(st)+beside > maxCarry {
		shorten(st.Handing)
	}
}

func shorten(notes []activities.Note) {
	for i := range notes {
		n := &notes[i]
		n.Text = excerpt(n.Text, 1<<10)
		var short map[string]string
		//workflowcheck:ignore // each value goes by itself
		for k, v := range n.Data {
			if len(v) <= 1<<10 {
				continue
			}
			if short == nil { // somebody else may have the map
				short = maps.Clone(n.Data)
			}
			short[k] = excerpt(v, 1<<10)
		}
		if short != nil {
			n.Data = short
		}
	}
}
