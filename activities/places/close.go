package places

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

	"fairlead.dev/fairlead/activities/folder"
	"fairlead.dev/fairlead/activities/hosts"
	"fairlead.dev/fairlead/activities/internal/kit"
	"fairlead.dev/fairlead/activities/logins"
	"fairlead.dev/fairlead/activities/pumps"
	"fairlead.dev/fairlead/activities/records"
	"fairlead.dev/fairlead/activities/site"
	"fairlead.dev/fairlead/activities/snaps"
	"fairlead.dev/fairlead/activities/workspaces"
	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/seeds"
	"fairlead.dev/fairlead/snapshots"
)

// CloseSession ends processes, saves a rotated login, keeps work and rollouts, wipes the
// credential, removes our folder and writes the last notes, in this order. If a step fails,
// the later ones are not done, and the error says what stays on the host.
func (s *Activities) CloseSession(ctx context.Context, in CloseSessionInput) (CloseSessionResult, error) {
	wrote := site.CarryAudit(ctx, s.Site, in.Audit)
	attempt := activity.GetInfo(ctx).Attempt
	f := kit.Failing{Epoch: folder.EpochOf(in.Claim, attempt)}
	what := "close session " + in.Claim.Session
	sec, err := site.HidingIn(ctx, s.Site, in.Claim, in.Seed)
	if err != nil && !in.Discard {
		return CloseSessionResult{}, f.Failure(ctx, what, err)
	}
	f.Hide = sec.All
	out, err := CloseSession(ctx, s.Site, in, attempt, sec)
	kit.HideIn(sec.All, &out)
	out.Audited = wrote()
	return out, f.Failure(ctx, what, err)
}

// CloseSession does the activity's work.
func CloseSession(ctx context.Context, s *site.Site, in CloseSessionInput, attempt int32, hide site.Secrets) (CloseSessionResult, error) {
	out := CloseSessionResult{Seq: in.Seq}
	h, err := s.Host(in.Claim.Host)
	if err != nil {
		return out, err
	}
	prepared := in.Layout != (protocol.Layout{})
	if !prepared {
		// PrepareSession failed, or its answer was lost.
		root, err := hostexec.Root(ctx, h, in.Claim.Host)
		if err != nil {
			return out, fmt.Errorf("find the root folder: %w", err)
		}
		in.Layout = folder.LayoutOf(root, in.Claim.Session)
	}
	if err := folder.CheckLayout(in.Layout, in.Claim.Session); err != nil {
		return out, err
	}
	f, err := hosts.LookSession(ctx, s, h, in.Claim, in.Layout, prepared)
	if in.Discard && errors.Is(err, folder.ErrStray) {
		out.Problem = &protocol.Problem{Kind: protocol.ErrTypeDiscarded, Message: fmt.Sprintf("removed links of the session's folder: %v", err)}
		f, err = lookWithoutLinks(ctx, s, h, in.Claim, in.Layout, prepared, attempt)
	}
	if err != nil && !(in.Discard && prepared && kit.IsRootMissing(err)) {
		return out, stays(h, in.Layout, err)
	}
	in.Layout = f.Layout(in.Layout)
	gone := true
	if err != nil {
		gone, out.Unsaved = false, folder.LoginRotates(in.Seed)
		out.Problem = &protocol.Problem{Kind: protocol.ErrTypeDiscarded, Message: fmt.Sprintf("gave up the session's folder, which could not be examined and may still exist: %v", err)}
		out.Survivors, err = hosts.GiveUpRoot(ctx, h, in.Layout, in.Claim, attempt)
	} else if f.Exists {
		err = clearFolder(ctx, s, h, in, attempt, hide, &out)
	} else if out.Survivors, err = folder.EndUnrecorded(ctx, h, in.Layout, in.Claim, attempt); err == nil {
		var last archive
		last, err = isArchived(ctx, s, in)
		out.Archive = last.id
	}
	if err != nil {
		return out, err
	}
	out.Wiped, out.Removed = gone, gone
	out.Seq, err = site.Record(ctx, s, in.Claim.Session, records.Owner{Generation: in.Claim.Generation, Pump: in.Claim.Pump, Part: 1}, in.Seq, append(in.Notes, out.notes...), hide.All)
	if err == nil {
		pumps.ForgetHeard(ctx, s, in.Claim.Session, in.Claim.Generation)
		site.ForgetAnswers(ctx, s, in.Claim.Session, in.Claim.Host.Name)
		workspaces.ForgetTokens(ctx, s, in.Claim.Session)
		hosts.ForgetRooted(ctx, s, in.Claim, in.Claim.Generation)
	}
	return out, err
}

