package flows

import (
	"context"
	"fmt"
	"strings"
	"time"

	"fairlead.dev/fairlead/internal/errkind"
	"fairlead.dev/fairlead/internal/protocol"
)

// A Delivery is one message to a session.
type Delivery struct {
	Doing, Session string
	Name           string // of the signal and of the update
	UpdateID       string // makes repeated updates count as one
	Msg            any
	// Again says that the session takes the message once, even if it arrives several times.
	// Then ctl may send a signal after an update that may have arrived.
	Again bool
	// Check refuses what the session would refuse, as far as ctl can know.
	Check func(protocol.SessionDetail) error
}

// Look reads the session's state. live reports whether a worker answered.
func (d *Delivery) Look(ctx context.Context, t *Conn) (seen protocol.SessionDetail, live bool, err error) {
	live, err = t.AskEither(ctx, d.Doing, protocol.SessionID(d.Session), protocol.QueryDetail, &seen)
	return seen, live, err
}

// Send sends the message, with the results of Look. If a worker answers, the message is an
// update, whose answer is decoded into out. Otherwise it is a signal, which Temporal keeps
// for the next worker; then kept is true and out is unchanged.
func (d *Delivery) Send(ctx context.Context, t *Conn, seen protocol.SessionDetail, live bool, lookErr error, out any) (kept bool, err error) {
	switch {
	case lookErr != nil && (live && errkind.ExitCode(lookErr) != errkind.ExitUnreachable || ctx.Err() != nil):
		return false, lookErr
	case lookErr != nil && errkind.ExitCode(lookErr) == errkind.ExitNotFound:
		return false, lookErr
	case live:
		err := t.Update(ctx, d.Doing, protocol.SessionID(d.Session), d.Name, d.UpdateID, out, d.Msg)
		if errkind.ExitCode(err) == errkind.ExitRefused && HasEnded(seen.View.State) {
			return false, RefuseEnded(d.Doing, seen.View)
		}
		if err == nil || errkind.ExitCode(err) != errkind.ExitUnreachable || !d.Again || ctx.Err() != nil {
			return false, err
		}
		t.Silence.heard(false)
	case lookErr == nil:
		if err := d.Check(seen); err != nil {
			return false, err
		}
	}
	if decision, is := d.Msg.(protocol.Decide); is && lookErr != nil {
		if err := t.notContrary(ctx, d.Doing, d.Session, decision); err != nil {
			return false, err
		}
	}
	if err := t.Signal(ctx, d.Doing, protocol.SessionID(d.Session), d.Name, d.Msg); err != nil {
		return false, err
	}
	if t.WaitsForNewer(protocol.SessionID(d.Session)) != "" {
		t.Side.Note("Temporal keeps the request until a newer worker serves the session")
	} else {
		t.Side.Note("no worker is up: Temporal keeps the request until one is")
	}
	return true, nil
}

func (d *Delivery) Deliver(ctx context.Context, t *Conn, out any) (kept bool, err error) {
	seen, live, lookErr := d.Look(ctx, t)
	return d.Send(ctx, t, seen, live, lookErr, out)
}

// TakesMore returns a check that refuses messages to a session that ends or has ended.
func TakesMore(doing string) func(protocol.SessionDetail) error {
	return func(d protocol.SessionDetail) error {
		switch s := d.View.State; {
		case HasEnded(s):
			return RefuseEnded(doing, d.View)
		case s == protocol.Closing:
			return errkind.Refused("%s: it is %s", doing, s)
		}
		return nil
	}
}

// Quiet returns a check like TakesMore that also refuses unfinished turns.
func Quiet(doing string) func(protocol.SessionDetail) error {
	return func(d protocol.SessionDetail) error {
		if err := TakesMore(doing)(d); err != nil {
			return err
		}
		for _, turn := range d.Turns {
			if !turn.Done() {
				return errkind.Refused("%s: turn %d has not ended", doing, turn.N)
			}
		}
		return nil
	}
}

