package folder

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"path"
	"regexp"
	"strings"

	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/internal/protocol"
)

// A session's commands work in its room, a folder below Root/rooms. A command in the sandbox
// must see the room of its own session, and no other: also none of a session that is prepared
// later, when codex knows its permission profile already. So rooms lie in a tree of folders in
// which every folder has the same children:
//
//	rooms/3/0/7/1/room      the room of the session that holds the place 3/0/7/1
//	rooms/3/0/7/1/room.gone what is left of a room that is being removed
//	rooms/3/0/7/1/holder    a symbolic link to nowhere: @ and the name of that session
//
// The profile denies all that does not lie on the way to the own room: seven siblings in each
// of four folders (Hidden). They exist before the profile is written, and stay. A place has one
// holder at a time, so every other session is in one of them. No folder above the room is
// denied. A command that somebody accepts to run outside the sandbox keeps what is denied and
// nothing else; so it finds its work folder too.
//
// That a place cannot be guessed would not be enough: a command can make a user namespace, in
// which it may list all folders of its user, whatever their mode is (measured with codex 0.133
// to 0.169, as an ordinary user).
const (
	roomLevels = 4
	roomFan    = 8
	// roomTries is how many places a session tries. With 2000 sessions on a host, all of them
	// are taken once in 10^19 times.
	roomTries = 64
)

var roomRule = regexp.MustCompile(`^[0-7](/[0-7]){3}$`)

// RoomsFor returns the places that a session may hold, in the order in which it tries them. The
// order is always the same, so the next attempt finds the place that an interrupted one holds.
func RoomsFor(session string) []string {
	var all []string
	for i := range roomTries {
		sum := sha256.Sum256(fmt.Appendf(nil, "%s\x00%d", session, i))
		n := binary.BigEndian.Uint32(sum[:])
		var at []string
		for range roomLevels {
			at = append(at, fmt.Sprint(n%roomFan))
			n /= roomFan
		}
		all = append(all, strings.Join(at, "/"))
	}
	return all
}

// Hidden returns the folders in rooms that hide all rooms but the one at that place.
func Hidden(rooms, room string) []string {
	var all []string
	at := rooms
	for _, own := range strings.Split(room, "/") {
		for i := range roomFan {
			if name := fmt.Sprint(i); name != own {
				all = append(all, path.Join(at, name))
			}
		}
		at = path.Join(at, own)
	}
	return all
}

// RoomScript defines fl_room ROOT SESSION PLACES, which sets room to a place that the session
// holds, with the folders of Hidden, or fails. It sets room to the empty text for a folder that
// an earlier release made. The caller must have the session's lock.
const RoomScript = heldScript + `
fl_tree() {
	at=$1 rest=$2/
	while [ -n "$rest" ]; do
		mkdir -p -- "$at/0" "$at/1" "$at/2" "$at/3" "$at/4" "$at/5" "$at/6" "$at/7" || return 1
		at=$at/${rest%%/*} rest=${rest#*/}
	done
}
# ln also succeeds in a folder to which the link leads, so only the link itself counts.
fl_holds() {
	ln -sn -- "@$2" "$1/holder" 2>/dev/null
	[ -h "$1/holder" ] && [ "$(readlink -- "$1/holder")" = "@$2" ]
}
fl_room() {
	room=
	if [ -h "$1/sessions/$2/room" ]; then
		fl_leads "$1/rooms" "$(readlink -- "$1/sessions/$2/room")" || { echo "$1/sessions/$2/room leads to no room of $1" >&2; return 1; }
		fl_tree "$1/rooms" "$room" || return 1
		fl_holds "$1/rooms/$room" "$2" || { echo "another session holds the room $1/rooms/$room of $2" >&2; return 1; }
		return
	fi
	fl_held "$1/rooms" "$2" "$3"
	if [ -z "$room" ]; then
		for f in codex-home work; do
			if [ -d "$1/sessions/$2/$f" ] && [ ! -h "$1/sessions/$2/$f" ]; then return 0; fi
		done
	fi
	for room in ${room:-$3}; do
		fl_tree "$1/rooms" "$room" || return 1
		if fl_holds "$1/rooms/$room" "$2"; then
			ln -s -- "../../rooms/$room/room" "$1/sessions/$2/room" && [ -h "$1/sessions/$2/room" ]
			return
		fi
	done
	echo "no room is free in $1/rooms: close sessions there" >&2
	return 1
}`

