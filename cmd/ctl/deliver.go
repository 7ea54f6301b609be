package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"fairlead.dev/fairlead/workflows"
)

// A delivery is one message to a session, and how to send it.
type delivery struct {
	doing, session string
	name           string // of the signal, and of the update
	updateID       string // makes repeated updates count as one
	msg            any
	// again says that the session takes the message once, however often it arrives. An
	// update that may have arrived can then be followed by a signal.
	again bool
	// check refuses what the session would refuse, as far as ctl can know.
	check func(workflows.SessionDetail) error
}

// look reads the state of the session. live reports whether a worker answered.
func (d *delivery) look(ctx context.Context, t *temporal) (seen workflows.SessionDetail, live bool, err error) {
	live, err = t.askEither(ctx, d.doing, workflows.SessionID(d.session), workflows.QueryDetail, &seen)
	return seen, live, err
}

// send sends a message after a look. With a worker up it is an update, whose answer is
// decoded into out. With none it is a signal, which Temporal keeps for the next worker;
// then kept is true and out is unchanged.
func (d *delivery) send(ctx context.Context, t *temporal, seen workflows.SessionDetail, live bool, lookErr error, out any) (kept bool, err error) {
	switch {
	case lookErr != nil && (live && exitOf(lookErr) != exitUnreachable || ctx.Err() != nil):
		return false, lookErr
	case lookErr != nil && exitOf(lookErr) == exitNotFound:
		return false, lookErr
	case live:
		err := t.update(ctx, d.doing, workflows.SessionID(d.session), d.name, d.updateID, out, d.msg)
		if exitOf(err) == exitRefused && hasEnded(seen.View.State) {
			return false, refuseEnded(d.doing, seen.View)
		}
		if err == nil || exitOf(err) != exitUnreachable || !d.again || ctx.Err() != nil {
			return false, err
		}
		t.silence.heard(false)
	case lookErr == nil:
		if err := d.check(seen); err != nil {
			return false, err
		}
	}
	if err := t.signal(ctx, d.doing, workflows.SessionID(d.session), d.name, d.msg); err != nil {
		return false, err
	}
	t.app.note("no worker is up: it is kept until one is")
	return true, nil
}

func (d *delivery) deliver(ctx context.Context, t *temporal, out any) (kept bool, err error) {
	seen, live, lookErr := d.look(ctx, t)
	return d.send(ctx, t, seen, live, lookErr, out)
}

// takesMore returns a check that refuses messages to a session that ends or has ended.
func takesMore(doing string) func(workflows.SessionDetail) error {
	return func(d workflows.SessionDetail) error {
		switch s := d.View.State; {
		case hasEnded(s):
			return refuseEnded(doing, d.View)
		case s == workflows.Closing:
			return refused("%s: it is %s", doing, s)
		}
		return nil
	}
}

func hasEnded(s workflows.SessionStatus) bool { return s == workflows.Closed || s == workflows.Failed }

// refuseEnded returns the refusal of a message to a session that has ended. Its hint says
// how the session's work can go on.
func refuseEnded(doing string, v workflows.SessionView) error {
	e := refused("%s: it %s", doing, endText(v))
	if v.Error != nil && v.Error.Hint != "" {
		return e.hinted("%s", v.Error.Hint)
	}
	return e.hinted("`ctl session fork %s` goes on from its newest snapshot, as a new session; `ctl snapshot restore` from any other", v.ID)
}

// endText says how a session ended.
func endText(v workflows.SessionView) string {
	switch {
	case v.State != workflows.Failed:
		return fmt.Sprintf("is %s", v.State)
	case v.Error == nil:
		return "has failed"
	}
	return fmt.Sprintf("has failed: %s: %s", v.Error.Kind, v.Error.Message)
}

// turnRuns returns a check like takesMore that also needs a running turn.
func turnRuns(doing string) func(workflows.SessionDetail) error {
	return func(d workflows.SessionDetail) error {
		if err := takesMore(doing)(d); err != nil {
			return err
		}
		for _, turn := range d.Turns {
			if !turn.Done() {
				return nil // it runs, or is about to
			}
		}
		return refused("%s: it has no running turn", doing)
	}
}

// decidable returns a check that refuses a decision on an approval that is no longer open,
// or whose request is not the one that was seen.
func decidable(doing string, d workflows.Decide) func(workflows.SessionDetail) error {
	return func(seen workflows.SessionDetail) error {
		ap, err := pick(seen.Approvals, doing, d.Approval)
		if err == nil {
			err = stillOpen(doing, ap, d)
		}
		if err != nil {
			return err
		}
		for _, word := range wordsOf(d) {
			if word != "decline" && !slices.Contains(ap.Offered, word) {
				return notOffered(doing, word, ap.Offered)
			}
		}
		return takesMore(doing)(seen)
	}
}

// notOffered refuses an answer that codex does not accept for this request.
func notOffered(doing, word string, offered []string) error {
	err := refused("%s: %s is not offered (%s are)", doing, word, strings.Join(offered, ", "))
	if word == "amend" {
		return err.hinted("rules are written only where the seed says so, from its next session on: `ctl seed set SEED --amendments on`")
	}
	return err
}

// wordsOf returns the words that must all be offered for a decision to be accepted.
func wordsOf(d workflows.Decide) []string {
	switch {
	case d.Scope != "session":
		return []string{d.Outcome}
	case d.Outcome == "accept":
		return []string{"accept_for_session"}
	}
	return []string{d.Outcome, "accept_for_session"}
}

func stillOpen(doing string, ap workflows.Approval, d workflows.Decide) error {
	switch {
	case ap.Decision != nil:
		return refused("%s: already decided: %s by %s", doing, ap.Decision.Outcome, ap.Decision.By)
	case ap.State != workflows.ApprovalOpen:
		return refused("%s: it is %s", doing, ap.State)
	case !time.Now().Before(ap.ExpiresAt):
		return refused("%s: it expired at %s", doing, ap.ExpiresAt.UTC().Format(time.RFC3339))
	case d.Digest != ap.Digest:
		return refused("%s: the digest is not that of what was asked (%.12s…): look at it again", doing, ap.Digest)
	}
	return nil
}

// ours refuses a decision that was kept for a worker, if another decision has been recorded
// meanwhile or codex has withdrawn the request.
func ours(doing string, ap workflows.Approval, d workflows.Decide) error {
	was := ap.Decision
	switch {
	case was == nil && ap.State == workflows.ApprovalVoid:
		return refused("%s: it is %s", doing, ap.State)
	case was != nil && was.Signed && was.Outcome == d.Outcome && was.Scope == cmp.Or(d.Scope, "once"):
		return nil // By names the signer
	case was == nil || was.Outcome == d.Outcome && was.By == d.By && was.Reason == d.Reason && was.Scope == cmp.Or(d.Scope, "once"):
		return nil
	}
	return refused("%s: already decided: %s by %s", doing, was.Outcome, was.By)
}
