package hostexec_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"fairlead.dev/fairlead/hostexec"
)

// removers returns hosts for each kind of lock and each shell.
func removers(t *testing.T) []place {
	unlocked := make(map[string]string)
	for _, name := range []string{"sh", "mkdir", "sleep", "ln", "readlink", "find", "rm", "rmdir", "mv", "cat", "chmod", "touch"} {
		unlocked[name] = lookPath(t, name)
	}
	bare := func(t *testing.T) hostexec.Host { return &otherShell{localHost(t), farm(t, unlocked)} }
	return append(places(t)[1:], place{"no flock", bare})
}

// A steered host puts shell functions of the test before each script, and makes the fence a
// part of that script, so that the functions also affect the fence.
type steered struct {
	hostexec.Host
	before string
}

func (h *steered) Run(ctx context.Context, c hostexec.Command) (hostexec.Result, error) {
	if c.Fence != nil {
		c.Script = hostexec.FencePrologue(*c.Fence) + "\n(" + c.Script + "\n)\nr=$?\n" + hostexec.FenceEpilogue + "\nexit $r"
		c.Fence = nil
	}
	c.Script = h.before + "\n" + c.Script
	return h.Host.Run(ctx, c)
}

// stopsBefore makes a script wait before its nth step that creates, moves or removes a
// file. The script then creates a file with the path reached, and goes on when a file with
// the path on exists.
func stopsBefore(h hostexec.Host, n int, reached, on string) hostexec.Host {
	before := fmt.Sprintf(`t_n=0
t_step() {
	t_n=$((t_n + 1))
	[ $t_n -eq %d ] || return 0
	: >'%s'
	until [ -e '%s' ]; do command sleep 0.01 2>/dev/null || command sleep 1; done
}
`, n, reached, on)
	for _, name := range []string{"mkdir", "mv", "rm", "rmdir"} {
		before += fmt.Sprintf("%s() { t_step; command %[1]s \"$@\"; }\n", name)
	}
	return &steered{h, before}
}

// tellsOfWaiting makes a script create a file with the path waits when it begins to wait
// for the lock.
func tellsOfWaiting(h hostexec.Host, waits string) hostexec.Host {
	return &steered{h, fmt.Sprintf(`sleep() { : >'%s'; command sleep "$@"; }`, waits)}
}

