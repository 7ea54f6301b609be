package protocol

import "time"

// TypeOutbox is the workflow that sends notifications: one in each zone.
const TypeOutbox = "Outbox"

// Update and queries of an outbox.
const (
	UpdateTestNotify = "test_notify"  // TestNotify → TestNotifyAccepted
	QueryNotices     = "notices"      // NoticesQuery → NoticesView
	QueryNotifyRules = "notify_rules" // → NotifyStanding
)

// OutboxID is the id of a zone's outbox.
func OutboxID(zone string) string { return "outbox/" + ZoneOf(TaskQueueOf(zone)) }

// Kinds of events that people can be notified of.
const (
	EventApprovalOpened   = "approval.opened"
	EventApprovalExpiring = "approval.expiring"
	EventTurnEnded        = "turn.ended"
	EventTurnFailed       = "turn.failed" // also interrupted, or unknown
	EventSessionEnded     = "session.ended"
	EventSessionFailed    = "session.failed"
	EventSessionAttention = "session.attention"
	EventBatchEnded       = "batch.ended"
	EventHostUnhealthy    = "host.unhealthy"
	EventSeedUnhealthy    = "seed.unhealthy"
	EventTest             = "test" // only by TestNotify
)

// NotifyEvents are the kinds that rules may name.
var NotifyEvents = []string{EventApprovalOpened, EventApprovalExpiring, EventTurnEnded, EventTurnFailed, EventSessionEnded,
	EventSessionFailed, EventSessionAttention, EventBatchEnded, EventHostUnhealthy, EventSeedUnhealthy}

// A NotifyEvent is what happened, without anything that was said.
type NotifyEvent struct {
	Key      string    `json:"key"` // the same for the same event, and for no other
	Kind     string    `json:"kind"`
	At       time.Time `json:"at"`
	Session  string    `json:"session,omitempty"`
	Name     string    `json:"name,omitempty"` // of the session
	Owner    string    `json:"owner,omitempty"`
	Approval string    `json:"approval,omitempty"`
	Host     string    `json:"host,omitempty"`
	Seed     string    `json:"seed,omitempty"`
	Batch    string    `json:"batch,omitempty"`
	Turn     int       `json:"turn,omitempty"`
	// What is a kind of request, a state or a kind of failure.
	What      string    `json:"what,omitempty"`
	ExpiresAt time.Time `json:"expires_at,omitzero"`
}

// NoticeState is how far a notice has come.
type NoticeState string

// States of a notice.
const (
	NoticePending    NoticeState = "pending"
	NoticeSent       NoticeState = "sent"       // the receiving server took it
	NoticeFailed     NoticeState = "failed"     // it was not delivered, and is not tried again
	NoticeSuppressed NoticeState = "suppressed" // it was not to be sent
	NoticeUnknown    NoticeState = "unknown"    // the receiving server may have taken it; it is not sent again
)

// A Notice is one event for one person by one channel. Person is empty if a rule names the
// channel itself.
type Notice struct {
	ID      string      `json:"id"`
	Event   NotifyEvent `json:"event"`
	Rule    string      `json:"rule,omitempty"`
	Channel string      `json:"channel"`
	Person  string      `json:"person,omitempty"`
	State   NoticeState `json:"state"`
	Reason  string      `json:"reason,omitempty"` // why it is in this state
	// Message is the id of the message that carries it, perhaps with other notices.
	Message   string    `json:"message,omitempty"`
	Attempts  int       `json:"attempts,omitempty"`
	CreatedAt time.Time `json:"created_at"`
	NotBefore time.Time `json:"not_before,omitzero"` // quiet hours, or a limit
	DoneAt    time.Time `json:"done_at,omitzero"`
}

// TestNotify asks an outbox to send a test to a channel or a person.
type TestNotify struct {
	Commanded
	ID string `json:"id"`
	To string `json:"to"` // empty means every channel and person
	By string `json:"by,omitempty"`
}

// TestNotifyAccepted says how to find the notices of a test: their event's key is Key.
type TestNotifyAccepted struct {
	Key string `json:"key"`
}

// NoticesQuery selects notices. Empty fields select all.
type NoticesQuery struct {
	State NoticeState `json:"state,omitempty"`
	Key   string      `json:"key,omitempty"` // of the event
}

// NoticesView has the notices that wait and the newest that are done, the oldest first.
type NoticesView struct {
	Zone    string              `json:"zone"`
	Notices []Notice            `json:"notices"`
	Totals  map[NoticeState]int `json:"totals"` // of all that are done, since the outbox began
	// Older counts the notices that are done and no longer listed.
	Older int `json:"older,omitempty"`
	// SeenUntil is how far the outbox has looked: what happened before has been considered.
	SeenUntil time.Time `json:"seen_until,omitzero"`
	// Problem says what keeps the outbox from looking further.
	Problem string `json:"problem,omitempty"`
	// Deaf lists what could not be asked for so long that the outbox went on without it.
	Deaf []string `json:"deaf,omitempty"`
}

// NotifyStanding describes the rules in force. It has no address and no secret.
type NotifyStanding struct {
	File   string    `json:"file"`
	Digest string    `json:"digest"`
	Since  time.Time `json:"since,omitzero"`
	// Broken says why the newest content of the file is not in force.
	Broken   string          `json:"broken,omitempty"`
	Channels []NotifyChannel `json:"channels,omitempty"`
	People   []NotifyPerson  `json:"people,omitempty"`
	Rules    []NotifyRule    `json:"rules,omitempty"`
}

// NotifyChannel is a channel of the rules.
type NotifyChannel struct {
	Name string `json:"name"`
	Kind string `json:"kind"`
}

// NotifyPerson is a person of the rules.
type NotifyPerson struct {
	Name     string   `json:"name"`
	Channels []string `json:"channels"`
	Quiet    string   `json:"quiet,omitempty"`
}

// NotifyRule is a rule.
type NotifyRule struct {
	Name     string   `json:"name"`
	Line     int      `json:"line"`
	Events   []string `json:"events"`
	Sessions string   `json:"sessions,omitempty"`
	To       []string `json:"to"`
	Before   string   `json:"before,omitempty"`
}
