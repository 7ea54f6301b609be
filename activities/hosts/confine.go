package hosts

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"path"
	"strings"

	"fairlead.dev/fairlead/activities/internal/kit"
	"fairlead.dev/fairlead/conversation/wire"
	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/seeds"
)

// Confinement is what a session asks for beyond its sandbox mode.
type Confinement = seeds.Confinement

func unconfined(hint, format string, args ...any) error {
	return &kit.TypedError{Kind: protocol.ErrTypeSandbox, Hint: hint, Err: fmt.Errorf(format, args...)}
}

const (
	hintConfineVersion = "provision the host with codex " + NewestCodex + ", or leave out the flags that the older version does not support"
	hintConfinePath    = "--read and --write name paths on the host: make them there first, or leave them out"
	hintConfineFailed  = "see `ctl host check`; a session that cannot be confined as asked does not begin: ask for less, or give it another host"
)

// confinable refuses what the codex on the host, or the seed, does not support.
func confinable(c Confinement, sandbox, version string, b *seeds.Bundle) error {
	if err := c.Check(sandbox); err != nil {
		return &kit.TypedError{Kind: protocol.ErrTypeBadInput, Err: err}
	}
	if sandbox == "danger-full-access" {
		return nil
	}
	if !c.None() && !wire.Has(version, wire.NamedProfiles) {
		return unconfined(hintConfineVersion, "codex %s does not support named permission profiles, which --profile, --read, --write and --network need", version)
	}
	if err := c.CheckSeed(b); err != nil {
		return unconfined("name a profile of the seed's config.toml with --profile, or a --sandbox", "%w", err)
	}
	if c.NeedsProxy(b) && !wire.Has(version, wire.NetworkByHost) {
		return unconfined(hintConfineVersion, "codex %s cannot let commands reach only some network hosts: its proxy does not reach private addresses, and each command is delayed by two seconds", version)
	}
	return nil
}

// A Place is the host's report of the paths that a session names.
type Place struct {
	Home string // of the login user
	net  string // of the host's network
	// confine has its paths resolved of symbolic links.
	confine Confinement
}

// placeScript prints texts that end in NUL: the home folder, the network, the root folder
// ($1) without links, and then for each path its fault, if any, and the path without links.
const placeScript = `LC_ALL=C; export LC_ALL
printf '%s\0%s\0' "${HOME:-/}" "$(readlink /proc/self/ns/net 2>/dev/null)"
root=$1 rest=
shift
until [ -d "${root:-/}" ]; do rest=/${root##*/}$rest root=${root%/*}; done
to=$(cd -P -- "${root:-/}" 2>/dev/null && pwd -P && echo .) || to=
to=${to%
.}
printf '%s\0' "${to%/}$rest"
group=
for p; do
	case $p in --read | --write) group=$p; continue ;; esac
	why= to=$p
	if [ ! -e "$p" ]; then why='does not exist'
	elif [ -d "$p" ]; then
		to=$(cd -P -- "$p" 2>/dev/null && pwd -P && echo .) || to=
		to=${to%
.}
		[ -n "$to" ] || why='cannot be entered'
	elif [ "$group" = --write ]; then why='is no folder: codex lets commands write folders only'
	elif [ -L "$p" ]; then to=$(readlink -f -- "$p") || why='leads nowhere'
	elif [ ! -f "$p" ]; then why='is neither a file nor a folder'
	else
		to=$(cd -P -- "${p%/*}/" 2>/dev/null && pwd -P && echo .) || to=
		to=${to%
.}
		to=${to%/}/${p##*/}
	fi
	if [ -z "$why" ] && [ ! -r "$p" ]; then why='may not be read by this user'; fi
	if [ -z "$why" ] && [ "$group" = --write ] && [ ! -w "$p" ]; then why='may not be written by this user'; fi
	printf '%s\0%s\0' "$why" "$to"
done`

