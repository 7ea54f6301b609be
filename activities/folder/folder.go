package folder

import (
	"context"
	"encoding/json"
	"fmt"
	"path"
	"strconv"
	"strings"

	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/internal/protocol"
)

// A FolderMark is the content of the file "generation" in a session's folder. It says
// for which generation the folder was made, and in which state it was left. A session
// works in a folder of another generation only if it was parked there. The reason is
// that codex keeps an index beside its rollouts: with an older rollout under a newer
// index, codex shows people texts that the model does not see.
type FolderMark struct {
	Generation int64
	// Dir is the person's own work folder; empty if the work folder is ours.
	Dir string
	// Seed is the seed that was planted here or, if Brokered, that a broker served. Its
	// secrets are masked in everything that is kept of the folder. If codex rotated its
	// login, the login must not be lost.
	Seed     *protocol.SeedRef
	Brokered bool
	// Restored says how PrepareSession restored the session: RestoredWarm,
	// RestoredSnapshot, or "" for a new folder. A repeated PrepareSession returns it
	// again.
	Restored string
	// Differs says how the restored work differs from the kept work. A repeated
	// PrepareSession returns it again.
	Differs string
	// Left is the snapshot of the folder that lay here before; see
	// PrepareSessionResult.
	Left string
	// From is the snapshot that was restored here.
	From string
	// Parked says that nothing has run here since Snapshot was taken. Snapshot holds
	// all that was worth keeping. It is empty if nothing was worth keeping.
	Parked   bool
	Snapshot string
}

// The values of PrepareSessionResult.Restored.
const (
	RestoredWarm     = "warm"     // the folder was as the session left it
	RestoredSnapshot = "snapshot" // restored from a snapshot
)

// MarkFile is the name of the file that says for which generation a session's folder was
// made.
const MarkFile = "generation"

// Text returns the content of the mark file.
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

// ParseMark reads a mark. A text that is not ours has no generation.
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

// A Folder describes a session's folder as it was found on a host.
type Folder struct {
	Exists   bool // it may have only the files of the lock
	There    bool // it has more than the files of the lock
	Prepared bool // a PrepareSession has completed
	Mark     FolderMark
}

// Login returns the seed whose login may have been rotated here; nil if there is none.
func (m FolderMark) Login() *protocol.SeedRef {
	if m.Brokered || !LoginRotates(m.Seed) {
		return nil
	}
	return m.Seed
}

// SameSecrets reports whether a session with that seed knows the secrets that may have
// been printed here. Its next snapshot would not mask the secrets of another seed, and
// every snapshot in the store must be masked.
func (m FolderMark) SameSecrets(seed *protocol.SeedRef) bool {
	return m.Seed == nil || seed != nil && seed.Name == m.Seed.Name
}

// ParkedBy reports whether the folder is as that generation of the session left it.
func (f Folder) ParkedBy(generation int64, snapshot string) bool {
	return f.Prepared && f.Mark.Parked && generation > 0 && f.Mark.Generation == generation && f.Mark.Snapshot == snapshot
}

const lookFolderScript = `d=$1
for f in codex-home work proc generation; do
	if [ -e "$d/$f" ] || [ -h "$d/$f" ]; then
		if [ -e "$d/prepared" ]; then echo prepared; else echo begun; fi
		[ ! -e "$d/generation" ] || cat -- "$d/generation"
		exit
	fi
done
if [ -e "$d" ] || [ -h "$d" ]; then echo bare; else echo absent; fi`

// LookFolder looks at a session's folder. It changes nothing and takes no lock.
func LookFolder(ctx context.Context, h hostexec.Host, dir string) (Folder, error) {
	res, err := h.Run(ctx, hostexec.Command{Script: lookFolderScript, Args: []string{dir}})
	if err != nil {
		return Folder{}, fmt.Errorf("look whose %s on %s is: %w", dir, h.Name(), err)
	}
	state, mark, _ := strings.Cut(string(res.Stdout), "\n")
	switch state {
	case "absent", "bare":
		return Folder{Exists: state == "bare"}, nil
	case "prepared", "begun":
		return Folder{Exists: true, There: true, Prepared: state == "prepared", Mark: ParseMark(mark)}, nil
	}
	return Folder{}, fmt.Errorf("look whose %s on %s is: the host said %q", dir, h.Name(), state)
}

// FlushMark flushes a mark to the disk before it is renamed, so that the host has no
// empty mark after a power failure.
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

// ClaimBehind returns a claim for cleaning up after a generation. Its epoch is above every
// epoch of that generation. It is below that of every later generation, so that it does not
// fence off the session.
func ClaimBehind(c protocol.Claim, generation int64) protocol.Claim {
	if generation > 0 {
		c.Generation, c.Pump = generation, c.Pump+tidying
	}
	return c
}

// tidying is larger than the number of any pump. The numbers that hosts compare have 31
// bits.
const tidying = 1 << 30