// HasEnded reports whether a session has closed or failed.
func HasEnded(s protocol.SessionStatus) bool { return s == protocol.Closed || s == protocol.Failed }

// RefuseEnded refuses a message to an ended session, with a hint how its work can go on.
func RefuseEnded(doing string, v protocol.SessionView) error {
	e := errkind.Refused("%s: it %s", doing, EndText(v))
	if v.Error != nil && v.Error.Hint != "" {
		return e.Hinted("%s", v.Error.Hint)
	}
	return e.Hinted("`ctl session fork %s` goes on from its newest snapshot, as a new session; `ctl snapshot restore` from any other", v.ID)
}

// EndText says how a session ended.
func EndText(v protocol.SessionView) string {
	switch {
	case v.State != protocol.Failed:
		return fmt.Sprintf("is %s", v.State)
	case v.Error == nil:
		return "has failed"
	}
	return fmt.Sprintf("has failed: %s: %s", v.Error.Kind, v.Error.Message)
}

// TurnRuns returns a check like TakesMore that also needs a turn.
func TurnRuns(doing string) func(protocol.SessionDetail) error {
	return func(d protocol.SessionDetail) error {
		if err := TakesMore(doing)(d); err != nil {
			return err
		}
		for _, turn := range d.Turns {
			if !turn.Done() {
				return nil // running, or about to begin
			}
		}
		return errkind.Refused("%s: it has no running turn", doing)
	}
}

// Decidable returns a check that refuses a decision if the approval is not open, or its
// request is not the one that the user saw.
func Decidable(doing string, d protocol.Decide) func(protocol.SessionDetail) error {
	return func(seen protocol.SessionDetail) error {
		ap, err := Pick(seen.Approvals, doing, d.Approval)
		if err == nil {
			err = StillOpen(doing, ap, d)
		}
		if err != nil {
			return err
		}
		if word, found := d.NotOffered(ap.Offered); found {
			return notOffered(doing, word, ap.Offered)
		}
		return TakesMore(doing)(seen)
	}
}

func notOffered(doing, word string, offered []string) error {
	err := errkind.Refused("%s: %s is not offered (%s are)", doing, word, strings.Join(offered, ", "))
	if word == "amend" {
		return err.Hinted("codex proposed no rule here, or the session's seed did not allow amendments when the session got it; `ctl seed set SEED --amendments on` allows them in later sessions")
	}
	return err
}

// StillOpen refuses a decision if the approval is not open or is not what the user saw.
func StillOpen(doing string, ap protocol.Approval, d protocol.Decide) error {
	switch {
	case ap.Decision != nil && ap.State == protocol.ApprovalUnjudged:
		return errkind.Refused("%s: already decided: %s by %s. Temporal keeps that decision, and no worker has judged it yet", doing, ap.Decision.Outcome, ap.Decision.By).
			Hinted("start a worker; or set authority: required and access (a copy of the access file) in ctl's config, so that ctl can judge it")
	case ap.Decision != nil:
		return errkind.Refused("%s: already decided: %s by %s", doing, ap.Decision.Outcome, ap.Decision.By)
	case ap.State != protocol.ApprovalOpen:
		return errkind.Refused("%s: it is %s", doing, ap.State)
	case !time.Now().Before(ap.ExpiresAt):
		return errkind.Refused("%s: it expired at %s", doing, ap.ExpiresAt.UTC().Format(time.RFC3339))
	case d.Digest != ap.Digest:
		return errkind.Refused("%s: the digest does not match the request (%.12s…); look at the request again", doing, ap.Digest)
	}
	return nil
}

// Pick returns the approval with an id.
func Pick(list []protocol.Approval, doing, id string) (protocol.Approval, error) {
	for _, ap := range list {
		if ap.ID == id {
			return ap, nil
		}
	}
	session, _, _ := protocol.CutApproval(id)
	return protocol.Approval{}, errkind.NotFound("%s: session %s has no such approval, or it is too old to be kept in the session", doing, session).
		Hinted("`ctl approval list --all --session %s`; older ones are in the transcript", session)
}
