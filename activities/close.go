package activities

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"go.temporal.io/sdk/activity"

	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/seeds"
	"fairlead.dev/fairlead/snapshots"
)

// CloseSession ends what a session has on its host, in this order: processes
// end, a credential that codex rotated is kept, work and rollouts are kept,
// the credential is wiped, our folder is removed, and that is looked at; then
// the last notes are written. Each step may be repeated. A step that fails
// leaves the later ones undone, and the error says what stays on the host.
func (s *Sessions) CloseSession(ctx context.Context, in CloseSessionInput) (CloseSessionResult, error) {
	attempt := activity.GetInfo(ctx).Attempt
	f := failing{epoch: in.Claim.epoch(attempt)}
	what := "close session " + in.Claim.Session
	sec, err := s.hidingIn(ctx, in.Claim, in.Seed)
	if err != nil && !in.Discard {
		return CloseSessionResult{}, f.failure(ctx, what, err)
	}
	f.hide = sec.all
	out, err := s.close(ctx, in, attempt, sec)
	hideIn(sec.all, &out)
	return out, f.failure(ctx, what, err)
}

func (s *Sessions) close(ctx context.Context, in CloseSessionInput, attempt int32, hide secrets) (CloseSessionResult, error) {
	out := CloseSessionResult{Seq: in.Seq}
	h, err := s.host(in.Claim.Host)
	if err != nil {
		return out, err
	}
	if in.Layout == (Layout{}) {
		// Preparing failed, or its answer was lost: what it left is where it
		// would have been.
		root, err := hostexec.Root(ctx, h, in.Claim.Host)
		if err != nil {
			return out, fmt.Errorf("find the root folder: %w", err)
		}
		in.Layout = layoutOf(root, in.Claim.Session)
	}
	if err := in.Layout.check(in.Claim.Session); err != nil {
		return out, err
	}
	there, err := isThere(ctx, h, in.Layout.Dir)
	if err != nil {
		return out, stays(h, in.Layout, err)
	}
	if there {
		err = s.clear(ctx, h, in, attempt, hide, &out)
	} else if out.Survivors, err = endUnrecorded(ctx, h, in.Layout, in.Claim, attempt); err == nil {
		var last archive
		last, err = s.archived(ctx, in)
		out.Archive = last.id
	}
	if err != nil {
		return out, err
	}
	out.Wiped, out.Removed = true, true
	out.Seq, err = s.record(ctx, in.Claim.Session, owner{in.Claim.Generation, in.Claim.Pump, 1}, in.Seq, append(in.Notes, out.notes...), hide.all)
	if err == nil {
		s.forgetHeard(ctx, in.Claim.Session, in.Claim.Generation)
		s.forgetAnswers(ctx, in.Claim.Session, in.Claim.Host.Name)
		s.forgetTokens(ctx, in.Claim.Session)
	}
	return out, err
}

// ErrTypeDiscarded: a session is closed, and what could not be saved was given
// up since somebody said so.
const ErrTypeDiscarded = "discarded"

// discardAfter is how long saving may take when it may also be given up.
const discardAfter = 2 * time.Minute

// save keeps a rotated login, the rollouts and our work folder. Discard gives
// up what cannot be saved, not what can.
func (s *Sessions) save(ctx context.Context, h hostexec.Host, in CloseSessionInput, hide secrets, out *CloseSessionResult) error {
	saving, cancel := whileSaving(ctx, in.Discard)
	defer cancel()
	saved := s.saveLogin(saving, h, in.Claim.Session, in.Layout, in.Seed, hide)
	if out.Unsaved = saved != nil; saved != nil && !in.Discard {
		return saved
	}
	if in.Seed != nil && hide.all == nil {
		// What commands printed of it would be kept in clear.
		return errors.Join(saved, fmt.Errorf("seed %s cannot be read, so nobody knows what must not be kept of it", in.Seed.Name))
	}
	err := s.takes.inTurn(ctx, in.Claim.Host, func() (err error) {
		saving, cancel := whileSaving(ctx, in.Discard)
		defer cancel()
		out.Archive, err = s.archive(saving, h, in, hide)
		return err
	})
	return errors.Join(saved, err)
}