// PlaceOf looks at the paths that a session names, in one round trip.
func PlaceOf(ctx context.Context, h hostexec.Host, root, sandbox string, l protocol.Layout, c Confinement) (Place, error) {
	args := append(append(append([]string{root, "--read"}, c.Read...), "--write"), c.Write...)
	res, err := h.Run(ctx, hostexec.Command{Script: placeScript, Args: args})
	if err != nil {
		return Place{}, fmt.Errorf("look at the paths of --read and --write: %w", err)
	}
	said := strings.Split(string(res.Stdout), "\x00")
	named := len(c.Read) + len(c.Write)
	if len(said) != 3+2*named+1 {
		return Place{}, fmt.Errorf("look at the paths of --read and --write: the script printed %d answers, expected %d", len(said)-1, 3+2*named)
	}
	p := Place{Home: said[0], net: said[1], confine: c}
	p.confine.Read, p.confine.Write = nil, nil
	// without links, as the paths are
	ours, work := root, l.WorkDir
	if path.IsAbs(said[2]) {
		ours = path.Clean(said[2])
	}
	if below, in := strings.CutPrefix(work, strings.TrimSuffix(root, "/")+"/"); in && l.OwnWork {
		work = path.Join(ours, below)
	}
	for i := range named {
		flag, asked := "--read", ""
		if i < len(c.Read) {
			asked = c.Read[i]
		} else {
			flag, asked = "--write", c.Write[i-len(c.Read)]
		}
		why, to := said[3+2*i], path.Clean(said[4+2*i])
		if why == "" {
			why = misplaced(flag, to, ours, work, sandbox)
		}
		if why != "" {
			return Place{}, unconfined(hintConfinePath, "%s %s on %s %s", flag, asked, h.Name(), why)
		}
		if flag == "--read" {
			p.confine.Read = append(p.confine.Read, to)
		} else {
			p.confine.Write = append(p.confine.Write, to)
		}
	}
	if err := p.confine.Check(sandbox); err != nil { // two names may lead to one place
		return Place{}, unconfined(hintConfinePath, "on %s: %w", h.Name(), err)
	}
	return p, nil
}

// misplaced returns why commands may not have a path, or "". Our root folder holds the
// rules for commands and the credentials of other sessions.
func misplaced(flag, p, root, work, sandbox string) string {
	within := func(p, dir string) bool { return p == dir || strings.HasPrefix(p, strings.TrimSuffix(dir, "/")+"/") }
	switch {
	case p == work && flag == "--read" && sandbox != "read-only":
		return "is the work folder, and --read would make it read-only (use --sandbox read-only if that is meant)"
	case within(p, root) && !within(p, work), flag == "--write" && within(root, p) && p != work:
		return fmt.Sprintf("lies in Fairlead's own folder %s, or contains it", root)
	}
	return ""
}

func (p Place) trial(l protocol.Layout, sandbox string) seeds.ConfineTrial {
	t := seeds.ConfineTrial{ID: strings.ToLower(rand.Text()), Confine: p.confine}
	// also writable in this mode
	free := append([]string{l.WorkDir, "/tmp", "/var/tmp", l.Tmp()}, p.confine.Write...)
	for _, dir := range []string{l.Dir, l.Seen(), l.Root, p.Home, "/"} {
		inside := false
		for _, f := range free {
			inside = inside || dir == f || strings.HasPrefix(dir, f+"/")
		}
		// a seed's own profile decides what may be written
		if !inside && path.IsAbs(dir) && sandbox != protocol.ByProfile {
			t.Outside = append(t.Outside, dir)
		}
	}
	return t
}

// Trials is how often a command is tried if its sandbox does not start: codex makes folders
// (.git, .codex, .agents) in each writable folder, and fails if a session that shares the
// folder by --write removes them.
const Trials = 4

// Confined tries, by a command in the session's sandbox, all that commands must and must
// not be able to do.
func (p *Probe) Confined(ctx context.Context, sandbox, profile string, l protocol.Layout, at Place, proxied bool) error {
	t := at.trial(l, sandbox)
	var c seeds.Confined
	for try := 1; ; try++ {
		res, err := p.run(ctx, sandbox, profile, t.Command()...)
		var rpc *wire.RPCError
		switch {
		case errors.As(err, &rpc):
			return unconfined(hintConfineFailed, "codex %s does not take the session's permission profile: %s", p.server.Version, rpc.Message)
		case err != nil:
			return fmt.Errorf("run a command in the session's sandbox: %w", err)
		}
		if c, err = t.ReadConfined(res.Stdout); err == nil {
			break
		}
		switch {
		case res.ExitCode == TimedOut:
			return fmt.Errorf("see what a command can do in the session's sandbox: it did not end within %v", probeCommand)
		case try == Trials || res.Stdout != "":
			return unconfined(hintConfineFailed, "no command starts in the sandbox that the session asks for (exit status %d: %s)",
				res.ExitCode, kit.LastOf(strings.TrimSpace(res.Stderr), 512))
		}
	}
	wrong := c.Wrong
	if net := c.Network(at.confine, sandbox, at.net, proxied); net != "" {
		wrong = append(wrong, net)
	}
	if len(wrong) == 0 {
		return nil
	}
	return unconfined(hintConfineFailed, "on this host a command in the session's sandbox %s", someOf(wrong, 3))
}
