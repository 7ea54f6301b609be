package workflows

import (
	"time"

	"fairlead.dev/fairlead/activities"
)

// sessionState is all that a session carries across continue-as-new.
type sessionState struct {
	Status    SessionStatus `json:"status"`
	CreatedAt time.Time     `json:"created_at"`
	UpdatedAt time.Time     `json:"updated_at"`

	// Lease is the slot on a host; nil before it is granted and once it is given back.
	Lease      *hostLease          `json:"lease,omitempty"`
	Seed       *activities.SeedRef `json:"seed,omitempty"`
	SeedHeld   bool                `json:"seed_held,omitempty"`
	Generation int64               `json:"generation"` // rises with every lease: the first part of the epoch
	PumpN      int64               `json:"pump_n"`     // the second part; never reused

	Layout      *activities.Layout `json:"layout,omitempty"`
	Permissions string             `json:"permissions,omitempty"`
	Incarnation int                `json:"incarnation"`
	Alive       bool               `json:"alive"`    // the process, as far as is known
	EarlyEnds   int                `json:"early"`    // processes in a row that ended before they were opened
	HasTurn     bool               `json:"has_turn"` // the thread has a rollout: it can be resumed

	Pump activities.PumpState `json:"pump"`
	Busy bool                 `json:"busy,omitempty"` // other items run while requests wait

	Queue   []Message         `json:"queue,omitempty"`
	Seen    []MessageAccepted `json:"seen,omitempty"` // newest last, for repeats
	Turns   []TurnView        `json:"turns,omitempty"`
	TurnN   int               `json:"turn_n"`  // the newest turn that began
	NextN   int               `json:"next_n"`  // the newest number promised to a message
	Running bool              `json:"running"` // turn TurnN has not ended
	Sends   []pendingSend     `json:"sends,omitempty"`

	Approvals []approvalState   `json:"approvals,omitempty"`
	ApprovalN int               `json:"approval_n"`
	Grants    map[string]string `json:"grants,omitempty"` // digest → who accepted it for the session

	Notes    []activities.Note `json:"notes,omitempty"`
	Handing  []activities.Note `json:"handing,omitempty"` // given to a pump that has not returned
	NoteN    int               `json:"note_n"`
	Refusals []Refusal         `json:"refusals,omitempty"`

	CloseTries int `json:"close_tries,omitempty"`

	Interrupt *Interrupt `json:"interrupt,omitempty"` // who asked, for the record
	Close     *Close     `json:"close,omitempty"`
	Closed    *CloseView `json:"closed,omitempty"`
	Waits     string     `json:"waits,omitempty"` // what a lease waits for, in words
	Error     *Failure   `json:"error,omitempty"`
}

// hostLease is a slot that the pool granted.
type hostLease struct {
	Spec  activities.HostSpec `json:"spec"`
	Epoch int64               `json:"epoch"`
}

// pendingSend is something that codex has yet to acknowledge.
type pendingSend struct {
	Send     activities.Send `json:"send"`
	Handed   bool            `json:"handed"`             // a pump has had it in its input
	Approval int             `json:"approval,omitempty"` // what it decides
}

// approvalState is an approval with what is needed to answer it.
type approvalState struct {
	N        int                `json:"n"`
	Turn     int                `json:"turn"`
	Request  activities.Request `json:"request"`
	AskedAt  time.Time          `json:"asked_at"`
	Expires  time.Time          `json:"expires"`
	State    ApprovalState      `json:"state"`
	Decision *Decision          `json:"decision,omitempty"`
}

// Bounds of what is carried: older things are in the transcript.
const (
	keepTurns     = 10
	keepApprovals = 40
	keepSeen      = 200
	keepRefusals  = 20
	maxQueue      = 1000
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

// trim drops what is over the bounds; only what has ended goes.
func (st *sessionState) trim() {
	for len(st.Approvals) > keepApprovals {
		if s := st.Approvals[0].State; s == ApprovalOpen || s == ApprovalDecided || s == ApprovalSent {
			break
		}
		st.Approvals = st.Approvals[1:]
	}
	for len(st.Turns) > keepTurns && st.Turns[0].Done() {
		st.Turns = st.Turns[1:]
	}
	if n := len(st.Seen) - keepSeen; n > 0 {
		st.Seen = st.Seen[n:]
	}
	if n := len(st.Refusals) - keepRefusals; n > 0 {
		st.Refusals = st.Refusals[n:]
	}
}
