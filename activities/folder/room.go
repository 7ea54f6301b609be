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

// roomOf returns the place to which a session's link leads.
func roomOf(link string) (string, error) {
	if link == "" {
		return "", nil
	}
	at := strings.LastIndex(link, "/rooms/")
	room, ends := strings.CutSuffix(link[max(at, 0):], "/room")
	room, ours := strings.CutPrefix(room, "/rooms/")
	if !ours || !ends || !roomRule.MatchString(room) {
		return "", fmt.Errorf("its link to a room leads to %.100q, where no room is", link)
	}
	return room, nil
}

// RoomsFor returns the places that a session may hold, in the order in which it tries them:
// always the same, so that what an interrupted attempt holds is found again.
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
fl_holds() {
	ln -s -- "@$2" "$1/holder" 2>/dev/null || [ "$(readlink -- "$1/holder" 2>/dev/null)" = "@$2" ]
}
fl_room() {
	room=
	if [ -h "$1/sessions/$2/room" ]; then
		room=$(readlink -- "$1/sessions/$2/room") || return 1
		room=${room##*/rooms/} room=${room%/room}
		case $room in [0-7]/[0-7]/[0-7]/[0-7]) ;; *) echo "$1/sessions/$2/room leads to no room" >&2; return 1 ;; esac
		fl_tree "$1/rooms" "$room" || return 1
		fl_holds "$1/rooms/$room" "$2" || { echo "another session holds the room $1/rooms/$room of $2" >&2; return 1; }
		return
	fi
	fl_held "$1/rooms" "$2" "$3"
	[ -n "$room" ] || [ ! -e "$1/sessions/$2/proc" ] || return 0
	for room in ${room:-$3}; do
		fl_tree "$1/rooms" "$room" || return 1
		if fl_holds "$1/rooms/$room" "$2"; then
			ln -s -- "$1/rooms/$room/room" "$1/sessions/$2/room"
			return
		fi
	done
	echo "no room is free in $1/rooms: close sessions there" >&2
	return 1
}`

// heldScript defines fl_held ROOMS SESSION PLACES, which sets room to the place that the session
// holds, or to the empty text.
const heldScript = `fl_held() {
	for room in $3; do
		if [ -h "$1/$room/holder" ] && [ "$(readlink -- "$1/$room/holder")" = "@$2" ]; then return; fi
	done
	room=
}`

// freeScript frees the place $1, after the links to it in the session's folder $2. It must not
// leave a link: another session may get the place.
const freeScript = `for f in room codex-home work tmp inputs; do
	[ ! -h "$2/$f" ] || rm -f -- "$2/$f" || exit 1
done
[ "$(readlink -- "$1/holder" 2>/dev/null)" != "@${2##*/}" ] || rm -f -- "$1/holder"`

// Remove removes a session's folder and its room. Everything in them must be saved or given
// up, and the credential wiped. It removes the room first: what a killed attempt leaves is
// found by the folder, or by the holder of the room.
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
		if err := hostexec.RemoveTree(ctx, h, l.In(room).Seen(), l.Rooms(), &fence); err != nil {
			return err
		}
		at := path.Join(l.Rooms(), room)
		if _, err := h.Run(ctx, hostexec.Command{Script: freeScript, Args: []string{at, l.Dir}, Fence: &fence}); err != nil {
			return fmt.Errorf("free the room %s on %s: %w", at, h.Name(), err)
		}
	}
	return hostexec.RemoveTree(ctx, h, l.Dir, path.Join(l.Root, "sessions"), &fence)
}
