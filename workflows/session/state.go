package session

import (
	"maps"
	"slices"
	"time"

	"fairlead.dev/fairlead/conversation"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/internal/kit"
)

// State is all that a session carries across continue-as-new. Its parts are embedded, so
// that its JSON is one flat object.
type State struct {
	lifeState
	placeState
	processState
	turnState
	choiceState
	boundState
	deliveryState
	decisionState
	policyState
	keepState
	parkState
	endState
	commandState
	requestState
	auditState
	followState
	childState
}

type lifeState struct {
	Status    protocol.SessionStatus `json:"status"`
	CreatedAt time.Time              `json:"created_at"`
	UpdatedAt time.Time              `json:"updated_at"`
	// Begun says that the session was prepared once. From then on it comes up again,
	// whatever happens to its host.
	Begun   bool              `json:"begun,omitempty"`
	Started bool              `json:"started,omitempty"` // the first turn could begin
	Error   *protocol.Failure `json:"error,omitempty"`
	// Effects says what turns may have done: some, unknown; empty means none.
	Effects  string              `json:"effects,omitempty"`
	Progress *protocol.Progress  `json:"progress,omitempty"`
	Waits    string              `json:"waits,omitempty"` // what the request for a lease waits for
	Trouble  *kit.Trouble        `json:"trouble,omitempty"`
	Notes    []conversation.Note `json:"notes,omitempty"`
	Handing  []conversation.Note `json:"handing,omitempty"` // given to a pump that has not returned
	NoteN    int                 `json:"note_n"`
	Refusals []protocol.Refusal  `json:"refusals,omitempty"`
}

// HostLease is a slot that the pool granted.
type HostLease struct {
	Spec   protocol.HostSpec `json:"spec"`
	Epoch  int64             `json:"epoch"`
	Labels map[string]string `json:"labels,omitempty"`
}

type queuedMessage struct {
	protocol.Message
	N int `json:"n"`
}

type seenMessage struct {
	ID  string `json:"id"`
	N   int    `json:"n"`
	Sum string `json:"sum,omitempty"` // see sum
}

// pendingSend is something that codex has yet to acknowledge.
type pendingSend struct {
	Send     conversation.Send `json:"send"`
	Handed   bool              `json:"handed"` // was in a pump's input
	Approval int               `json:"approval,omitempty"`
	Named    bool              `json:"named,omitempty"` // steers only the turn that it names
	By       string            `json:"by,omitempty"`
}

// maybe reports whether codex may have it.
func (p pendingSend) maybe() bool { return p.Handed || p.Send.Uncertain }

type approvalState struct {
	N         int                       `json:"n"`
	Turn      int                       `json:"turn"`
	Request   protocol.Request          `json:"request"`
	AskedAt   time.Time                 `json:"asked_at"`
	Expires   time.Time                 `json:"expires"`
	State     protocol.ApprovalState    `json:"state"`
	Decision  *protocol.Decision        `json:"decision,omitempty"`
	Delivery  string                    `json:"delivery,omitempty"` // of the decision, as last reported
	Why       string                    `json:"why,omitempty"`      // why void
	Earlier   *protocol.EarlierDecision `json:"earlier,omitempty"`
	Agreed    []protocol.Agreement      `json:"agreed,omitempty"`
	TakenBack []protocol.Agreement      `json:"taken_back,omitempty"` // earlier decisions of the signers
}

// Bounds of the carried state. The transcript has older entries.
const (
	KeepTurns     = 10
	keepUnsent    = 10 // turns whose messages were taken back
	keepTexts     = 3  // turns with their whole final text
	keepApprovals = 40
	keepDiffs     = 10 // approvals with all that was asked
	keepSeen      = 400
	keepRefusals  = 20
	maxQueue      = 1000
	maxGrants     = 500
	maxEarlier    = 100

	KeepMessageViews = 20

	// MaxCarry bounds the bytes that a run hands to the next; Temporal takes 2 MiB.
	MaxCarry = 1800 << 10
)

func (st *State) turn(n int) *protocol.TurnView {
	for i := range st.Turns {
		if st.Turns[i].N == n {
			return &st.Turns[i]
		}
	}
	return nil
}

func (st *State) approval(n int) *approvalState {
	for i := range st.Approvals {
		if st.Approvals[i].N == n {
			return &st.Approvals[i]
		}
	}
	return nil
}

// Open lists the approvals that wait for a person.
func (st *State) Open() []*approvalState {
	var out []*approvalState
	for i := range st.Approvals {
		if st.Approvals[i].State == protocol.ApprovalOpen {
			out = append(out, &st.Approvals[i])
		}
	}
	return out
}

// Sending returns the unsettled send of a kind, or nil.
func (st *State) Sending(kind conversation.SendKind) *pendingSend {
	for i := range st.Sends {
		if st.Sends[i].Send.Kind == kind {
			return &st.Sends[i]
		}
	}
	return nil
}

