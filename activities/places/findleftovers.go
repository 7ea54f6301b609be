package places

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"fairlead.dev/fairlead/activities/folder"
	"fairlead.dev/fairlead/activities/hosts"
	"fairlead.dev/fairlead/activities/inquiry"
	"fairlead.dev/fairlead/activities/internal/kit"
	"fairlead.dev/fairlead/activities/site"
	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/internal/protocol"
)

// FindLeftoversInput is the input of FindLeftovers.
type FindLeftoversInput struct {
	Pool   string        `json:"pool"`
	Signal string        `json:"signal"` // carries HostsLooked
	Older  time.Duration `json:"older"`  // younger folders are left for the next run
	Limit  int           `json:"limit"`  // hosts; those looked at longest ago come first
}

// FindLeftoversResult says what was found.
type FindLeftoversResult struct {
	Hosts   int `json:"hosts"`
	Folders int `json:"folders"`
	// Told are the folders, as HOST/SESSION, for the pool to clean up.
	Told    []string `json:"told,omitempty"`
	Unknown int      `json:"unknown,omitempty"` // left alone: not known to be ours
	Skipped int      `json:"skipped,omitempty"` // hosts in quarantine
	Left    int      `json:"left,omitempty"`    // hosts left for the next run
	// Problems of a host do not stop the others.
	Problems []string `json:"problems,omitempty"`
}

const (
	looksAtOnce = 8
	// endedAtOnce and unknownShown bound what a run reports of one host.
	endedAtOnce  = 20
	unknownShown = 10
	maxProblems  = 50
)

// FindLeftovers tells a pool which folders on its hosts belong to sessions that have ended.
// The pool cleans up those that it did not know of.
func (h *Activities) FindLeftovers(ctx context.Context, in FindLeftoversInput) (FindLeftoversResult, error) {
	var out FindLeftoversResult
	err := errors.New("this worker has no connection to Temporal")
	if h.Site.Left != nil {
		err = findLeftovers(ctx, h.Site, in, &out)
	}
	return out, kit.Failing{}.Failure(ctx, "look for what sessions left on the hosts of "+in.Pool, err)
}

func findLeftovers(ctx context.Context, s *site.Site, in FindLeftoversInput, out *FindLeftoversResult) error {
	all, err := s.Left.Hosts(ctx, in.Pool)
	if err != nil {
		return fmt.Errorf("list the hosts: %w", err)
	}
	var due []protocol.HostSpec
	slices.SortStableFunc(all, func(a, b inquiry.HostNow) int { return a.LookedAt().Compare(b.LookedAt()) })
	for _, host := range all {
		switch {
		case host.Spec == nil:
			out.problem("host %s: its pool does not say how it is reached", host.Name)
		case host.Quarantined():
			out.Skipped++
		case len(due) >= in.Limit:
			out.Left++
		default:
			due = append(due, *host.Spec)
		}
	}
	for some := range slices.Chunk(due, looksAtOnce) {
		if err := findOn(ctx, s, in, some, out); err != nil {
			return err
		}
	}
	return nil
}

// findOn looks at some hosts, and asks for the folders' owners after that: a session that
// arrived or left meanwhile then runs, or its pool knows it.
func findOn(ctx context.Context, s *site.Site, in FindLeftoversInput, some []protocol.HostSpec, out *FindLeftoversResult) error {
	found := make([]folder.SessionFolders, len(some))
	errs := make([]error, len(some))
	at := s.Now().UTC()
	var all sync.WaitGroup
	for i, spec := range some {
		all.Go(func() { found[i], errs[i] = foldersOn(ctx, s, spec, in.Older) })
	}
	all.Wait()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	known, err := s.Left.Known(ctx, in.Pool)
	if err != nil {
		return err
	}
	var told inquiry.HostsLooked
	for i, spec := range some {
		if errs[i] != nil {
			out.problem("host %s: %v", spec.Name, errs[i])
			continue
		}
		looked := inquiry.HostLooked{Host: spec, At: at, Dir: found[i].Dir}
		if err := judgeFolders(ctx, s, found[i], known, &looked, out); err != nil {
			return err
		}
		told.Hosts = append(told.Hosts, looked)
	}
	if len(told.Hosts) == 0 {
		return nil
	}
	if err := s.Left.Tell(ctx, in.Pool, in.Signal, told); err != nil {
		return fmt.Errorf("tell %s what lies on its hosts: %w", in.Pool, err)
	}
	return nil
}

func foldersOn(ctx context.Context, s *site.Site, spec protocol.HostSpec, older time.Duration) (folder.SessionFolders, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, hosts.HostProbeTimeout,
		fmt.Errorf("%w: no answer within %s", hostexec.ErrUnreachable, hosts.HostProbeTimeout))
	defer cancel()
	found, err := func() (folder.SessionFolders, error) {
		h, err := s.Host(spec)
		if err != nil {
			return folder.SessionFolders{}, err
		}
		root, err := hostexec.Root(ctx, h, spec)
		if err != nil {
			return folder.SessionFolders{}, err
		}
		return folder.LookAtFolders(ctx, h, root, older)
	}()
	if err != nil && errors.Is(err, context.DeadlineExceeded) {
		err = context.Cause(ctx)
	}
	return found, err
}

func judgeFolders(ctx context.Context, s *site.Site, found folder.SessionFolders, known []inquiry.LeftThere, looked *inquiry.HostLooked, out *FindLeftoversResult) error {
	name := looked.Host.Name
	out.Hosts++
	if found.More {
		out.problem("host %s: there are more than %d folders in %s: the others were not looked at", name, folder.MaxFolders, found.Dir)
	}
	if found.Ageless {
		out.problem("host %s cannot tell how old a file is (its find has no -mmin): what sessions left there is not found", name)
	}
	unknown := found.Odd
	looked.Others = found.Odd
	for _, f := range found.Found {
		out.Folders++
		if slices.ContainsFunc(known, func(k inquiry.LeftThere) bool { return k.Session == f.Session && (k.Held || k.Host == name) }) {
			continue
		}
		owner, err := s.Left.Owner(ctx, f.Session, f.Generation)
		if err != nil {
			return err
		}
		folder := inquiry.FoundFolder{Session: f.Session, Generation: f.Generation, Since: inquiry.GenerationTime(f.Generation)}
		switch {
		case owner == inquiry.OwnerRuns, owner == inquiry.OwnerEnded && !f.Old:
		case owner == inquiry.OwnerEnded && len(looked.Ended) < endedAtOnce:
			looked.Ended = append(looked.Ended, folder)
			out.Told = append(out.Told, name+"/"+f.Session)
		case owner == inquiry.OwnerEnded: // reported in a later run
		case len(looked.Unknown) < unknownShown:
			folder.Why = string(owner)
			looked.Unknown = append(looked.Unknown, folder)
			unknown++
		default:
			looked.Others++
			unknown++
		}
	}
	if unknown > 0 {
		out.Unknown += unknown
		out.problem("host %s: %s", name, looked.UnknownText(unknown))
	}
	return nil
}

func (out *FindLeftoversResult) problem(format string, args ...any) {
	switch {
	case len(out.Problems) < maxProblems:
		out.Problems = append(out.Problems, fmt.Sprintf(format, args...))
	case len(out.Problems) == maxProblems:
		out.Problems = append(out.Problems, "and there are more")
	}
}
