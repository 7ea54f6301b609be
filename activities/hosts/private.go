package hosts

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path"
	"slices"
	"strings"

	"fairlead.dev/fairlead/activities/folder"
	"fairlead.dev/fairlead/activities/site"
	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/seeds"
)

// A Privacy is what is on a host and no command in a sandbox must read.
type Privacy struct {
	// Paths exist and are free of symbolic links.
	Paths []string
	// secrets are those of Paths that do not belong to other sessions.
	secrets []string
	// others are those of Paths that have all folders of sessions.
	others []string
	// alone says that Paths hide other sessions whenever they are prepared.
	alone bool
}

// digest names the secrets, for what a worker remembers about a host.
func (p Privacy) digest() string {
	sum := sha256.Sum256([]byte(strings.Join(p.secrets, "\x00")))
	return hex.EncodeToString(sum[:8])
}

const maxOthers = 2000

// privateScript prints texts that end in NUL: the root folder ($1), the work folder ($3), codex
// ($4) and the folder of rooms without links, or empty. Then it prints what exists, each with a
// word for what it is, and without links: the secrets of the login user, Fairlead's folders, the
// paths after $5, and what belongs to other sessions: all rooms and, if $2 is empty, the folder of
// all sessions. Otherwise $2 is a session without a room, and it is the folders of the others, at
// most $5.
const privateScript = `LC_ALL=C; export LC_ALL
root=$1 own=$2 work=$3 codex=$4 max=$5 home=${HOME:-/} uid=$(id -u)
shift 5
real() {
	to=
	if [ -d "$1" ]; then
		to=$(cd -P -- "$1" 2>/dev/null && pwd -P && echo .) || to=
		to=${to%
.}
	elif [ -L "$1" ]; then to=$(readlink -f -- "$1") || to=
	elif [ -e "$1" ]; then
		to=$(cd -P -- "${1%/*}/" 2>/dev/null && pwd -P && echo .) || to=
		to=${to%
.}
		[ -z "$to" ] || to=${to%/}/${1##*/}
	fi
}
tell() {
	real "$2"
	[ -n "$to" ] || return 0
	if [ "$1" = usual ] && [ -L "$2" ]; then set -- link "$2"; fi
	# What the user has no right to needs no other protection.
	if [ -r "$to" ] || [ -w "$to" ] || [ -x "$to" ]; then printf '%s\0%s\0' "$1" "$to"; fi
}
for p in "$root" "$work" "$codex" "$root/rooms"; do real "$p"; printf '%s\0' "$to"; done
tell usual "$home/.ssh"
for d in "$home/.config" "$XDG_CONFIG_HOME" "$home/.local/state" "$XDG_STATE_HOME" "/run/user/$uid" "$XDG_RUNTIME_DIR"; do
	[ -z "$d" ] || tell usual "$d/fairlead"
done
n=0
for d in "/tmp/fairlead-$uid" "/tmp/fairlead-$uid"-* "$TMPDIR/fairlead-$uid" "$TMPDIR/fairlead-$uid"-*; do
	# Everybody may make such names there, so only what can be ours counts.
	if [ -L "$d" ] || [ ! -d "$d" ] || [ ! -O "$d" ]; then continue; fi
	case ${d##*/fairlead-"$uid"} in '' | -*) ;; *) continue ;; esac
	case ${d##*/fairlead-"$uid"} in -*[!0-9a-f]* | -) continue ;; esac
	n=$((n + 1))
	if [ "$n" -gt 64 ]; then break; fi
	tell usual "$d"
done
for p; do
	case $p in
	'~/'*) tell secret "$home/${p#??}" ;;
	*) tell secret "$p" ;;
	esac
done
for p in exec logins kept; do tell ours "$root/$p"; done
tell rooms "$root/rooms"
if [ -z "$own" ]; then
	tell sessions "$root/sessions"
	exit 0
fi
n=0
for d in "$root/sessions"/*; do
	if [ "${d##*/}" = "$own" ] || [ ! -d "$d" ]; then continue; fi
	n=$((n + 1))
	if [ "$n" -gt "$max" ]; then printf 'more\0/\0'; break; fi
	tell other "$d"
done`

const hintPrivate = "move the session's folder (--dir, or the root of `ctl host add`) or what commands must not read; see hosts.deny_read in the worker's config"

