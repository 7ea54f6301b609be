package activities

import (
	"context"
	"errors"
	"path"
	"slices"

	"go.temporal.io/sdk/activity"

	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/hostexec/process"
	"fairlead.dev/fairlead/internal/protocol"
)

// StartServer starts codex app-server as a journaled process. When repeated, it finds the
// running process. It fails while the former incarnation runs, because two processes must
// not write one thread.
func (s *PlaceActs) StartServer(ctx context.Context, in StartServerInput) (StartServerResult, error) {
	attempt := activity.GetInfo(ctx).Attempt
	out, err := startServer(ctx, s.site, in, attempt)
	f := failing{epoch: epochOf(in.Claim, attempt)}
	return out, f.failure(ctx, "session "+in.Claim.Session+": start codex", err)
}

func startServer(ctx context.Context, s *site, in StartServerInput, attempt int32) (StartServerResult, error) {
	var out StartServerResult
	l := in.Layout
	if err := checkLayout(l, in.Claim.Session); err != nil {
		return out, err
	}
	if in.Incarnation < 1 || !path.IsAbs(l.Codex) {
		return out, badInput("incarnation %d of %q cannot be started", in.Incarnation, l.Codex)
	}
	h, err := s.host(in.Claim.Host)
	if err != nil {
		return out, err
	}
	// This comes before the lock is taken, because the lock would make the folder,
	// perhaps on another disk.
	if _, err := lookSession(ctx, s, h, in.Claim, l, true); err != nil {
		return out, err
	}
	if err := formerGone(ctx, h, l, in.Incarnation); err != nil {
		return out, err
	}
	st, err := process.Start(ctx, h, process.Spec{
		Dir:     serverDir(l, in.Incarnation),
		Fence:   fenceOf(in.Claim, l.Dir, attempt),
		Argv:    []string{l.Codex, "app-server"},
		Env:     serverEnv(s, l),
		Unset:   unsetKeys,
		WorkDir: l.WorkDir,
		Mark:    Mark(in.Claim.Session, in.Layout),
	})
	var not *process.StartError
	if errors.As(err, &not) && !errors.Is(err, hostexec.ErrNoSpace) {
		return out, &typedError{kind: protocol.ErrTypeCodexMissing, hint: "see whether " + l.Codex + " and the work folder are still there; `ctl host provision`", err: err}
	}
	if err != nil {
		return out, err
	}
	if err := removeFormer(ctx, h, in, attempt); err != nil {
		// The folders only take space, and the next start tries again.
		s.Logger.Warn("folders of former processes are left", "session", in.Claim.Session, "err", err)
	}
	return StartServerResult{Process: serverName(in.Incarnation), PID: st.PID}, nil
}

// serverEnv returns codex's environment. It never contains a secret.
func serverEnv(s *site, l protocol.Layout) map[string]string {
	env := map[string]string{
		"CODEX_HOME": l.CodexHome,
		// This is not the host's temp folder, because codex makes no helpers for a
		// CODEX_HOME that lies in the temp folder.
		"TMPDIR": path.Join(l.Dir, "tmp"),
	}
	if s.TokenEndpoint != "" {
		env["CODEX_REFRESH_TOKEN_URL_OVERRIDE"] = s.TokenEndpoint
	}
	return env
}

// removeFormer removes the folders of processes older than the previous one. Before the
// present process began, their journals were read to the end, and what they left
// running was ended.
func removeFormer(ctx context.Context, h hostexec.Host, in StartServerInput, attempt int32) error {
	if in.Incarnation < 3 {
		return nil
	}
	there, err := processesIn(ctx, h, in.Layout)
	if err != nil {
		return err
	}
	for i := in.Incarnation - 2; i >= 1; i-- {
		if !slices.Contains(there, serverName(i)) {
			continue
		}
		if err := process.Remove(ctx, h, serverDir(in.Layout, i), fenceOf(in.Claim, in.Layout.Dir, attempt)); err != nil {
			return err
		}
	}
	return nil
}

// StopServer ends the process and everything that it left running. It also succeeds if
// the process has ended or was never started. If the disk is too full for the lock, the
// activity is retried for as long as the workflow's retry policy allows.
func (s *PlaceActs) StopServer(ctx context.Context, in StopServerInput) (StopServerResult, error) {
	attempt := activity.GetInfo(ctx).Attempt
	out, err := stopServer(ctx, s.site, in, attempt)
	f := failing{epoch: epochOf(in.Claim, attempt)}
	return out, f.failure(ctx, "session "+in.Claim.Session+": stop codex", f.untilRoom(err))
}

func stopServer(ctx context.Context, s *site, in StopServerInput, attempt int32) (StopServerResult, error) {
	var out StopServerResult
	if err := checkLayout(in.Layout, in.Claim.Session); err != nil {
		return out, err
	}
	h, err := s.host(in.Claim.Host)
	if err != nil {
		return out, err
	}
	f, err := lookSession(ctx, s, h, in.Claim, in.Layout, true)
	if err != nil {
		return out, err
	}
	if !f.exists {
		out.Survivors, err = endUnrecorded(ctx, h, in.Layout, in.Claim, attempt)
		return out, err
	}
	out.Survivors, err = endAll(ctx, h, in.Layout, in.Claim, in.Incarnation, attempt)
	if err == nil {
		keepLogin(ctx, s, h, in)
	}
	return out, err
}

// keepLogin saves a login that codex rotated before it ended. The file stays, so that a
// later look can save a login that cannot be saved now.
func keepLogin(ctx context.Context, s *site, h hostexec.Host, in StopServerInput) {
	if !loginRotates(in.Seed) {
		return
	}
	hide, err := hidingIn(ctx, s, in.Claim, in.Seed)
	if err != nil {
		s.Logger.Warn("login of a session is not looked at", "session", in.Claim.Session, "seed", in.Seed.Name, "error", err)
		return
	}
	newKeeper(s, h, in.Claim.Session, in.Layout.CodexHome, in.Seed, hide).last(ctx)
}
