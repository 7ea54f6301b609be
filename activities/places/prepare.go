package places

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"

	"go.temporal.io/sdk/activity"
	"golang.org/x/sync/errgroup"

	"fairlead.dev/fairlead/activities/folder"
	"fairlead.dev/fairlead/activities/gateways"
	"fairlead.dev/fairlead/activities/hosts"
	"fairlead.dev/fairlead/activities/internal/kit"
	"fairlead.dev/fairlead/activities/logins"
	"fairlead.dev/fairlead/activities/pumps"
	"fairlead.dev/fairlead/activities/site"
	"fairlead.dev/fairlead/activities/snaps"
	"fairlead.dev/fairlead/activities/workspaces"
	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/hostexec/process"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/seeds"
)

// Activities are those of a session's place on a host.
type Activities struct{ Site *site.Site }

// New makes the activities of a worker.
func New(s *site.Site) *Activities { return &Activities{Site: s} }

// PrepareSession puts codex, the session's folders and its credential on the host. First it
// tries, with a made-up credential, that commands are confined as asked and can read neither
// the credential nor what else is private on the host. Without a seed the session still has
// its own CODEX_HOME: codex never uses a login of the host's user. A failed PrepareSession
// leaves no credential, and no folder that it made.
func (s *Activities) PrepareSession(ctx context.Context, in PrepareSessionInput) (PrepareSessionResult, error) {
	attempt := activity.GetInfo(ctx).Attempt
	f := kit.Failing{Epoch: folder.EpochOf(in.Claim, attempt)}
	what := "prepare session " + in.Claim.Session
	sec, err := site.HidingIn(ctx, s.Site, in.Claim, in.Seed)
	if err != nil {
		return PrepareSessionResult{}, f.Failure(ctx, what, err)
	}
	f.Hide = sec.All
	p, quiet := kit.ReportProgress(ctx)
	defer quiet()
	in.Stop = activity.GetWorkerStopChannel(ctx)
	out, err := PrepareSession(ctx, s.Site, in, attempt, sec, p)
	if errors.Is(err, kit.ErrHandOver) {
		f.Delay = kit.HandOver
	}
	if err != nil {
		return PrepareSessionResult{}, f.Failure(ctx, what, err)
	}
	out.Differs = sec.All.String(out.Differs)
	return out, nil
}

