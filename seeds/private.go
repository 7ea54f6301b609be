package seeds

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
)

// Checks of Private, which codex denies to commands. Measured with codex 0.133 to 0.169:
//
//   - "deny" of a folder hides all that is in it. A folder in it that is "write" is visible
//     again; one that is "read" is not. So a folder above CODEX_HOME cannot be denied.
//   - A command that somebody accepts to run outside the sandbox keeps what is "deny", and
//     nothing else. A "write" folder inside a denied one is missing for it: with a folder above
//     the work folder denied, it ran in HOME, and what it wrote was lost (codex 0.169). So what
//     lies beside the session's room is denied, and nothing above it (activities/folder).
//   - "deny" also hides what is put into the folder later. A mode that lets nobody list a folder
//     hides nothing: a command can make a user namespace, in which it lists the folders of its
//     user all the same.
//   - "deny" of a symbolic link stops every command from starting.
//   - "deny" of a missing path does nothing, but stops every command from starting in a
//     folder that is "read" inside of one that commands may write.

// checkPrivate refuses paths that codex cannot deny, and paths without which the session
// cannot work.
func (s PlantSpec) checkPrivate() error {
	for _, p := range s.Private {
		if !path.IsAbs(p) || path.Clean(p) != p || !writable(p) {
			return fmt.Errorf("private path %q is not a clean absolute path in UTF-8", p)
		}
		if strings.ContainsAny(p, "*?[]") {
			return fmt.Errorf("codex cannot hide %s, whose name has one of * ? [ ] in it", p)
		}
		for what, own := range map[string]string{"CODEX_HOME": s.CodexHome, "the work directory": s.WorkDir} {
			if own == p || below(own, p) {
				return fmt.Errorf("%s %s lies in %s, which commands must not read", what, own, p)
			}
		}
	}
	return nil
}

// freeOf returns the folders that commands may write, or may put another folder in place of.
func (s PlantSpec) freeOf() []string {
	return append([]string{"/tmp", "/var/tmp", s.WorkDir}, s.Confine.Write...)
}

// Deniable reports whether p can be denied although it may go away later: it lies below no
// folder that commands may write.
func Deniable(p, workDir string, c Confinement) bool {
	for _, dir := range (PlantSpec{WorkDir: workDir, Confine: c}).freeOf() {
		if dir != "" && below(p, dir) {
			return false
		}
	}
	return true
}

const maxPrivateTricks = 64

// privateScript looks at each path, and at the first of them also with some of root's powers.
// It changes nothing on the host: what it unmounts is mounted in its own sandbox.
const privateScript = `n=0
sees() {
	if [ -S "$1" ]; then return 0; fi
	if [ -d "$1" ]; then [ -n "$(ls -A "$1/" 2>/dev/null)" ]; return; fi
	[ -f "$1" ] && [ "$(head -c 1 "$1" 2>/dev/null | wc -c)" -gt 0 ]
}
tricks() {
	if [ "$n" -ge $max ]; then return 1; fi
	if sees "/proc/self/root$1"; then return 0; fi
	for o in /proc/[0-9]*; do
		if sees "$o/root$1"; then return 0; fi
	done
	if [ -n "$(unshare -rm sh -c 'umount "$1"; if [ -d "$1" ]; then ls -A "$1"; else head -c 1 "$1"; fi' sh "$1" 2>/dev/null)" ]; then return 0; fi
	umount "$1" 2>/dev/null || umount -l "$1" 2>/dev/null
	sees "$1"
}
max=$1
shift
for p; do
	if sees "$p" || tricks "$p"; then echo "open $n"; fi
	n=$((n + 1))
done
echo end`

// PrivateCommand returns a command that tries to read paths in a sandbox. ReadPrivate reads
// its output.
func PrivateCommand(paths []string) []string {
	return append([]string{"/bin/sh", "-c", privateScript, "sh", strconv.Itoa(maxPrivateTricks)}, paths...)
}

// ReadPrivate returns those of paths that the command could read. An error means that it did
// not finish.
func ReadPrivate(printed string, paths []string) (open []string, err error) {
	lines := strings.Split(strings.TrimRight(printed, "\n"), "\n")
	if lines[len(lines)-1] != "end" {
		return nil, errors.New("the trial did not come to its end")
	}
	for _, line := range lines[:len(lines)-1] {
		at, is := strings.CutPrefix(line, "open ")
		n, err := strconv.Atoi(at)
		if !is || err != nil || n < 0 || n >= len(paths) {
			return nil, fmt.Errorf("the output of the sandbox trial has an unexpected line (%d lines in all)", len(lines))
		}
		if !slices.Contains(open, paths[n]) {
			open = append(open, paths[n])
		}
	}
	return open, nil
}