// lookWithoutLinks looks at a session's folder after it has removed the links there. They lead
// to what is another session's.
func lookWithoutLinks(ctx context.Context, s *site.Site, h hostexec.Host, c protocol.Claim, l protocol.Layout, prepared bool, attempt int32) (folder.Folder, error) {
	if err := folder.Unlink(ctx, h, l, folder.FenceOf(c, l.Dir, attempt)); err != nil {
		return folder.Folder{}, err
	}
	return hosts.LookSession(ctx, s, h, c, l, prepared)
}

const discardAfter = 2 * time.Minute

// saveAll keeps a rotated login, the rollouts and our work folder. With Discard, it gives
// up only what cannot be saved.
func saveAll(ctx context.Context, s *site.Site, h hostexec.Host, in CloseSessionInput, hide site.Secrets, out *CloseSessionResult) error {
	saving, cancel := whileSaving(ctx, in.Discard)
	defer cancel()
	saved := saveLogin(saving, s, h, in.Claim.Session, in.Layout, in.Seed, hide, true)
	if out.Unsaved = saved != nil; saved != nil && !in.Discard {
		return saved
	}
	if in.Seed != nil && hide.All == nil {
		// commands may have printed secrets of the seed
		return errors.Join(saved, fmt.Errorf("seed %s cannot be read, so its secrets are not known and cannot be kept out of the snapshot", in.Seed.Name))
	}
	err := s.Takes.InTurn(ctx, in.Claim.Host, func() (err error) {
		saving, cancel := whileSaving(ctx, in.Discard)
		defer cancel()
		out.Archive, err = archiveFolder(saving, s, h, in, hide)
		return err
	})
	return errors.Join(saved, err)
}

// whileSaving limits the time for saving, without the wait at the gate, if discard is set.
func whileSaving(ctx context.Context, discard bool) (context.Context, context.CancelFunc) {
	if discard {
		return context.WithTimeout(ctx, discardAfter)
	}
	return context.WithCancel(ctx)
}

// saveLogin saves a rotating login after codex has ended. An error means that the host may
// have the only copy. If leaves is set, the login is wiped next, so it is also saved under
// a lease of an earlier workflow of the seed.
func saveLogin(ctx context.Context, s *site.Site, h hostexec.Host, session string, l protocol.Layout, seed *protocol.SeedRef, hide site.Secrets, leaves bool) error {
	if folder.LoginRotates(seed) && hide.Auth == nil {
		return fmt.Errorf("seed %s cannot be read, so it is not known whether its login was rotated", seed.Name)
	}
	k := logins.NewKeeper(s, h, session, l.CodexHome, seed, hide)
	if k != nil {
		k.Left = leaves
	}
	err := k.SaveBack(ctx)
	if !errors.Is(err, kit.ErrSeedFenced) {
		return err
	}
	// The login of an ended lease was saved or given up by then. But if the seed waits for
	// it, only the seed's recovery may fetch and wipe it; and a seed's workflow that was
	// started anew does not know the lease.
	now, nerr := s.Desk.Now(ctx, seed.Name)
	epoch, waits := now.Holders[session]
	switch {
	case nerr != nil, waits && epoch == seed.Epoch, now.Rotated != nil && now.Rotated.Holder == session:
		return errors.Join(err, nerr)
	case now.Ref == nil, now.Forgot(session, seed.Epoch):
		if !leaves {
			return err
		}
		return onlyThere(seed, "%w, and codex may have rotated the login in %s on %s since", err, l.CodexHome, h.Name())
	}
	s.Logger.Warn("the session does not hold its seed any more; its login is not saved", "session", session, "seed", seed.Name)
	return nil
}

func clearFolder(ctx context.Context, s *site.Site, h hostexec.Host, in CloseSessionInput, attempt int32, hide site.Secrets, out *CloseSessionResult) error {
	l, fence := in.Layout, folder.FenceOf(in.Claim, in.Layout.Dir, attempt)
	var err error
	if out.Survivors, err = folder.EndAll(ctx, h, l, in.Claim, in.Incarnation, attempt); err != nil {
		return stays(h, l, err)
	}
	if in.Workspace != nil {
		notes, err := workspaces.ClosingHooks(ctx, s, workspaces.WorkspaceJob(s, h, l, in.Claim, attempt, nil), in.Workspace, hide)
		if err != nil {
			return stays(h, l, err)
		}
		out.notes = notes
	}
	if err = saveAll(ctx, s, h, in, hide, out); err != nil {
		if !in.Discard || ctx.Err() != nil || kit.IsBusy(err) {
			out.Unsaved = false
			return stays(h, l, err)
		}
		out.Problem = &protocol.Problem{Kind: protocol.ErrTypeDiscarded, Message: fmt.Sprintf("discarded what could not be saved: %v", err)}
	}
	if err := seeds.Wipe(ctx, h, l.CodexHome, l.Seen(), &fence); err != nil {
		return stays(h, l, err)
	}
	out.Wiped = true
	if in.Workspace != nil && in.Workspace.Keep && l.OwnWork {
		if out.Kept, err = workspaces.KeepWork(ctx, h, l, in.Claim, fence); err != nil {
			return stays(h, l, err)
		}
	}
	return removeFolder(ctx, s, h, l, fence)
}

