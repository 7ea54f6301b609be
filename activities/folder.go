package activities

import (
	"context"
	"encoding/json"
	"fmt"
	"path"
	"strconv"
	"strings"

	"fairlead.dev/fairlead/hostexec"
)

// A folderMark is what the file "generation" in a session's folder says: for
// whom that was made, and in which state it was left. A folder of another
// generation is never worked in, except by the one that comes back to where its
// session was parked: codex keeps an index beside its rollouts, and an older
// rollout under a newer index shows people what the model does not see.
type folderMark struct {
	Generation int64
	// Dir is the person's own folder to work in; empty where that is ours.
	Dir string
	// Seed is what was planted here, Brokered if only a broker gave of it: it
	// is to be masked in whatever is kept of the folder, and what codex made of
	// a login must not be lost with it.
	Seed     *SeedRef
	Brokered bool
	// Restored is how PrepareSession found the folder, which it says again
	// when it is asked again: warm, snapshot, or nothing.
	Restored string
	// Differs says in what the restored work is not as it was, likewise.
	Differs string
	// Left is the snapshot that was made of what lay here before; see
	// PrepareSessionResult.
	Left string
	// From is the snapshot that was brought here.
	From string
	// Parked says that nothing has run here since Snapshot was taken, which
	// holds all that was worth keeping; it is empty where nothing was.
	Parked   bool
	Snapshot string
}

// The values of PrepareSessionResult.Restored.
const (
	RestoredWarm     = "warm"     // the folder was there as it was left
	RestoredSnapshot = "snapshot" // brought to the host
)

const markFile = "generation"

func (m folderMark) text() string {
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

// parseMark reads a mark. A text that is none of ours is of nobody's generation.
func parseMark(text string) (m folderMark) {
	for line := range strings.Lines(text) {
		if !strings.HasSuffix(line, "\n") {
			return folderMark{} // cut short
		}
		switch word, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " "); word {
		case "generation":
			n, err := strconv.ParseInt(value, 10, 64)
			if err != nil || n < 1 {
				return folderMark{}
			}
			m.Generation = n
		case "dir":
			m.Dir = value
		case "seed", "brokered":
			m.Seed, m.Brokered = &SeedRef{}, word == "brokered"
			if json.Unmarshal([]byte(value), m.Seed) != nil {
				return folderMark{}
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

// A folder is a session's on a host, as it is found there.
type folder struct {
	there    bool // with more in it than a lock makes
	prepared bool // a PrepareSession has come to its end
	mark     folderMark
}

// login is the seed whose login may have been rotated here; nil where none can be.
func (m folderMark) login() *SeedRef {
	if m.Brokered || !m.Seed.rotates() {
		return nil
	}
	return m.Seed
}

// sameSecrets says whether whoever comes with a seed knows the secrets that may
// have been printed here. Where another one was planted, what lies here holds
// some that the next snapshot would not mask: what is in the store is masked.
func (m folderMark) sameSecrets(seed *SeedRef) bool {
	return m.Seed == nil || seed != nil && seed.Name == m.Seed.Name
}

// parkedBy says whether the folder is as the session of a generation left it.
func (f folder) parkedBy(generation int64, snapshot string) bool {
	return f.prepared && f.mark.Parked && generation > 0 && f.mark.Generation == generation && f.mark.Snapshot == snapshot
}

const lookFolderScript = `d=$1
for f in codex-home work proc generation; do
	if [ -e "$d/$f" ] || [ -h "$d/$f" ]; then
		if [ -e "$d/prepared" ]; then echo prepared; else echo begun; fi
		[ ! -e "$d/generation" ] || cat -- "$d/generation"
		exit
	fi
done
echo bare`

// lookFolder looks at a session's folder without touching anything, also not
// its lock.
func lookFolder(ctx context.Context, h hostexec.Host, dir string) (folder, error) {
	res, err := h.Run(ctx, hostexec.Command{Script: lookFolderScript, Args: []string{dir}})
	if err != nil {
		return folder{}, fmt.Errorf("look whose %s on %s is: %w", dir, h.Name(), err)
	}
	state, mark, _ := strings.Cut(string(res.Stdout), "\n")
	switch state {
	case "bare":
		return folder{}, nil
	case "prepared", "begun":
		return folder{there: true, prepared: state == "prepared", mark: parseMark(mark)}, nil
	}
	return folder{}, fmt.Errorf("look whose %s on %s is: the host said %q", dir, h.Name(), state)
}

// flushMark has a mark on the disk before it gets its name: a host that loses its
// power must not come back with an empty one.
const flushMark = `{ dd if=/dev/null of="$1/generation.new" conv=notrunc,fsync 2>/dev/null || sync "$1/generation.new" 2>/dev/null || sync; }`

// writeMark says whose the folder is from now on. With done a PrepareSession has
// come to its end.
func writeMark(ctx context.Context, h hostexec.Host, l Layout, m folderMark, done bool, fence hostexec.Fence) error {
	args := []string{l.Dir, m.text()}
	if done {
		args = append(args, path.Join(l.Dir, "prepared"))
	}
	_, err := h.Run(ctx, hostexec.Command{
		Script: `umask 077
printf %s "$2" >"$1/generation.new" && ` + flushMark + ` && mv -f -- "$1/generation.new" "$1/generation" || exit 1
[ -z "$3" ] || : >"$3"`, Args: args, Fence: &fence})
	if err != nil {
		return fmt.Errorf("mark %s on %s as that of generation %d: %w", l.Dir, h.Name(), m.Generation, err)
	}
	return nil
}

// behind is a claim for tidying up behind a generation: above whatever that one
// says to the host, and below every later one, which it must not keep away.
func (c Claim) behind(generation int64) Claim {
	if generation > 0 {
		c.Generation, c.Pump = generation, c.Pump+tidying
	}
	return c
}

// tidying is above the number of any pump. What hosts compare has 31 bits.
const tidying = 1 << 30
