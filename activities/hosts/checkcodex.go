package hosts

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"fairlead.dev/fairlead/activities/codexpkg"
	"fairlead.dev/fairlead/activities/folder"
	"fairlead.dev/fairlead/activities/internal/kit"
	"fairlead.dev/fairlead/activities/site"
	"fairlead.dev/fairlead/conversation/wire"
	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/seeds"
)

// checkCodex looks for codex and has it run commands in its sandbox, with a made-up
// credential in dir.
func checkCodex(ctx context.Context, s *site.Site, c *checkup, h hostexec.Host, spec protocol.HostSpec, root, dir string, canWrite bool) error {
	have, will, err := codexPresent(ctx, s, h, spec, root)
	if detail, hint, mine := asCheck(err); mine {
		c.add("codex", false, true, detail, hint)
		return nil
	}
	if err != nil {
		return err
	}
	if have.Path == "" {
		c.add("codex", false, false, fmt.Sprintf("not there yet; this worker can bring %s (%d MiB)", will.Version, will.Size>>20), "run `ctl host provision "+spec.Name+"`, or leave it to the first session")
		c.add("sandbox", false, false, "not tried: codex is not there yet", "run `ctl host provision "+spec.Name+"` and check again")
		return nil
	}
	c.Result.Facts["codex"] = have.Version
	c.add("codex", true, true, fmt.Sprintf("%s (%s, %s)", have.Version, have.How, have.Path), "")
	if !canWrite {
		return nil
	}
	return checkServer(ctx, s, c, h, spec, root, have.Path, dir)
}

// codexPresent looks for codex as CodexOn does, but copies nothing. will is this worker's
// codex for such a host, or nil.
func codexPresent(ctx context.Context, s *site.Site, h hostexec.Host, spec protocol.HostSpec, root string) (have protocol.ProvisionCodexResult, will *codexpkg.CodexTree, err error) {
	m, err := LookAtMachine(ctx, h, root)
	if err != nil {
		return have, nil, err
	}
	tree, err := s.Codex.Tree(ctx, m.OS, m.Arch)
	switch {
	case errors.Is(err, codexpkg.ErrNoSource):
		have, err = codexThere(ctx, s, h, root, m, err)
		return have, nil, err
	case err != nil:
		return have, nil, &kit.TypedError{Kind: protocol.ErrTypeCodexMissing, Hint: "run `make tools` where the worker runs", Err: err}
	case spec.Name == protocol.LocalHost && spec.Address == "":
		have, err = useInPlace(ctx, s, h, spec, tree)
		return have, tree, err
	case m.whole(tree):
		err := look(ctx, s, h, spec, path.Join(root, "codex", tree.Name()), tree.Sums(), tree)
		if changed := (*changedError)(nil); errors.As(err, &changed) {
			err = changed.refused(hintChanged, "")
		}
		if err != nil {
			return have, tree, err
		}
		return protocol.ProvisionCodexResult{Path: path.Join(root, "codex", tree.Name(), "bin", "codex"), Version: tree.Version, How: "present"}, tree, nil
	}
	return have, tree, nil
}