// texts returns the bytes of messages queued or on their way to codex.
func (st *State) texts() int {
	n := 0
	for _, q := range st.Queue {
		n += kit.Encoded(q)
	}
	for _, p := range st.Sends {
		n += kit.Encoded(p.Send)
	}
	return n
}

// remember keeps the answer to a message that left the queue.
func (st *State) remember(m protocol.Message, n int) {
	said := sum(m)
	st.Seen = slices.DeleteFunc(st.Seen, func(seen seenMessage) bool {
		if seen.ID == m.ID && seen.Sum != "" {
			said = seen.Sum // the message was queued again; this is the digest of the original
		}
		return seen.ID == m.ID
	})
	st.Seen = append(st.Seen, seenMessage{m.ID, n, said})
}

// trim drops what exceeds the bounds, but only what has ended.
func (st *State) trim() {
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

// trimTurns bounds turns that never began separately, so that they do not push out the
// running turn.
func (st *State) trimTurns() {
	began, not := 0, 0
	for i := len(st.Turns) - 1; i >= 0; i-- {
		t := &st.Turns[i]
		n, keep := &began, KeepTurns
		if t.Error != nil && t.Error.Kind == kit.Unsent {
			n, keep = &not, keepUnsent
		}
		switch *n++; {
		case *n > keep && t.Done():
			st.Turns = slices.Delete(st.Turns, i, i+1)
		case n == &began && began > keepTexts && len(t.FinalText) > 4<<10:
			t.FinalText, t.FinalTruncated = kit.Cut(t.FinalText, 4<<10), true
		}
	}
}

// skipTo makes n the newest turn. The messages of the turns between were taken back.
func (st *State) skipTo(n int) {
	st.Skipped += n - st.TurnN - 1
	st.TurnN = n
}

// live reports whether an approval is open or its decision is on its way.
func (st *State) live(a approvalState) bool {
	return a.State == protocol.ApprovalOpen ||
		slices.ContainsFunc(st.Sends, func(p pendingSend) bool { return p.Approval == a.N })
}

// strip keeps only what a list shows of a request.
func (a *approvalState) strip() {
	r := &a.Request
	if d := a.Decision; d != nil && kit.Encoded(d.Answers)+len(d.Grant) > 1<<10 {
		d.Answers, d.Grant, r.Truncated = nil, nil, true
	}
	if kit.Encoded(r.Questions)+len(r.Permissions)+len(r.URL)+len(r.Args) > 2<<10 {
		r.Questions, r.Permissions, r.URL, r.Args, r.Truncated = nil, nil, kit.Cut(r.URL, 512), kit.Cut(r.Args, 512), true
	}
	if d := r.Digested; d != nil && kit.Encoded(d) > 1<<10 {
		r.Digested, r.Truncated = nil, true
	}
	if len(r.Changes) == 0 && len(r.Command)+len(r.Reason) <= 1<<10 {
		return
	}
	r.Command, r.Reason, r.Changes, r.Truncated = kit.Cut(r.Command, 512), kit.Cut(r.Reason, 256), nil, true
}

// fit drops content that the transcript also has, until the state and beside bytes can be
// handed on. Only extreme texts need that.
func (st *State) fit(beside int) {
	if kit.Encoded(st)+beside <= MaxCarry {
		return
	}
	for i := range st.Turns {
		if t := &st.Turns[i]; len(t.FinalText) > 1<<10 {
			t.FinalText, t.FinalTruncated = kit.Cut(t.FinalText, 1<<10), true
		}
		if f := st.Turns[i].Finish; f != nil && len(f.Summary) > 256 {
			short := *f
			short.Summary = kit.Cut(f.Summary, 256)
			st.Turns[i].Finish = &short
		}
	}
	for i := range st.Approvals {
		if a := &st.Approvals[i]; !st.live(*a) {
			a.strip()
		}
	}
	for i := range st.Child.Started {
		if v := &st.Child.Started[i]; len(v.Text) > 1<<10 {
			v.Text, v.Truncated = kit.Cut(v.Text, 1<<10), true
		}
	}
	shorten(st.Notes)
	st.Refusals = nil
	// Notes that a pump was given come last: they are to be written unchanged if possible.
	if kit.Encoded(st)+beside > MaxCarry {
		shorten(st.Handing)
	}
}

func shorten(notes []conversation.Note) {
	for i := range notes {
		n := &notes[i]
		n.Text = kit.Cut(n.Text, 1<<10)
		var short map[string]string
		//workflowcheck:ignore // each value goes by itself
		for k, v := range n.Data {
			if len(v) <= 1<<10 {
				continue
			}
			if short == nil { // the map may be shared
				short = maps.Clone(n.Data)
			}
			short[k] = kit.Cut(v, 1<<10)
		}
		if short != nil {
			n.Data = short
		}
	}
}
