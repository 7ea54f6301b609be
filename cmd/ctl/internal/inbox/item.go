package inbox

import (
	"cmp"
	"context"
	"slices"
	"time"

	"fairlead.dev/fairlead/cmd/ctl/internal/core"
	"fairlead.dev/fairlead/cmd/ctl/internal/term"
	"fairlead.dev/fairlead/internal/api"
	"fairlead.dev/fairlead/internal/protocol"
)

// An Item is an approval with what is shown of it.
type Item struct {
	Approval protocol.Approval
	Headline string
	Asked    []term.Line // what a yes would allow
	Facts    []term.Line // what else a person should know
	Details  []term.Line // ids, the digest, and what that covers
	// False says that what is shown contradicts the digest: nothing can be decided.
	False bool
	// Unsure says why nobody can tell whether what is shown gives the digest. Then a person must
	// type a part of the digest to approve.
	Unsure string
	// Aside says that deciding needs the terminal, for questions or a passphrase.
	Aside bool
}

// A Decision is what a person decided.
type Decision struct{ Outcome, Scope, Reason string }

// A Source has the approvals and takes decisions. Its methods are called concurrently.
type Source interface {
	// List returns the open approvals, and those of keep in whatever state they are.
	List(ctx context.Context, keep []string) ([]Item, error)
	// Decide sends a decision about what an item shows, and returns the approval once codex
	// has the decision, or a while later.
	Decide(ctx context.Context, it Item, d Decision) (protocol.Approval, error)
	// Ask decides an item at the terminal, and has the terminal to itself until it returns.
	// Without a decision, it also asks the person which one to make.
	Ask(ctx context.Context, it Item, d *Decision) error
	// Follow sends the newest events of a session, and those that come, until ctx ends.
	Follow(ctx context.Context, session string, send func(api.Event))
}

// open reports whether the item can still be decided.
func (it *Item) open(now time.Time) bool {
	ap := it.Approval
	return ap.State == protocol.ApprovalOpen && ap.Decision == nil && (ap.ExpiresAt.IsZero() || now.Before(ap.ExpiresAt))
}

// waits reports whether the decision is on its way, or the approval is open.
func (it *Item) waits(now time.Time) bool {
	switch it.Approval.State {
	case protocol.ApprovalDecided, protocol.ApprovalSent, protocol.ApprovalUnjudged:
		return true
	}
	return it.open(now)
}

// left says how long an item can be decided, or what became of it.
func (it *Item) left(now time.Time) (text string, style core.Style) {
	ap := it.Approval
	switch {
	case it.open(now) && ap.ExpiresAt.IsZero():
		return "open", core.Yellow
	case it.open(now):
		left := ap.ExpiresAt.Sub(now)
		if left < 5*time.Minute {
			return core.Short(left), core.Red
		}
		return core.Short(left), core.Yellow
	case ap.State == protocol.ApprovalOpen && ap.Decision == nil:
		return "expired", core.Dim
	case ap.State == protocol.ApprovalDecided:
		return "recorded", core.Cyan
	case ap.State == protocol.ApprovalSent:
		return "sent", core.Cyan
	case ap.State == protocol.ApprovalAcknowledged:
		return "delivered", core.Green
	}
	return string(ap.State), core.Dim
}

// became says who decided an item and how far the decision came; "" if it is open.
func (it *Item) became(now time.Time) string {
	ap := it.Approval
	if ap.Decision == nil {
		switch {
		case it.open(now):
			return ""
		case ap.State == protocol.ApprovalOpen:
			return "it has expired, and counts as declined"
		case ap.VoidReason != "":
			return "it is void: " + core.OneLine(ap.VoidReason, 200)
		}
		return "it is " + string(ap.State) + ": codex does not ask for it any more"
	}
	word := map[string]string{"accept": "accepted", "decline": "declined", "cancel": "declined, with the turn", "answer": "answered", "grant": "granted in part", "amend": "accepted for good"}[ap.Decision.Outcome]
	text := cmp.Or(word, ap.Decision.Outcome)
	if ap.Decision.Scope == "session" {
		text += " for the session"
	}
	if ap.Decision.By != "" {
		text += " by " + ap.Decision.By
	}
	if ap.Decision.Reason != "" {
		text += ": " + ap.Decision.Reason
	}
	far := map[protocol.ApprovalState]string{protocol.ApprovalDecided: "recorded", protocol.ApprovalSent: "recorded → sent", protocol.ApprovalAcknowledged: "recorded → sent → acknowledged", protocol.ApprovalUnjudged: "kept until a worker judges it"}[ap.State]
	return core.OneLine(text, 300) + " · " + cmp.Or(far, string(ap.State))
}

// sorted sorts by expiry, what can be decided first.
func sorted(items []Item, now time.Time) {
	slices.SortStableFunc(items, func(a, b Item) int {
		if x, y := a.open(now), b.open(now); x != y {
			if x {
				return -1
			}
			return 1
		}
		return cmp.Or(when(a).Compare(when(b)), cmp.Compare(a.Approval.ID, b.Approval.ID))
	})
}

// when is the expiry of an item; one that has none comes last.
func when(it Item) time.Time {
	if it.Approval.ExpiresAt.IsZero() {
		return time.Unix(1<<40, 0)
	}
	return it.Approval.ExpiresAt
}
