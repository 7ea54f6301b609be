package folder

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"strconv"
	"strings"

	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/internal/protocol"
)

// A FolderMark says for which generation a session's folder was made, and how it was left.
// A session uses another generation's folder only if it was parked: with an older rollout
// under a newer index, codex shows people texts that the model does not see.
type FolderMark struct {
	Generation int64
	// Dir is the person's own work folder; empty if ours.
	Dir string
	// Seed was planted here or, if Brokered, served by a broker. Its secrets are masked in
	// all that is kept of the folder. A rotated login must not be lost.
	Seed     *protocol.SeedRef
	Brokered bool
	// Gateway is the port at which codex finds the model gateway; 0 without one.
	Gateway int
	// Restored is RestoredWarm, RestoredSnapshot, or "" for a new folder. A repeated
	// PrepareSession returns Restored and Differs again.
	Restored string
	// Differs says how the restored work differs.
	Differs string
	// Left is the snapshot of an earlier folder here: see PrepareSessionResult.
	Left string
	// From is the restored snapshot.
	From string
	// Parked says that nothing ran here after Snapshot, which has all that was worth
	// keeping; empty if nothing was.
	Parked   bool
	Snapshot string
}

// Values of PrepareSessionResult.Restored.
const (
	RestoredWarm     = "warm"
	RestoredSnapshot = "snapshot"
)

// MarkFile is the name of the mark's file.
const MarkFile = "generation"

// Text returns MarkFile's content.
func (m FolderMark) Text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "generation %d\n", m.Generation)
	if m.Dir != "" {
		fmt.Fprintf(&b, "dir %s\n", m.Dir)
	}
	if m.Seed != nil {
		ref, _ := json.Marshal(m.Seed) // never fails, and has no line break
		fmt.Fprintf(&b, "%s %s\n", map[bool]string{false: "seed", true: "brokered"}[m.Brokered], ref)
	}
	if m.Gateway > 0 {
		fmt.Fprintf(&b, "gateway %d\n", m.Gateway)
	}
	for _, line := range []struct{ word, value string }{{"restored", m.Restored}, {"from", m.From}, {"differs", m.Differs}, {"left", m.Left}} {
		if line.value != "" {
			fmt.Fprintf(&b, "%s %s\n", line.word, line.value)
		}
	}
	if m.Parked {
		fmt.Fprintf(&b, "parked %s\n", m.Snapshot)
	}
	return b.String()
}

// ParseMark reads a mark. Any other text has no generation.
func ParseMark(text string) (m FolderMark) {
	for line := range strings.Lines(text) {
		if !strings.HasSuffix(line, "\n") {
			return FolderMark{} // cut short
		}
		switch word, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " "); word {
		case "generation":
			n, err := strconv.ParseInt(value, 10, 64)
			if err != nil || n < 1 {
				return FolderMark{}
			}
			m.Generation = n
		case "dir":
			m.Dir = value
		case "seed", "brokered":
			m.Seed, m.Brokered = &protocol.SeedRef{}, word == "brokered"
			if json.Unmarshal([]byte(value), m.Seed) != nil {
				return FolderMark{}
			}
		case "gateway":
			n, err := strconv.Atoi(value)
			if err != nil || n < 1 || n > 65535 {
				return FolderMark{}
			}
			m.Gateway = n
		case "restored":
			m.Restored = value
		case "differs":
			m.Differs = value
		case "from":
			m.From = value
		case "left":
			m.Left = value
		case "parked":
			m.Parked, m.Snapshot = true, value
		}
	}
	return m
}

// A Folder is a session's folder on a host.
type Folder struct {
	Exists   bool // perhaps with only the files of the lock
	There    bool // with more than those
	Prepared bool // a PrepareSession has completed
	// Room is the place of the session's room; empty if there is none, as in folders of an
	// earlier release.
	Room string
	Mark FolderMark
}

// Layout returns l with the room that the folder has.
func (f Folder) Layout(l protocol.Layout) protocol.Layout {
	if !f.There {
		return l
	}
	l.ModelPort = f.Mark.Gateway
	return l.In(f.Room)
}

// Login returns the seed whose login may have rotated here, or nil.
func (m FolderMark) Login() *protocol.SeedRef {
	if m.Brokered || !LoginRotates(m.Seed) {
		return nil
	}
	return m.Seed
}

// SameSecrets reports whether a session with that seed knows the secrets here. Its next
// snapshot would not mask another seed's.
func (m FolderMark) SameSecrets(seed *protocol.SeedRef) bool {
	return m.Seed == nil || seed != nil && seed.Name == m.Seed.Name
}