// whileSaving bounds how long something is saved that may be given up. To wait
// for one's turn is no part of it.
func whileSaving(ctx context.Context, discard bool) (context.Context, context.CancelFunc) {
	if discard {
		return context.WithTimeout(ctx, discardAfter)
	}
	return context.WithCancel(ctx)
}

// saveLogin says why the host may have what is left of a rotating login, and
// nobody else; nil if that is not so.
func (s *Sessions) saveLogin(ctx context.Context, h hostexec.Host, session string, l Layout, seed *SeedRef, hide secrets) error {
	if seed.rotates() && hide.auth == nil {
		return fmt.Errorf("seed %s cannot be read, so nobody can tell whether its login was rotated", seed.Name)
	}
	err := s.keeper(h, session, l.CodexHome, seed, hide).saveBack(ctx)
	if !errors.Is(err, errSeedFenced) {
		return err
	}
	// Whoever ended the lease has answered for what is here, unless the seed
	// waits for it: then its recovery fetches it, and nobody else wipes it.
	now, nerr := s.desk.now(ctx, seed.Name)
	epoch, waits := now.Holders[session]
	if nerr != nil || waits && epoch == seed.Epoch || now.Rotated != nil && now.Rotated.Holder == session {
		return errors.Join(err, nerr)
	}
	s.Logger.Warn("the session did not hold its seed any more; its login goes", "session", session, "seed", seed.Name)
	return nil
}

// clear does what is to be done while the session's folder is there.
func (s *Sessions) clear(ctx context.Context, h hostexec.Host, in CloseSessionInput, attempt int32, hide secrets, out *CloseSessionResult) error {
	l, fence := in.Layout, in.Claim.fence(in.Layout.Dir, attempt)
	var err error
	if out.Survivors, err = endAll(ctx, h, l, in.Claim, in.Incarnation, attempt); err != nil {
		return stays(h, l, err)
	}
	if in.Workspace != nil {
		notes, err := s.closingHooks(ctx, s.workspaceJob(h, l, in.Claim, attempt, nil), in.Workspace, hide)
		if err != nil {
			return stays(h, l, err)
		}
		out.notes = notes
	}
	if err = s.save(ctx, h, in, hide, out); err != nil {
		if !in.Discard || ctx.Err() != nil || isBusy(err) {
			out.Unsaved = false
			return stays(h, l, err)
		}
		out.Problem = &Problem{Kind: ErrTypeDiscarded, Message: fmt.Sprintf("discarded what could not be saved: %v", err)}
	}
	if err := seeds.Wipe(ctx, h, l.CodexHome, l.Dir, &fence); err != nil {
		return stays(h, l, err)
	}
	out.Wiped = true
	if in.Workspace != nil && in.Workspace.Keep && l.OwnWork {
		if out.Kept, err = keepWork(ctx, h, l, in.Claim, fence); err != nil {
			return stays(h, l, err)
		}
	}
	return s.removeFolder(ctx, h, l, fence)
}

// stays says what is still on a host, because a step before the wiping failed.
func stays(h hostexec.Host, l Layout, err error) error {
	return fmt.Errorf("the credential, the work and the conversation stay on %s in %s for now: %w", h.Name(), l.Dir, err)
}

// closingID names the snapshot that closing a session makes, so that every
// attempt finds the one that is complete. The thread is in it because Temporal
// forgets ids of sessions after a while, and they are free again.
// Earlier ones lack what could not be read.
func closingID(in CloseSessionInput, at time.Time, earlier int) string {
	return idOf(in.Claim.Session, at, fmt.Sprintf("closed %s %d %s", in.Claim.Session, in.Claim.Generation, in.ThreadID)+again(earlier))
}

// An archive is what earlier attempts have completed of a last snapshot.
type archive struct {
	id      string // empty if none did
	whole   bool   // nothing that goes with the folder could not be read
	earlier int    // those that are not
}

