package hosts

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"

	"fairlead.dev/fairlead/activities/internal/kit"
	"fairlead.dev/fairlead/activities/site"
	"fairlead.dev/fairlead/conversation/wire"
	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/seeds"
)

// UnprotectedAllow, as Deps.Unprotected, lets a session go on although its commands can read
// the credential, or something else that is private on the host. The session reports that.
const UnprotectedAllow = "allow"

// A Protection says how codex hides the credential, and what else is private on the host, from
// commands in one sandbox.
type Protection struct {
	// Profile is the permission profile to run under; empty if none, or for
	// danger-full-access.
	Profile string
	// Why says what is missing; empty if nothing is.
	Why string
	// Confine has the session's confinement with paths resolved.
	Confine Confinement
	// Private are paths that commands must not read.
	Private []string
	open    []string // those of Private that a command can read
}

// Err returns Why as an error.
func (p Protection) Err() error {
	return &kit.TypedError{Kind: protocol.ErrTypeUnprotected, Hint: hintUnprotected, Err: errors.New(p.Why)}
}

const hintUnprotected = "provision the host with codex " + NewestCodex + ", or use a login user other than root there; " +
	"to go on although the agent can read its credential and what is private on the host, set seeds.unprotected: allow in the worker's config"

// Protects finds out, by a trial with a made-up credential in the session's folder, whether
// codex hides a credential, and what else is private on the host, from its commands, and
// confines them as asked. The worker remembers success, except for a session that asks for
// more than a mode; it does not remember a failure.
func Protects(ctx context.Context, s *site.Site, h hostexec.Host, spec protocol.HostSpec, l protocol.Layout, version, sandbox string, confine Confinement, b *seeds.Bundle, fence hostexec.Fence) (p Protection, err error) {
	if err := confinable(confine, sandbox, version, b); err != nil {
		return Protection{}, err
	}
	if seeds.Profile(sandbox) == "" {
		return Protection{}, nil
	}
	var at Place
	if !confine.None() {
		if at, err = PlaceOf(ctx, h, l.Root, sandbox, l, confine); err != nil {
			return Protection{}, err
		}
	}
	private, err := privacy(ctx, s, h, spec, l, at.confine)
	if err != nil {
		return Protection{}, err
	}
	key := strings.Join([]string{spec.Name, spec.Address, spec.User, l.Root, l.Codex, version, sandbox, private.digest()}, "\x00")
	if !l.OwnWork {
		key += "\x00" + l.WorkDir // a CODEX_HOME in the work folder needs more protection
	}
	if private.alone {
		key += "\x00alone"
	}
	s.Mu.Lock()
	known := s.Confined[key] && confine.None()
	s.Mu.Unlock()
	if known {
		return Protection{Profile: seeds.Profile(sandbox), Confine: at.confine, Private: private.Paths}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	if confine.None() {
		if at, err = PlaceOf(ctx, h, l.Root, sandbox, l, confine); err != nil {
			return Protection{}, err
		}
	}
	trial := path.Join(l.Seen(), "trial")
	p, err = tryProtection(ctx, s, h, trialIn{
		layout: l, home: path.Join(trial, "codex-home"), sandbox: sandbox, at: at, private: private.Paths, seed: b, fence: &fence,
	})
	if err == nil && p.Why != "" && !confine.None() {
		err = unconfined(hintUnprotected, "it cannot be confined as asked: %s", p.Why)
	}
	cleanup, cancelCleanup := kit.Afterwards(ctx)
	defer cancelCleanup()
	if left := hostexec.RemoveTree(cleanup, h, trial, l.Seen(), &fence); left != nil && err == nil {
		err = fmt.Errorf("remove the made-up credential: %w", left)
	}
	if err != nil {
		return Protection{}, err
	}
	p.Confine, p.Private = at.confine, private.Paths
	if p.Why == "" && confine.None() {
		s.Mu.Lock()
		s.Confined[key] = true
		s.Mu.Unlock()
	}
	return p, nil
}

type trialIn struct {
	layout        protocol.Layout
	home, sandbox string
	at            Place
	private       []string
	seed          *seeds.Bundle // commands may run under a profile of this seed
	fence         *hostexec.Fence
}

func tryProtection(ctx context.Context, s *site.Site, h hostexec.Host, in trialIn) (Protection, error) {
	l, c := in.layout, in.at.confine
	decoy, mark, err := seeds.DecoyFor(c, in.seed)
	if err != nil {
		return Protection{}, err
	}
	planted, err := seeds.Plant(ctx, h, seeds.PlantSpec{
		CodexHome: in.home, Within: l.Seen(), Bundle: decoy, Sandbox: in.sandbox, Confine: c, Private: in.private, WorkDir: l.WorkDir, Fence: in.fence,
	})
	if err != nil {
		return Protection{}, fmt.Errorf("plant a made-up credential: %w", err)
	}
	p, err := startProbe(ctx, s, h, l.Codex, in.home, l.Tmp(), l.WorkDir, in.fence)
	if err != nil {
		return Protection{}, err
	}
	defer p.Close()
	found, err := p.protects(ctx, in.sandbox, planted.Permissions, in.home, mark, in.private)
	if found.Why == "" && len(found.open) > 0 {
		found.Why = fmt.Sprintf("with codex %s on this host a command in the sandbox can read %s", p.server.Version, someOf(found.open, 3))
	}
	if err != nil || found.Why != "" && !c.None() {
		return found, err
	}
	return found, p.Confined(ctx, in.sandbox, found.Profile, l, in.at, c.NeedsProxy(in.seed))
}

// protects runs commands that try to get at the made-up credential and at private paths. Why
// is about the credential alone. An error says that commands cannot be confined at all, or
// that the outcome is not known.
func (p *Probe) protects(ctx context.Context, sandbox, profile, home, mark string, private []string) (Protection, error) {
	// first, because the other trial may move CODEX_HOME away
	open, unknown := p.open(ctx, sandbox, profile, private)
	res, err := p.run(ctx, sandbox, profile, seeds.ProofCommand(home, mark, sandbox)...)
	var rpc *wire.RPCError
	switch {
	case errors.As(err, &rpc):
		if plain := p.confines(ctx, sandbox); plain != nil {
			return Protection{}, plain
		}
		return Protection{Why: fmt.Sprintf("codex %s knows no permission profile that keeps its commands from reading the credential", p.server.Version)}, nil
	case err != nil:
		return Protection{}, fmt.Errorf("run a command in the sandbox: %w", err)
	}
	proof, err := seeds.ReadProof(res.Stdout)
	if err != nil && res.ExitCode == TimedOut {
		// a busy machine may be the reason
		return Protection{}, fmt.Errorf("see whether a command can read a made-up credential: it did not end within %v", probeCommand)
	}
	if err != nil {
		said := kit.LastOf(strings.TrimSpace(res.Stderr), 512)
		if plain := p.confines(ctx, sandbox); plain != nil {
			return Protection{}, plain
		}
		return Protection{Why: fmt.Sprintf("codex %s cannot start commands under the permission profile that keeps them from the credential (exit status %d: %s)",
			p.server.Version, res.ExitCode, said)}, nil
	}
	switch {
	case len(proof.Leaks) > 0:
		return Protection{Profile: profile, open: open, Why: fmt.Sprintf("with codex %s on this host a command in the sandbox can get at the credential (by %s)",
			p.server.Version, someOf(proof.Leaks, 3))}, nil
	case !proof.Works:
		return Protection{Why: fmt.Sprintf("codex %s lets no command write the work folder under the permission profile that keeps it from the credential", p.server.Version)}, nil
	case unknown != nil:
		return Protection{}, unknown
	}
	return Protection{Profile: profile, open: open}, nil
}

// open returns those of the paths that a command can read.
func (p *Probe) open(ctx context.Context, sandbox, profile string, private []string) ([]string, error) {
	if len(private) == 0 {
		return nil, nil
	}
	res, err := p.run(ctx, sandbox, profile, seeds.PrivateCommand(private)...)
	if err != nil {
		return nil, fmt.Errorf("run a command in the sandbox: %w", err)
	}
	open, err := seeds.ReadPrivate(res.Stdout, private)
	if err != nil {
		return nil, fmt.Errorf("see what a command can read (exit status %d: %s): %w", res.ExitCode, kit.LastOf(strings.TrimSpace(res.Stderr), 512), err)
	}
	return open, nil
}

func someOf(all []string, n int) string {
	if len(all) <= n {
		return strings.Join(all, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(all[:n], ", "), len(all)-n)
}