// PrepareSession does the activity's work.
func PrepareSession(ctx context.Context, s *site.Site, in PrepareSessionInput, attempt int32, hide site.Secrets, p *kit.Progress) (PrepareSessionResult, error) {
	var out PrepareSessionResult
	if err := kit.CheckID("session", in.Claim.Session); err != nil {
		return out, err
	}
	if !protocol.IsSandbox(in.Sandbox) {
		return out, kit.BadInput("sandbox %q is not read-only, workspace-write, danger-full-access or profile", in.Sandbox)
	}
	gateway, err := gateways.ByDefault(ctx, s, in.Claim, in.Credentials, in.Seed)
	if err != nil {
		return out, err
	}
	if gateway {
		in.Credentials = protocol.CredentialsGateway
		out.Credentials = in.Credentials
	}
	if err := site.CheckBounds(ctx, s, in.Claim.Session, in.Bounded, in.Credentials); err != nil {
		return out, err
	}
	if err := site.KeepPolicies(ctx, s, in.Policies); err != nil {
		return out, err
	}
	if in.Workspace != nil {
		if err := in.Workspace.Check(); err != nil {
			return out, kit.BadInput("workspace: %w", err)
		}
	}
	bundle, err := s.Bundle(ctx, in.Seed)
	if err != nil {
		return out, err
	}
	rules, err := rulesOf(bundle, in.Seed, hide)
	if err != nil {
		return out, err
	}
	if err := logins.CheckBroker(in.Credentials, in.Seed); err != nil {
		return out, err
	}
	if err := gateways.Check(in.Credentials, in.Seed, in.Claim.Host); err != nil {
		return out, err
	}
	if err := gateways.CheckEgress(s, in.Egress, in.Credentials); err != nil {
		return out, err
	}
	switch in.Credentials {
	case protocol.CredentialsBroker:
		bundle = bundle.WithoutAuth()
	case protocol.CredentialsGateway:
		if err = gateways.CheckBundle(bundle); err == nil {
			bundle, err = bundle.ForGateway()
		}
		if err != nil {
			return out, kit.BadInput("seed %s for the model gateway: %w", in.Seed.Name, err)
		}
	}
	told, err := instructions(ctx, s, in, bundle)
	if err == nil {
		err = site.CheckTools(ctx, s, in.Claim.Session, in.Seed, in.Team)
	}
	if err != nil {
		return out, err
	}
	h, err := s.Host(in.Claim.Host)
	if err != nil {
		return out, err
	}
	root, err := hostexec.Root(ctx, h, in.Claim.Host)
	if err != nil {
		return out, fmt.Errorf("find the root folder: %w", err)
	}
	l := folder.LayoutOf(root, in.Claim.Session)
	if in.Dir != "" && in.Restore.From() == "" {
		if in.Dir, err = personsDir(ctx, h, in.Dir); err != nil {
			return out, err
		}
	}
	var m hosts.Machine
	both, each := errgroup.WithContext(ctx) // one round trip
	both.Go(func() error { return hosts.Enter(each, s, h, in.Claim, root) })
	both.Go(func() (err error) { m, err = hosts.LookAtMachine(each, h, root); return err })
	if err := both.Wait(); err != nil {
		return out, err
	}
	codex, err := hosts.CodexOn(ctx, s, h, in.Claim.Host, root, m)
	if err != nil {
		return out, err
	}
	if err := logins.CheckBrokerCodex(in.Credentials, codex.Version); err != nil {
		return out, err
	}
	l.Codex, l.CodexSums = codex.Path, codex.Sums
	from, cannot := restorable(ctx, s, in, codex.Version)
	a, err := arrive(ctx, s, h, l, in, cannot, attempt, hide)
	if err != nil {
		return out, err
	}
	if cannot != nil {
		s.Logger.Warn("snapshot cannot be read; the folder on the host has all of it", "session", in.Claim.Session, "snapshot", in.Restore.Snapshot, "error", cannot)
	}
	l = a.layout
	if a.mark.Seed != in.Seed && !protocol.NoLoginOnHost(in.Credentials) {
		if bundle, err = s.Bundle(ctx, a.mark.Seed); err == nil {
			told, err = instructions(ctx, s, in, bundle)
		}
		if err != nil {
			return out, err
		}
	}
	if !protocol.NoLoginOnHost(in.Credentials) {
		if err := logins.CheckNewest(ctx, s, h, l.CodexHome, a.mark.Seed, bundle); err != nil {
			return out, err
		}
	}

	if err := keepInstructions(ctx, s, told, hide); err != nil {
		return out, err
	}
	fence := folder.FenceOf(in.Claim, l.Dir, attempt)
	var plant seeds.Planted
	protected := hosts.Protection{}
	if l, err = furnish(ctx, s, h, l, in, &a, fence, p); err == nil {
		err = modelPort(ctx, s, h, in, &l, &a, fence)
	}
	if err == nil {
		out.Brought, out.BeforeRun, err = workspaces.WorkIn(ctx, s, workspaces.WorkspaceJob(s, h, l, in.Claim, attempt, in.Stop), in.Workspace, a.workState(), hide, p)
		if err != nil && in.Workspace != nil && workspaces.StillGoing(ctx, err) {
			return out, err // the next attempt finds the job
		}
	}
	if err == nil {
		protected, err = hosts.Protects(ctx, s, h, in.Claim.Host, l, codex.Version, in.Sandbox, in.Confine, bundle, fence)
	}
	if err == nil && protected.Why != "" && s.Unprotected != hosts.UnprotectedAllow {
		err = protected.Err()
	}
	if err == nil {
		plant, err = seeds.Plant(ctx, h, seeds.PlantSpec{
			CodexHome: l.CodexHome, Within: l.Seen(), Bundle: bundle, Sandbox: in.Sandbox, Confine: protected.Confine, Private: protected.Private, NoProfile: protected.Profile == "", WorkDir: l.WorkDir, Agents: planted(told), Gateway: l.ModelPort, Fence: &fence,
		})
	}
	if err == nil && !a.marked {
		// From now on a process may run here.
		err = folder.WriteMark(ctx, h, l, a.mark, true, fence)
	}
	if err != nil {
		if !a.fresh() {
			// Codex has worked here before.
			if unsaved := logins.NewKeeper(s, h, in.Claim.Session, l.CodexHome, in.Seed, hide).SaveBack(ctx); unsaved != nil {
				return out, fmt.Errorf("%w (and the login stays in %s on %s: %v)", err, l.CodexHome, h.Name(), unsaved)
			}
		}
		return out, unprepare(ctx, s, h, l, in, fence, a.fresh(), err)
	}
	if len(plant.Skipped) > 0 {
		s.Logger.Info("config.toml of the seed sets what we would", "session", in.Claim.Session, "settings", plant.Skipped)
	}
	out = PrepareSessionResult{Layout: l, CodexVersion: codex.Version, Permissions: plant.Permissions, Restored: a.mark.Restored, Differs: a.mark.Differs, ThreadID: from.ThreadID, Left: a.mark.Left,
		CodexRepaired: codex.Repaired, Brought: out.Brought, BeforeRun: out.BeforeRun, Unprotected: protected.Why, FollowUps: rules}
	pumps.ForgetHeard(ctx, s, in.Claim.Session, in.Claim.Generation-1) // it is in the transcript
	return out, nil
}