// heldScript defines fl_held ROOMS SESSION PLACES, which sets room to the place that the session
// holds, or to the empty text, and fl_leads ROOMS LINK, which sets room to the place to which a
// session's link leads. It fails if that is not a room of the same root.
const heldScript = `fl_leads() {
	case $2 in
	../../rooms/*) room=${2#../../rooms/} ;;
	"$1"/*) room=${2#"$1"/} ;;
	*) room=; return 1 ;;
	esac
	case $room in [0-7]/[0-7]/[0-7]/[0-7]/room) room=${room%/room} ;; *) room=; return 1 ;; esac
}
fl_held() {
	for room in $3; do
		if [ -h "$1/$room/holder" ] && [ "$(readlink -- "$1/$room/holder")" = "@$2" ]; then return; fi
	done
	room=
}`

// unlinkScript removes the links in the session's folder $2.
const unlinkScript = `for f in room codex-home work tmp inputs; do
	[ ! -h "$2/$f" ] || rm -f -- "$2/$f" || exit 1
done`

// freeScript frees the place $1, after the links to it in the session's folder $2. It must not
// leave a link or a file: another session may get the place.
const freeScript = `for f in "$1/room" "$1/room.gone"; do
	if [ -e "$f" ] || [ -h "$f" ]; then echo "$f is still there" >&2; exit 1; fi
done
` + unlinkScript + `
[ "$(readlink -- "$1/holder" 2>/dev/null)" != "@${2##*/}" ] || rm -f -- "$1/holder"`

// asideScript makes the folder $2 one that nobody has prepared, and then renames the room in the
// place $1 to room.gone. It prints more if an earlier removal left a room.gone there.
const asideScript = `rm -f -- "$2/prepared" || exit 1
if [ ! -e "$1/room" ] && [ ! -h "$1/room" ]; then exit 0; fi
if [ -e "$1/room.gone" ] || [ -h "$1/room.gone" ]; then echo more; exit 0; fi
mv -f -- "$1/room" "$1/room.gone"`

// Unlink removes the links in a session's folder, and nothing to which they lead.
func Unlink(ctx context.Context, h hostexec.Host, l protocol.Layout, fence hostexec.Fence) error {
	if _, err := h.Run(ctx, hostexec.Command{Script: unlinkScript, Args: []string{"", l.Dir}, Fence: &fence}); err != nil {
		return fmt.Errorf("remove the links in %s on %s: %w", l.Dir, h.Name(), err)
	}
	return nil
}

// Remove removes a session's folder and its room. The caller must have saved or given up
// everything in them, and wiped the credential. Remove begins with the room. If it is killed,
// the folder or the holder of the room shows what is left. It renames the room before it
// removes files, so nobody takes the remaining files for the session's work.
func Remove(ctx context.Context, h hostexec.Host, l protocol.Layout, fence hostexec.Fence) error {
	session := path.Base(l.Dir)
	res, err := h.Run(ctx, hostexec.Command{Script: heldScript + `
fl_held "$1" "$2" "$3"
echo "$room"`, Args: []string{l.Rooms(), session, strings.Join(RoomsFor(session), " ")}})
	if err != nil {
		return fmt.Errorf("look for the room of %s on %s: %w", l.Dir, h.Name(), err)
	}
	if room := strings.TrimSpace(string(res.Stdout)); room != "" {
		if !roomRule.MatchString(room) {
			return fmt.Errorf("look for the room of %s on %s: unexpected output %.40q", l.Dir, h.Name(), room)
		}
		at := path.Join(l.Rooms(), room)
		for more := true; more; {
			res, err := h.Run(ctx, hostexec.Command{Script: asideScript, Args: []string{at, l.Dir}, Fence: &fence})
			if err != nil {
				return fmt.Errorf("put the room %s on %s aside: %w", at, h.Name(), err)
			}
			more = strings.TrimSpace(string(res.Stdout)) == "more"
			if err := EraseGone(ctx, h, l.In(room), fence); err != nil {
				return err
			}
		}
		if _, err := h.Run(ctx, hostexec.Command{Script: freeScript, Args: []string{at, l.Dir}, Fence: &fence}); err != nil {
			return fmt.Errorf("free the room %s on %s: %w", at, h.Name(), err)
		}
	}
	return hostexec.RemoveTree(ctx, h, l.Dir, path.Join(l.Root, "sessions"), &fence)
}

// EraseGone removes a room of the session that an interrupted Remove has renamed.
func EraseGone(ctx context.Context, h hostexec.Host, l protocol.Layout, fence hostexec.Fence) error {
	if l.Room == "" {
		return nil
	}
	return hostexec.RemoveTree(ctx, h, l.Seen()+".gone", l.Rooms(), &fence)
}
