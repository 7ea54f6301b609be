package approval

import (
	"cmp"
	"context"
	"errors"

	"fairlead.dev/fairlead/cmd/ctl/internal/conn"
	"fairlead.dev/fairlead/cmd/ctl/internal/core"
	"fairlead.dev/fairlead/cmd/internal/flows"
	"fairlead.dev/fairlead/internal/protocol"
)

// Checked returns an approval with what ctl found out about its digest.
func Checked(ap protocol.Approval) protocol.Approval { return flows.Checked(ap) }

func verified(ap protocol.Approval) (protocol.Approval, error) { return flows.Verified(ap) }

func otherContent(doing string) *core.Error {
	return core.Refused("%s: %v", doing, protocol.ErrOtherContent).
		Hinted("whoever answers for the session gave a false account of it: decide nothing, and see who has workers on this Temporal namespace (`ctl status`)").Because(protocol.ErrOtherContent)
}

// An unsure is why nobody can tell whether what is shown gives the digest.
type unsure struct{ why error }

func (u *unsure) Error() string { return u.why.Error() }
func (u *unsure) Unwrap() error { return u.why }

// wholeAndChecked returns an approval, in full if it can be read. The error is an *unsure,
// or a refusal.
func wholeAndChecked(ctx context.Context, a *core.App, t *conn.Conn, doing string, ap protocol.Approval) (protocol.Approval, error) {
	if seen, err := verified(ap); err == nil {
		return seen, nil
	}
	full, unread := whole(ctx, a, t, ap)
	if ctx.Err() != nil {
		return ap, context.Cause(ctx)
	}
	seen, err := verified(full)
	switch {
	case err == nil:
		return seen, nil
	case errors.Is(err, protocol.ErrOtherContent):
		return ap, otherContent(doing)
	}
	return full, &unsure{cmp.Or(unread, err)}
}

// digestOf sets the decision's digest to that of what is asked, of which asked then has all
// that can be read. If nobody can tell whether what is asked gives the digest, the person
// must have named it, except to decline or cancel, which approves nothing.
func digestOf(ctx context.Context, a *core.App, t *conn.Conn, doing string, asked *protocol.Approval, d *protocol.Decide) error {
	named := d.Digest != ""
	if !named {
		d.Digest = asked.Digest
	}
	if asked.State != protocol.ApprovalOpen || asked.Decision != nil {
		if named {
			return nil // the session says why it refuses
		}
		return conn.StillOpen(doing, *asked, *d)
	}
	full, err := wholeAndChecked(ctx, a, t, doing, *asked)
	var open *unsure
	switch {
	case errors.As(err, &open) && !named && approves(d.Outcome):
		return core.Refused("%s: its digest cannot be checked: %v", doing, open).
			Hinted("look at it with `ctl approval show %s`; if you trust what that shows, add --digest with the digest that you approve", asked.ID).Because(open)
	case errors.As(err, &open):
		a.Note("the digest of %s cannot be checked, and is taken as it is: %v", asked.ID, open)
	case err != nil:
		return err
	case !named:
		a.Note("%s of %s, digest %.12s…", core.OneLine(full.Summary, 200), asked.ID, d.Digest)
	}
	*asked = full
	return nil
}

// approves reports whether an outcome lets codex do anything.
func approves(outcome string) bool {
	return outcome != "decline" && outcome != "cancel" && outcome != "revise"
}

// uncheckedText says why the digest of an open approval cannot be checked.
func uncheckedText(ap protocol.Approval) string {
	var err error
	switch ap.DigestCheck {
	case protocol.DigestOther:
		err = protocol.ErrOtherContent
	case protocol.DigestHidden:
		err = protocol.ErrHidden
	case protocol.DigestEarlier:
		err = protocol.ErrEarlier
	default: // that it is cut is said below it
		return ""
	}
	return err.Error()
}

// whatCell is the summary of an approval in a list.
func whatCell(ap protocol.Approval) core.Cell {
	if ap.DigestCheck == protocol.DigestOther {
		return core.Painted(core.Red, "a false account of the request: decide nothing")
	}
	return core.Plain(core.OneLine(ap.Summary, 60))
}