// rulesOf returns the rules for follow-ups that a seed gives to its sessions. They go into
// Temporal's history, where no secret may be.
func rulesOf(bundle *seeds.Bundle, ref *protocol.SeedRef, hide site.Secrets) ([]protocol.FollowUp, error) {
	rules, err := bundle.FollowUps()
	if err != nil {
		return nil, kit.BadInput("seed %s: %w", ref.Name, err)
	}
	for _, r := range rules {
		if hide.All != nil && hide.All.String(r.Prompt) != r.Prompt {
			return nil, kit.BadInput("seed %s: the prompt of follow-up %s has a secret of the seed: take it out, and import the seed again", ref.Name, r.Name)
		}
	}
	return rules, nil
}

// modelPort gives a session with a model gateway the port at which codex finds it, after it has
// tried whether sshd permits that.
func modelPort(ctx context.Context, s *site.Site, h hostexec.Host, in PrepareSessionInput, l *protocol.Layout, a *arrival, fence hostexec.Fence) error {
	if in.Credentials != protocol.CredentialsGateway {
		return nil
	}
	port, err := gateways.Port{Site: s, Host: h, Root: l.Root, Fence: fence}.Try(ctx, a.mark.Gateway)
	if err != nil {
		return err
	}
	a.mark.Gateway, l.ModelPort = port, port
	return nil
}

// personsDir resolves --dir and checks that codex can work in it.
func personsDir(ctx context.Context, h hostexec.Host, dir string) (string, error) {
	res, err := h.Run(ctx, hostexec.Command{Script: `d=$1
case $d in
'~') d=$HOME ;;
'~/'*) d=$HOME/${d#??} ;;
/*) ;;
*) d=$HOME/$d ;;
esac
[ -e "$d" ] || { echo "it does not exist" >&2; exit 3; }
[ -d "$d" ] || { echo "it is not a directory" >&2; exit 3; }
[ -r "$d" ] && [ -x "$d" ] || { echo "it may not be read" >&2; exit 3; }
cd -- "$d" && pwd -P`, Args: []string{dir}})
	var exit *hostexec.ExitError
	if errors.As(err, &exit) && exit.Code == 3 {
		return "", &kit.TypedError{Kind: protocol.ErrTypeBadInput, Hint: "--dir is a folder on the host; make it first, or leave --dir out for a fresh one",
			Err: fmt.Errorf("--dir %s on %s: %s", dir, h.Name(), strings.TrimSpace(string(exit.Stderr)))}
	}
	if err != nil {
		return "", fmt.Errorf("look at --dir %s: %w", dir, err)
	}
	abs := strings.TrimSuffix(string(res.Stdout), "\n")
	if !path.IsAbs(abs) || strings.Contains(abs, "\n") {
		return "", kit.BadInput("--dir %s on %s: its path %q cannot be used", dir, h.Name(), abs)
	}
	return path.Clean(abs), nil
}