// A former holder never removes a credential that a newer holder wrote, and never creates a
// file again that a newer holder removed. This holds at whichever step of one holder the
// other one intervenes.
func TestTheFenceHoldsWhileItsFolderIsRemoved(t *testing.T) {
	for _, p := range removers(t) {
		t.Run(p.name, func(t *testing.T) {
			h := p.host(t)
			ctx, root, signs := t.Context(), t.TempDir(), t.TempDir()
			older, newer := hostexec.Epoch{Generation: 1, Pump: 1}, hostexec.Epoch{Generation: 2, Pump: 1}
			write := func(h hostexec.Host, dir string, e hostexec.Epoch) error {
				_, err := h.Run(ctx, hostexec.Command{
					Script: `mkdir -p "$1/home" && echo "$2" >"$1/home/auth.json"`, Args: []string{dir, e.String()},
					Fence: &hostexec.Fence{Dir: dir, Epoch: e}})
				return err
			}
			remove := func(h hostexec.Host, dir string, e hostexec.Epoch) error {
				return hostexec.RemoveTree(ctx, h, dir, root, &hostexec.Fence{Dir: dir, Epoch: e})
			}
			// during runs b before the nth step of a, and lets a go on when b has ended or
			// waits for the lock. during reports whether a has that many steps.
			during := func(name string, n int, a, b func(h hostexec.Host) error) (there bool, errA, errB error) {
				t.Helper()
				at := filepath.Join(signs, fmt.Sprint(name, "-", n))
				reached, on, waits := at+".reached", at+".on", at+".waits"
				endA, endB := make(chan error, 1), make(chan error, 1)
				go func() { endA <- a(stopsBefore(h, n, reached, on)) }()
				until(t, "the first one stopped or ended", func() bool { return exists(reached) || len(endA) > 0 })
				if !exists(reached) {
					return false, <-endA, nil
				}
				go func() { endB <- b(tellsOfWaiting(h, waits)) }()
				until(t, "the second one waits or has ended", func() bool { return exists(waits) || len(endB) > 0 })
				if err := os.WriteFile(on, nil, 0o600); err != nil {
					t.Fatal(err)
				}
				return true, <-endA, <-endB
			}
			prepare := func(name string, n int) string {
				t.Helper()
				dir := filepath.Join(root, fmt.Sprint(name, "-", n))
				if err := os.MkdirAll(dir+"/work", 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(dir+"/work/file", nil, 0o600); err != nil {
					t.Fatal(err)
				}
				return dir
			}
			const fewest = 4 // steps: write the epoch, keep it beside the folder, rename the folder, remove it
			for n := 1; ; n++ {
				dir := prepare("kept", n)
				there, removed, wrote := during("kept", n,
					func(h hostexec.Host) error { return remove(h, dir, older) }, func(h hostexec.Host) error { return write(h, dir, newer) })
				if removed != nil && !errors.Is(removed, hostexec.ErrFenced) && !isRefusal(removed) {
					t.Errorf("step %d: the former holder's removal: %v", n, removed)
				}
				if !there {
					if n <= fewest {
						t.Errorf("a removal has no step %d", n)
					}
					break
				}
				if wrote != nil {
					t.Errorf("step %d: the newer holder's write: %v", n, wrote)
				}
				if b, err := os.ReadFile(dir + "/home/auth.json"); string(b) != newer.String()+"\n" {
					t.Errorf("step %d: what the newer holder wrote is %q, %v", n, b, err)
				}
			}
			for n := 1; ; n++ {
				dir := prepare("gone", n)
				there, removed, wrote := during("gone", n,
					func(h hostexec.Host) error { return remove(h, dir, newer) }, func(h hostexec.Host) error { return write(h, dir, older) })
				if removed != nil {
					t.Errorf("step %d: the newer holder's removal: %v", n, removed)
				}
				if !there {
					break
				}
				if wrote != nil && !errors.Is(wrote, hostexec.ErrFenced) && !isRefusal(wrote) {
					t.Errorf("step %d: the former holder's write: %v", n, wrote)
				}
				if left, _ := filepath.Glob(dir + "/*"); len(left) > 0 {
					t.Errorf("step %d: the former holder brought back %q", n, left)
				}
			}
			if left, _ := filepath.Glob(root + "/.removing-*"); len(left) > 0 {
				t.Errorf("left: %q", left)
			}
		})
	}
}

// isRefusal reports whether the fence of another shell, which otherShell runs as a
// plain command, refused.
func isRefusal(err error) bool {
	var exit *hostexec.ExitError
	return errors.As(err, &exit) && exit.Code == 97
}

// If a removal was killed, the next one removes the rest, even if the folder itself is gone
// by then. Until then no call reports success.
func TestARemovalThatDiedIsFinishedByTheNext(t *testing.T) {
	for _, p := range removers(t) {
		t.Run(p.name, func(t *testing.T) {
			h, root := p.host(t), t.TempDir()
			dir := filepath.Join(root, "s-1")
			fence := &hostexec.Fence{Dir: dir, Epoch: hostexec.Epoch{Generation: 3}}
			left := root + "/.removing-s-1/home"
			if err := os.MkdirAll(left, 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(left+"/auth.json", nil, 0o600); err != nil {
				t.Fatal(err)
			}
			other := root + "/.removing-s-2/home"
			if err := os.MkdirAll(other, 0o755); err != nil {
				t.Fatal(err)
			}
			long := root + "/.removing-s-3/home"
			if err := os.MkdirAll(long, 0o755); err != nil {
				t.Fatal(err)
			}
			ago := time.Now().Add(-2 * time.Hour)
			if err := os.Chtimes(filepath.Dir(long), ago, ago); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				if err := hostexec.RemoveTree(t.Context(), h, dir, root, fence); err != nil {
					t.Fatal(err)
				}
			}
			got, err := exec.Command("ls", "-A", root).Output()
			if want := ".gone-s-1\n.removing-s-2\n"; string(got) != want || err != nil {
				t.Errorf("there is %q, %v; want %q", got, err, want)
			}
		})
	}
}

// If the session's folder is a link, only the link is removed, and its epoch is kept.
func TestALinkedFolderOfASessionIsRemovedUnderItsFence(t *testing.T) {
	for _, p := range removers(t) {
		t.Run(p.name, func(t *testing.T) {
			h, root, disk := p.host(t), t.TempDir(), t.TempDir()
			dir := filepath.Join(root, "s-1")
			if err := os.WriteFile(disk+"/kept", nil, 0o600); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				if err := os.Symlink(disk, dir); err != nil {
					t.Fatal(err)
				}
				fence := &hostexec.Fence{Dir: dir, Epoch: hostexec.Epoch{Generation: 3}}
				if err := hostexec.RemoveTree(t.Context(), h, dir, root, fence); err != nil {
					t.Fatal(err)
				}
				if _, err := os.Lstat(dir); !errors.Is(err, os.ErrNotExist) {
					t.Errorf("the link: %v", err)
				}
				if _, err := os.Stat(disk + "/kept"); err != nil {
					t.Error(err)
				}
				_, err := h.Run(context.WithoutCancel(t.Context()), hostexec.Command{Script: ":", Fence: &hostexec.Fence{Dir: dir, Epoch: hostexec.Epoch{Generation: 2}}})
				if !errors.Is(err, hostexec.ErrFenced) && !isRefusal(err) {
					t.Errorf("a former holder: %v", err)
				}
			}
		})
	}
}
