package places

import (
	"context"
	"errors"
	"path"
	"slices"

	"go.temporal.io/sdk/activity"

	"fairlead.dev/fairlead/activities/folder"
	"fairlead.dev/fairlead/activities/hosts"
	"fairlead.dev/fairlead/activities/internal/kit"
	"fairlead.dev/fairlead/activities/logins"
	"fairlead.dev/fairlead/activities/site"
	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/hostexec/process"
	"fairlead.dev/fairlead/internal/protocol"
)

// StartServer starts codex app-server as a journaled process, or finds the running one. It
// fails while the former incarnation runs, because two processes must not write one thread.
func (s *Activities) StartServer(ctx context.Context, in StartServerInput) (StartServerResult, error) {
	wrote := site.CarryAudit(ctx, s.Site, in.Audit)
	attempt := activity.GetInfo(ctx).Attempt
	out, err := StartServer(ctx, s.Site, in, attempt)
	out.Audited = wrote()
	f := kit.Failing{Epoch: folder.EpochOf(in.Claim, attempt)}
	return out, f.Failure(ctx, "session "+in.Claim.Session+": start codex", err)
}

// StartServer does the activity's work.
func StartServer(ctx context.Context, s *site.Site, in StartServerInput, attempt int32) (StartServerResult, error) {
	var out StartServerResult
	l := in.Layout
	if err := folder.CheckLayout(l, in.Claim.Session); err != nil {
		return out, err
	}
	if in.Incarnation < 1 || !path.IsAbs(l.Codex) {
		return out, kit.BadInput("cannot start codex: incarnation %d (want at least 1), path of codex %q (want an absolute one)", in.Incarnation, l.Codex)
	}
	if err := site.CheckBounds(ctx, s, in.Claim.Session, in.Bounded, ""); err != nil {
		return out, err
	}
	h, err := s.Host(in.Claim.Host)
	if err != nil {
		return out, err
	}
	// before the lock, which would make the folder, perhaps on another disk
	if _, err := hosts.LookSession(ctx, s, h, in.Claim, l, true); err != nil {
		return out, err
	}
	if err := folder.FormerGone(ctx, h, l, in.Incarnation); err != nil {
		return out, err
	}
	guard, repaired, err := hosts.GuardCodex(ctx, s, h, in.Claim.Host, l)
	if err != nil {
		return out, err
	}
	st, err := process.Start(ctx, h, process.Spec{
		Dir:   folder.ServerDir(l, in.Incarnation),
		Fence: folder.FenceOf(in.Claim, l.Dir, attempt),
		Argv:  []string{l.Codex, "app-server"},
		Env:   serverEnv(s, l),
		Unset: hosts.UnsetKeys,
		Guard: guard.Script, GuardArgs: guard.Args,
		WorkDir: l.WorkDir,
		Mark:    folder.Mark(in.Claim.Session, in.Layout),
	})
	var not *process.StartError
	if errors.As(err, &not) && not.Guard != 0 {
		return out, guard.Refused(not.Guard)
	}
	if errors.As(err, &not) && !errors.Is(err, hostexec.ErrNoSpace) {
		return out, &kit.TypedError{Kind: protocol.ErrTypeCodexMissing, Hint: "check that " + l.Codex + " and the work folder still exist; `ctl host provision` installs codex", Err: err}
	}
	if err != nil {
		return out, err
	}
	if err := removeFormer(ctx, h, in, attempt); err != nil {
		// They only take space, and the next start tries again.
		s.Logger.Warn("folders of former processes are left", "session", in.Claim.Session, "err", err)
	}
	return StartServerResult{Process: folder.ServerName(in.Incarnation), PID: st.PID, CodexRepaired: repaired}, nil
}

// serverEnv returns codex's environment, which never contains a secret.
func serverEnv(s *site.Site, l protocol.Layout) map[string]string {
	env := map[string]string{
		"CODEX_HOME": l.CodexHome,
		// codex makes no helpers for a CODEX_HOME that lies in the temp folder
		"TMPDIR": l.Tmp(),
	}
	if s.TokenEndpoint != "" {
		env["CODEX_REFRESH_TOKEN_URL_OVERRIDE"] = s.TokenEndpoint
	}
	return env
}

// removeFormer removes the folders of processes older than the previous one, whose journals
// were read to the end.
func removeFormer(ctx context.Context, h hostexec.Host, in StartServerInput, attempt int32) error {
	if in.Incarnation < 3 {
		return nil
	}
	there, err := folder.ProcessesIn(ctx, h, in.Layout)
	if err != nil {
		return err
	}
	for i := in.Incarnation - 2; i >= 1; i-- {
		if !slices.Contains(there, folder.ServerName(i)) {
			continue
		}
		if err := process.Remove(ctx, h, folder.ServerDir(in.Layout, i), folder.FenceOf(in.Claim, in.Layout.Dir, attempt)); err != nil {
			return err
		}
	}
	return nil
}

// StopServer ends the process and everything that it left running, if any. If the disk is
// too full for the lock, it is retried as long as the retry policy allows.
func (s *Activities) StopServer(ctx context.Context, in StopServerInput) (StopServerResult, error) {
	attempt := activity.GetInfo(ctx).Attempt
	out, err := StopServer(ctx, s.Site, in, attempt)
	f := kit.Failing{Epoch: folder.EpochOf(in.Claim, attempt)}
	return out, f.Failure(ctx, "session "+in.Claim.Session+": stop codex", f.UntilRoom(err))
}

// StopServer does the activity's work.
func StopServer(ctx context.Context, s *site.Site, in StopServerInput, attempt int32) (StopServerResult, error) {
	var out StopServerResult
	if err := folder.CheckLayout(in.Layout, in.Claim.Session); err != nil {
		return out, err
	}
	h, err := s.Host(in.Claim.Host)
	if err != nil {
		return out, err
	}
	f, err := hosts.LookSession(ctx, s, h, in.Claim, in.Layout, true)
	if err != nil {
		return out, err
	}
	if !f.Exists {
		out.Survivors, err = folder.EndUnrecorded(ctx, h, in.Layout, in.Claim, attempt)
		return out, err
	}
	in.Layout = f.Layout(in.Layout)
	out.Survivors, err = folder.EndAll(ctx, h, in.Layout, in.Claim, in.Incarnation, attempt)
	if err == nil {
		keepLogin(ctx, s, h, in)
	}
	return out, err
}

// keepLogin saves a rotated login. The file stays, so that a later look can save what
// cannot be saved now.
func keepLogin(ctx context.Context, s *site.Site, h hostexec.Host, in StopServerInput) {
	if !folder.LoginRotates(in.Seed) {
		return
	}
	hide, err := site.HidingIn(ctx, s, in.Claim, in.Seed)
	if err != nil {
		s.Logger.Warn("login of a session is not looked at", "session", in.Claim.Session, "seed", in.Seed.Name, "error", err)
		return
	}
	logins.NewKeeper(s, h, in.Claim.Session, in.Layout.CodexHome, in.Seed, hide).Last(ctx)
}