// ParkedBy reports whether that generation left the folder.
func (f Folder) ParkedBy(generation int64, snapshot string) bool {
	return f.Prepared && f.Mark.Parked && generation > 0 && f.Mark.Generation == generation && f.Mark.Snapshot == snapshot
}

// lookFolderScript also finds the room of a session whose folder somebody removed: its work is
// there. $1 is the folder, $2 the folder of rooms, $3 the places that the session may hold.
const lookFolderScript = heldScript + `
d=$1
if [ -h "$d/room" ]; then
	link=$(readlink -- "$d/room")
	if ! fl_leads "$2" "$link" || [ "$(readlink -- "$2/$room/holder")" != "@${d##*/}" ]; then
		echo "stray $link"
		exit
	fi
else
	fl_held "$2" "${d##*/}" "$3"
	if [ ! -d "$2/$room/room" ] && [ ! -d "$2/$room/room.gone" ]; then room=; fi
fi
for f in "$d/codex-home" "$d/work" "$d/proc" "$d/generation"; do
	if [ -e "$f" ] || [ -h "$f" ] || [ -n "$room" ]; then
		if [ -e "$d/prepared" ]; then echo "prepared $room"; else echo "begun $room"; fi
		[ ! -e "$d/generation" ] || head -c 65536 -- "$d/generation"
		exit
	fi
done
if [ -e "$d" ] || [ -h "$d" ]; then echo bare; else echo absent; fi`

// ErrStray is the error of LookFolder where a session's link leads elsewhere than to the room
// that the session holds.
var ErrStray = errors.New("the session does not hold the room to which its link leads")

// LookFolder changes nothing and takes no lock.
func LookFolder(ctx context.Context, h hostexec.Host, dir string) (Folder, error) {
	root := protocol.Layout{Root: path.Dir(path.Dir(dir))}
	res, err := h.Run(ctx, hostexec.Command{Script: lookFolderScript, Args: []string{dir, root.Rooms(), strings.Join(RoomsFor(path.Base(dir)), " ")}})
	if err != nil {
		return Folder{}, fmt.Errorf("look at folder %s on %s: %w", dir, h.Name(), err)
	}
	state, mark, _ := strings.Cut(string(res.Stdout), "\n")
	state, room, _ := strings.Cut(state, " ")
	if state == "stray" {
		return Folder{}, fmt.Errorf("look at folder %s on %s: %w: it leads to %.200q (is the folder a copy?)", dir, h.Name(), ErrStray, room)
	}
	if room != "" && !roomRule.MatchString(room) {
		return Folder{}, fmt.Errorf("look at folder %s on %s: %.40q is not the place of a room", dir, h.Name(), room)
	}
	switch state {
	case "absent", "bare":
		return Folder{Exists: state == "bare"}, nil
	case "prepared", "begun":
		return Folder{Exists: true, There: true, Prepared: state == "prepared", Room: room, Mark: ParseMark(mark)}, nil
	}
	return Folder{}, fmt.Errorf("look at folder %s on %s: unexpected output %.200q", dir, h.Name(), state)
}

// FlushMark flushes a mark before it is renamed, so that a power failure leaves no empty
// mark.
const FlushMark = `{ dd if=/dev/null of="$1/generation.new" conv=notrunc,fsync 2>/dev/null || sync "$1/generation.new" 2>/dev/null || sync; }`

// WriteMark writes a folder's mark. done says that PrepareSession has completed.
func WriteMark(ctx context.Context, h hostexec.Host, l protocol.Layout, m FolderMark, done bool, fence hostexec.Fence) error {
	args := []string{l.Dir, m.Text()}
	if done {
		args = append(args, path.Join(l.Dir, "prepared"))
	}
	_, err := h.Run(ctx, hostexec.Command{
		Script: `umask 077
printf %s "$2" >"$1/generation.new" && ` + FlushMark + ` && mv -f -- "$1/generation.new" "$1/generation" || exit 1
[ -z "$3" ] || : >"$3"`, Args: args, Fence: &fence})
	if err != nil {
		return fmt.Errorf("mark %s on %s as that of generation %d: %w", l.Dir, h.Name(), m.Generation, err)
	}
	return nil
}

// ClaimBehind returns a claim for cleaning up after a generation: above its epochs, but
// below later ones, so as not to fence off the session.
func ClaimBehind(c protocol.Claim, generation int64) protocol.Claim {
	if generation > 0 {
		c.Generation, c.Pump = generation, c.Pump+tidying
	}
	return c
}

// tidying is above every pump's number. Hosts compare numbers of 31 bits.
const tidying = 1 << 30