func (s *Sessions) archived(ctx context.Context, in CloseSessionInput) (a archive, err error) {
	all, err := snapshots.List(ctx, s.Store, in.Claim.Session)
	if err != nil {
		return a, fmt.Errorf("look for what is kept of it: %w", err)
	}
	for ; ; a.earlier++ {
		mark := closingID(in, s.Now(), a.earlier)
		mark = mark[strings.LastIndex(mark, "-"):]
		i := slices.IndexFunc(all, func(m snapshots.Manifest) bool { return m.Complete && strings.HasSuffix(m.ID, mark) })
		if i < 0 {
			return a, nil
		}
		if !madeBy(all[i], closingTake(in)) {
			continue
		}
		a.id = all[i].ID
		if a.whole = whole(all[i], in.Layout.OwnWork) == nil; a.whole {
			return a, nil
		}
	}
}

// closingTake is the last snapshot of a session that closes, but for its id.
func closingTake(in CloseSessionInput) taking {
	spec := lastSpec(in.Snapshot)
	spec.ThreadID = cmp.Or(in.ThreadID, spec.ThreadID)
	return taking{TakeSnapshotInput: TakeSnapshotInput{Claim: in.Claim, Layout: in.Layout, SnapshotSpec: spec}, ownWork: in.Snapshot == nil}
}

// archive makes the session's last snapshot. It returns once every byte was
// read back from the store. A session that never had a thread and did no work
// leaves nothing worth keeping.
func (s *Sessions) archive(ctx context.Context, h hostexec.Host, in CloseSessionInput, hide secrets) (string, error) {
	last, err := s.archived(ctx, in)
	if err != nil || last.whole {
		return last.id, err
	}
	if err := s.hidePlanted(ctx, h, in.Layout, hide); err != nil {
		return "", err
	}
	t := closingTake(in)
	t.id = closingID(in, s.Now(), last.earlier)
	got, err := s.takeWhole(ctx, h, t, hide)
	if got == nil && err != nil && cannotBeKept(err) && (in.Discard || !in.Layout.OwnWork) {
		// A person's folder stays where it is, and whoever discards gives up the
		// work alone: neither is a reason to lose the conversation.
		s.Logger.Warn("only the conversation is kept", "session", in.Claim.Session, "dir", in.Layout.WorkDir, "error", err)
		work := err
		t.Policy.Work = WorkNone
		if got, err = s.takeWhole(ctx, h, t, hide); in.Layout.OwnWork {
			err = errors.Join(work, err)
		}
	}
	if got == nil {
		return "", err
	}
	return got.ID, err
}

// worthKeeping says whether there is anything but folders. What find cannot
// look into is not nothing. Of the folders that must be there it says which is
// gone.
func worthKeeping(ctx context.Context, h hostexec.Host, codexHome, work string, must ...string) (any bool, gone string, err error) {
	res, err := h.Run(ctx, hostexec.Command{
		Script: `home=$1 work=$2
shift 2
for d do
	[ -d "$d" ] || { printf 'gone %s' "$d"; exit 0; }
done
for d in "$home/sessions" "$home/archived_sessions" ${work:+"$work"}; do
	[ ! -d "$d" ] || [ -z "$(find "$d" ! -type d -print 2>&1 | head -n 1)" ] || { echo y; exit 0; }
done
echo n`, Args: append([]string{codexHome, work}, must...),
	})
	if err != nil {
		return false, "", fmt.Errorf("look for what to keep on %s: %w", h.Name(), err)
	}
	gone, _ = strings.CutPrefix(string(res.Stdout), "gone ")
	if gone == string(res.Stdout) {
		gone = ""
	}
	return string(res.Stdout) != "n\n", gone, nil
}

// removeMountPoints removes what codex left in a person's folder: only those
// of its mount points that are empty and were not there when we came.
func removeMountPoints(ctx context.Context, h hostexec.Host, l Layout, fence hostexec.Fence) error {
	_, err := h.Run(ctx, hostexec.Command{
		Script: `before=$1 work=$2
shift 2
[ -r "$before" ] && [ -d "$work" ] || exit 0
for m in "$@"; do
	[ -h "$work/$m" ] || [ ! -d "$work/$m" ] || grep -qxF -e "$m" "$before" || rmdir -- "$work/$m" 2>/dev/null
done
:`,
		Args:  append([]string{path.Join(l.Dir, "before"), l.WorkDir}, mountPoints...),
		Fence: &fence,
	})
	if err != nil {
		return fmt.Errorf("tidy up %s: %w", l.WorkDir, err)
	}
	return nil
}