func checkServer(ctx context.Context, s *site.Site, c *checkup, h hostexec.Host, spec protocol.HostSpec, root, codex, dir string) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	const sandbox = "workspace-write"
	l, real, err := makeUp(ctx, h, dir, firstSession, "")
	if err != nil {
		return err
	}
	decoy, mark := seeds.Decoy()
	private, err := privacy(ctx, s, h, spec, protocol.Layout{Root: root, WorkDir: l.WorkDir, Codex: codex}, Confinement{})
	if detail, hint, mine := asCheck(err); mine {
		c.add("private", false, true, detail, hint)
		return nil
	}
	if err != nil {
		return err
	}
	among := append(folder.Hidden(path.Join(real, "rooms"), l.Room), path.Join(real, "sessions"))
	planted, err := seeds.Plant(ctx, h, seeds.PlantSpec{CodexHome: l.CodexHome, Within: l.Seen(), Bundle: decoy, Sandbox: sandbox, Private: append(among, private.Paths...), WorkDir: l.WorkDir})
	if err != nil {
		return fmt.Errorf("plant a made-up credential: %w", err)
	}
	p, err := startProbe(ctx, s, h, codex, l.CodexHome, l.Tmp(), l.WorkDir, nil)
	if err != nil {
		c.add("app-server", false, true, err.Error(), hintServer(err))
		return nil
	}
	defer p.Close()
	c.add("app-server", true, true, fmt.Sprintf("answers in %v", p.took.Round(time.Millisecond)), "")

	if err := p.confines(ctx, sandbox); err != nil {
		detail, hint, mine := asCheck(err)
		if !mine {
			detail = err.Error()
		}
		c.Result.Facts["sandbox"] = "no"
		c.add("sandbox", false, true, detail, hint)
		return nil
	}
	c.Result.Facts["sandbox"] = "yes"
	c.add("sandbox", true, true, "ran a command in it", "")

	later, _, err := makeUp(ctx, h, real, laterSession, "made-up")
	if err != nil {
		return err
	}
	all := slices.Concat(filesOf(later), among, private.Paths)
	protected, err := p.protects(ctx, sandbox, planted.Permissions, l.CodexHome, mark, all)
	if err != nil {
		return err
	}
	addCredential(s, c, protected)
	if protected.Profile == "" {
		if protected.open, err = p.open(ctx, sandbox, "", all); err != nil {
			return err
		}
	}
	addPrivate(s, c, private, real, protected.open)
	cut, detail := p.networkCut(ctx, sandbox, protected.Profile)
	c.add("network", cut, false, detail, "commands in the sandbox may reach the network from this host")
	return nil
}

func addCredential(s *site.Site, c *checkup, p Protection) {
	allowed := s.Unprotected == UnprotectedAllow
	switch {
	case p.Why == "":
		c.Result.Facts["credential"] = "protected"
		c.add("credential", true, true, "a command in the sandbox cannot get at it", "")
	case allowed:
		c.Result.Facts["credential"] = "unprotected"
		c.add("credential", false, false, p.Why+"; sessions go on all the same (seeds.unprotected: allow)", hintUnprotected)
	default:
		c.Result.Facts["credential"] = "unprotected"
		c.add("credential", false, true, p.Why+"; sessions are refused", hintUnprotected)
	}
}

// addPrivate reports what commands can read of the host's private paths, and of the made-up
// sessions in dir.
func addPrivate(s *site.Site, c *checkup, private Privacy, dir string, open []string) {
	later := slices.ContainsFunc(open, func(p string) bool { return in(p, dir) })
	paths := slices.DeleteFunc(slices.Clone(open), func(p string) bool { return in(p, dir) || slices.Contains(private.others, p) })
	if len(open) == 0 {
		told := "a command in the sandbox can read nothing of other sessions, also of later ones"
		if len(private.Paths) > 0 {
			told += ", and none of " + someOf(private.Paths, 3)
		}
		c.Result.Facts["private"] = "protected"
		c.add("private", true, true, told, "")
		return
	}
	c.Result.Facts["private"] = "unprotected"
	detail := "a command in the sandbox can read " + someOf(paths, 3)
	if len(paths) < len(open) {
		detail = "a command in the sandbox can read the folders of other sessions"
		if later {
			detail += ", also of those that are prepared later than its own"
		}
		if len(paths) > 0 {
			detail += ", and " + someOf(paths, 3)
		}
	}
	required := s.Unprotected != UnprotectedAllow
	switch {
	case required:
		detail += "; sessions are refused"
	case s.Unprotected == UnprotectedAllow:
		detail += "; sessions go on all the same (seeds.unprotected: allow)"
	}
	c.add("private", false, required, detail, hintUnprotected)
}

func (p *Probe) networkCut(ctx context.Context, sandbox, profile string) (bool, string) {
	res, err := p.run(ctx, sandbox, profile, "/bin/sh", "-c", "cat /proc/net/dev")
	if err != nil || res.ExitCode != 0 {
		return false, "could not be looked at"
	}
	var others []string
	for line := range strings.Lines(res.Stdout) {
		name, counts, ok := strings.Cut(strings.TrimSpace(line), ":")
		if ok && name != "lo" && len(strings.Fields(counts)) > 8 {
			others = append(others, name)
		}
	}
	if len(others) > 0 {
		return false, "a command in the sandbox sees " + strings.Join(others, ", ")
	}
	return true, "a command in the sandbox has none"
}

func hintServer(err error) string {
	var old *wire.VersionError
	if errors.As(err, &old) {
		return hintNoCodex
	}
	return "run `codex app-server` there by hand to see why"
}