// foldersScript makes the session's folders, except those with an empty name, and marks
// them. The first time, it records which of codex's mount points the work folder had.
//
// It prints the place of the session's room. home is y to make CODEX_HOME and the work folder
// too, own is y if the work folder is $3 in the room, and not the path $3.
const foldersScript = `umask 077
flushed() { ` + folder.FlushMark + `; }
` + folder.RoomScript + `
dir=$1 home=$2 work=$3 own=$4 need=$5 mark=$6 root=$7 places=$8
shift 8
free=$(df -Pk -- "$dir" 2>/dev/null | awk 'NR == 2 { print $4 }')
case $free in '' | *[!0-9]*) ;; *)
	[ "$free" -ge "$need" ] || { echo "No space left on device: $((free / 1024)) MiB are free below $dir, $((need / 1024)) are needed" >&2; exit 1; } ;;
esac
# Only what exists can be hidden from commands.
mkdir -p -- "$dir" "$root/exec" "$root/logins" "$root/kept" && fl_room "$root" "${dir##*/}" "$places" || exit 1
seen=$dir
if [ -n "$room" ]; then
	seen=$root/rooms/$room/room
	mkdir -p -- "$seen/inputs" || exit 1
	# Workers of an earlier release know these names only.
	for f in codex-home work tmp inputs; do
		[ "$f" != work ] || [ "$own" = y ] || continue
		[ -h "$dir/$f" ] || [ -e "$dir/$f" ] || ln -s -- "$seen/$f" "$dir/$f" || exit 1
	done
	echo "$room"
fi
[ "$own" != y ] || work=$seen/work
mkdir -p -- "$dir/proc" "$seen/tmp" "$dir/workspace" || exit 1
[ -e "$dir/generation" ] || {
	printf %s "$mark" >"$dir/generation.new" && flushed "$dir" && mv -f -- "$dir/generation.new" "$dir/generation"
} || exit 1
[ "$home" = y ] || exit 0
mkdir -p -- "$seen/codex-home" || exit 1
[ -n "$work" ] || exit 0
if [ "$own" = y ]; then mkdir -p -- "$work" || exit 1; fi
[ -e "$dir/before" ] || {
	for m in "$@"; do [ ! -e "$work/$m" ] || echo "$m"; done >"$dir/before.new" && mv -f -- "$dir/before.new" "$dir/before"
}`

// furnish makes the session's folders, and restores the snapshot if no earlier attempt has. It
// returns the layout with the session's room.
func furnish(ctx context.Context, s *site.Site, h hostexec.Host, l protocol.Layout, in PrepareSessionInput, a *arrival, fence hostexec.Fence, p *kit.Progress) (protocol.Layout, error) {
	if a.fresh() && a.mark.Restored == folder.RestoredSnapshot {
		// first the mark, so that the folder of an interrupted restore is known as ours
		l, err := makeFolders(ctx, h, l, a.mark, false, fence)
		if err != nil {
			return l, err
		}
		if a.mark.Differs, err = snaps.Bring(ctx, s, h, l, in.Claim.Host, in.Restore.Snapshot, fence, p); err != nil {
			return l, err
		}
	}
	return MakeFolders(ctx, h, l, a.mark, fence)
}

// MakeFolders makes the folders of a session, and returns the layout with its room.
func MakeFolders(ctx context.Context, h hostexec.Host, l protocol.Layout, mark folder.FolderMark, fence hostexec.Fence) (protocol.Layout, error) {
	return makeFolders(ctx, h, l, mark, true, fence)
}

// makeFolders is MakeFolders; content says whether to make CODEX_HOME and the work folder.
func makeFolders(ctx context.Context, h hostexec.Host, l protocol.Layout, mark folder.FolderMark, content bool, fence hostexec.Fence) (protocol.Layout, error) {
	yes := map[bool]string{false: "n", true: "y"}
	session := path.Base(l.Dir)
	args := append([]string{l.Dir, yes[content], l.WorkDir, yes[l.OwnWork], fmt.Sprint(folder.SessionRoom >> 10), mark.Text(), l.Root, strings.Join(folder.RoomsFor(session), " ")}, folder.MountPoints...)
	res, err := h.Run(ctx, hostexec.Command{Script: foldersScript, Args: args, Fence: &fence})
	if err == nil {
		l = l.In(strings.TrimSpace(string(res.Stdout)))
		err = folder.CheckLayout(l, session)
	}
	if err != nil {
		return l, fmt.Errorf("make the session's folders below %s: %w", l.Root, err)
	}
	return l, nil
}

// unprepare undoes a failed prepare: it removes all of a fresh folder, otherwise only the
// credential.
func unprepare(ctx context.Context, s *site.Site, h hostexec.Host, l protocol.Layout, in PrepareSessionInput, fence hostexec.Fence, fresh bool, why error) error {
	if errors.Is(why, hostexec.ErrFenced) {
		return why // a newer holder has the folder
	}
	ctx, cancel := kit.Afterwards(ctx)
	defer cancel()
	var err error
	if in.Workspace != nil { // git, or a hook, may be at work
		_, err = process.Reap(ctx, h, l.Dir, folder.Mark(in.Claim.Session, l), fence)
	}
	if err != nil {
		// The folder stays until the session is closed.
	} else if fresh {
		err = folder.Remove(ctx, h, l, fence)
	} else {
		err = seeds.Wipe(ctx, h, l.CodexHome, l.Seen(), &fence)
	}
	if err != nil {
		return fmt.Errorf("%w (and what was planted may still be in %s on %s: %v)", why, l.CodexHome, h.Name(), err)
	}
	return why
}