// privacy looks at what commands must not read on a host: secrets of the login user and of a
// worker on the same machine, and what belongs to other sessions.
//
// The worker cannot know which of its own paths are on the host: the host may be the same
// machine, or have the same folder mounted. So each of them that exists there is private.
//
// l is that of a session, or has no Dir. A session with a room sees none of the others (see
// folder.Hidden). For one that an earlier
// release prepared without a room, each folder that is there now is private. These can be removed
// at any time. codex starts no command if a denied path is missing below a folder that commands
// may write, so such folders are left out there.
func privacy(ctx context.Context, s *site.Site, h hostexec.Host, spec protocol.HostSpec, l protocol.Layout, c Confinement) (Privacy, error) {
	p := Privacy{alone: l.Room != "" || l.Dir == ""}
	root, own, work, codex := l.Root, "", l.WorkDir, l.Codex
	if !p.alone {
		own = path.Base(l.Dir)
	}
	args := append([]string{root, own, work, codex, fmt.Sprint(maxOthers)}, workersOwn(s, spec)...)
	res, err := h.Run(ctx, hostexec.Command{Script: privateScript, Args: args})
	if err != nil {
		return p, fmt.Errorf("look for what commands must not read: %w", err)
	}
	said := strings.Split(string(res.Stdout), "\x00")
	if len(said) < 5 || len(said)%2 != 1 {
		return p, fmt.Errorf("look for what commands must not read: the script printed %d answers", len(said)-1)
	}
	root, work, codex = cmp.Or(said[0], root), cmp.Or(said[1], work), cmp.Or(said[2], codex)
	rooms := cmp.Or(said[3], path.Join(root, "rooms"))
	seen := ""
	switch {
	case l.Room != "":
		seen = path.Join(rooms, l.Room, "room")
		said = said[:len(said)-1] // it is empty
		for _, at := range folder.Hidden(rooms, l.Room) {
			said = append(said, "ours", at)
		}
	case own != "":
		seen = path.Join(root, "sessions", own)
	}
	for i := 4; i+1 < len(said); i += 2 {
		kind, at := said[i], path.Clean(said[i+1])
		switch {
		case kind == "rooms" && l.Room != "":
			continue
		case kind == "more":
			return p, unconfined("close sessions there, or have `ctl host check` look for what is left of them", "%s has folders of more than %d sessions in %s", h.Name(), maxOthers, root)
		case strings.ContainsAny(at, "*?[]"):
			return p, unconfined("rename it, or move it elsewhere", "codex cannot keep commands from reading %s on %s, because its name has one of * ? [ ] in it", at, h.Name())
		case kind == "other" && !seeds.Deniable(at, work, c):
			continue
		case kind == "link" && (in(seen, at) || in(work, at) || in(codex, at)):
			// A command could have made it, with --dir ~: that must not keep sessions away.
			continue
		}
		for _, needed := range []struct{ what, path string }{{"session's folder", seen}, {"work folder", work}, {"codex", codex}} {
			if needed.path != "" && in(needed.path, at) {
				return p, unconfined(hintPrivate, "on %s the %s %s lies in %s, which commands must not read", h.Name(), needed.what, needed.path, at)
			}
		}
		p.Paths = append(p.Paths, at)
		if kind == "sessions" || kind == "rooms" {
			p.others = append(p.others, at)
		}
		switch kind {
		case "other", "ours", "sessions", "rooms":
		default:
			p.secrets = append(p.secrets, at)
		}
	}
	p.Paths, p.secrets = outermost(p.Paths), outermost(p.secrets)
	for _, w := range append(slices.Clone(c.Read), c.Write...) {
		for _, at := range p.Paths {
			if in(w, at) {
				return p, unconfined(hintConfinePath, "--read or --write %s on %s lies in %s, which commands must not read", w, h.Name(), at)
			}
		}
	}
	return p, nil
}

// workersOwn returns the worker's own private paths, and the keys with which it reaches the
// host.
func workersOwn(s *site.Site, spec protocol.HostSpec) []string {
	all := slices.Clone(s.Private)
	for hop := &spec; hop != nil; hop = hop.Jump {
		if hop.Identity != "" {
			all = append(all, hop.Identity)
		}
	}
	return all
}

// outermost sorts paths and leaves out those that lie in another one.
func outermost(paths []string) []string {
	slices.Sort(paths)
	var all []string
	for _, p := range paths {
		if !slices.ContainsFunc(all, func(dir string) bool { return in(p, dir) }) {
			all = append(all, p)
		}
	}
	return all
}

func in(p, dir string) bool {
	return p == dir || strings.HasPrefix(p, strings.TrimSuffix(dir, "/")+"/")
}