// stays adds what is still on the host to an error before the wiping.
func stays(h hostexec.Host, l protocol.Layout, err error) error {
	return fmt.Errorf("the credential, the work and the conversation stay on %s in %s for now: %w", h.Name(), l.Dir, err)
}

// ClosingID names the snapshot that closing a session makes, the same for every attempt. It
// contains the thread because session ids are used again. earlier counts closing snapshots
// that lack something.
func ClosingID(in CloseSessionInput, at time.Time, earlier int) string {
	return snaps.IdOf(in.Claim.Session, at, fmt.Sprintf("closed %s %d %s", in.Claim.Session, in.Claim.Generation, in.ThreadID)+snaps.Again(earlier))
}

type archive struct {
	id      string
	whole   bool // has all that is removed with the folder
	earlier int  // earlier ones that are not whole, or of something else
}

func isArchived(ctx context.Context, s *site.Site, in CloseSessionInput) (a archive, err error) {
	all, err := snapshots.List(ctx, s.Store, in.Claim.Session)
	if err != nil {
		return a, fmt.Errorf("look for the session's last snapshot: %w", err)
	}
	for ; ; a.earlier++ {
		mark := ClosingID(in, s.Now(), a.earlier)
		mark = mark[strings.LastIndex(mark, "-"):]
		i := slices.IndexFunc(all, func(m snapshots.Manifest) bool { return m.Complete && strings.HasSuffix(m.ID, mark) })
		if i < 0 {
			return a, nil
		}
		if !snaps.MadeBy(all[i], closingTake(in)) {
			continue
		}
		a.id = all[i].ID
		if a.whole = snaps.Whole(all[i], in.Layout.OwnWork) == nil; a.whole {
			return a, nil
		}
	}
}

func closingTake(in CloseSessionInput) snaps.Taking {
	spec := lastSpec(in.Snapshot)
	spec.ThreadID = cmp.Or(in.ThreadID, spec.ThreadID)
	return snaps.Taking{TakeSnapshotInput: snaps.TakeSnapshotInput{Claim: in.Claim, Layout: in.Layout, SnapshotSpec: spec}, OwnWork: in.Snapshot == nil}
}

// archiveFolder makes the session's last snapshot and reads every byte back. It returns ""
// if there was no thread and no work.
func archiveFolder(ctx context.Context, s *site.Site, h hostexec.Host, in CloseSessionInput, hide site.Secrets) (string, error) {
	last, err := isArchived(ctx, s, in)
	if err != nil || last.whole {
		return last.id, err
	}
	if err := snaps.HidePlanted(ctx, s, h, in.Layout, hide); err != nil {
		return "", err
	}
	t := closingTake(in)
	t.ID = ClosingID(in, s.Now(), last.earlier)
	got, err := snaps.TakeWhole(ctx, s, h, t, hide)
	if got == nil && err != nil && cannotBeKept(err) && (in.Discard || !in.Layout.OwnWork) {
		// A person's folder stays, and Discard gives up the work alone.
		s.Logger.Warn("only the conversation is kept", "session", in.Claim.Session, "dir", in.Layout.WorkDir, "error", err)
		work := err
		t.Policy.Work = protocol.WorkNone
		if got, err = snaps.TakeWhole(ctx, s, h, t, hide); in.Layout.OwnWork {
			err = errors.Join(work, err)
		}
	}
	if got == nil {
		return "", err
	}
	return got.ID, err
}

// removeMountPoints removes codex's empty mount points from a person's folder, unless they
// were there before the session.
func removeMountPoints(ctx context.Context, h hostexec.Host, l protocol.Layout, fence hostexec.Fence) error {
	_, err := h.Run(ctx, hostexec.Command{
		Script: `before=$1 work=$2
shift 2
[ -r "$before" ] && [ -d "$work" ] || exit 0
for m in "$@"; do
	[ -h "$work/$m" ] || [ ! -d "$work/$m" ] || grep -qxF -e "$m" "$before" || rmdir -- "$work/$m" 2>/dev/null
done
:`,
		Args:  append([]string{path.Join(l.Dir, "before"), l.WorkDir}, folder.MountPoints...),
		Fence: &fence,
	})
	if err != nil {
		return fmt.Errorf("tidy up %s: %w", l.WorkDir, err)
	}
	return nil
}
