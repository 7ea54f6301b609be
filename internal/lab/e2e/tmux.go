package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"fairlead.dev/fairlead/internal/lab"
)

// A Window is a terminal of tmux in which a person uses ctl. It has what a real terminal
// has: a size, a screen that programs draw on, and keys.
type Window struct {
	t      *testing.T
	socket string
	status string // the file that gets ctl's exit code
}

// Tmux starts ctl in a window of that size. The window stays when ctl has ended.
func Tmux(t *testing.T, width, height int, args ...string) *Window {
	t.Helper()
	return TmuxWith(t, width, height, nil, args...)
}

// TmuxWith is Tmux with more variables in ctl's environment.
func TmuxWith(t *testing.T, width, height int, env []string, args ...string) *Window {
	t.Helper()
	dir, err := os.MkdirTemp("/var/tmp", "fairlead-tmux-") // a socket's path must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	conf := filepath.Join(dir, "conf")
	if err := os.WriteFile(conf, []byte("set -g remain-on-exit on\nset -g status off\nset -s escape-time 0\nset -g default-terminal tmux-256color\nset -g history-limit 5000\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c := Lab.Command(Within(t), args...)
	w := &Window{t: t, socket: filepath.Join(dir, "s"), status: filepath.Join(dir, "status")}
	line := []string{"-f", conf, "-S", w.socket, "new-session", "-d", "-x", strconv.Itoa(width), "-y", strconv.Itoa(height), "-c", c.Dir, "--",
		// tmux sometimes loses the exit code.
		"sh", "-c", `trap : INT; "$@"; echo $? > "$0"`, w.status}
	start := exec.CommandContext(Within(t), "tmux", append(line, c.Args...)...)
	start.Env, start.Dir = append(append(slices.Clone(c.Env), "TERM=tmux-256color", "NO_COLOR=", "LC_ALL=C.UTF-8", "LANG=C.UTF-8"), env...), c.Dir
	if out, err := start.CombinedOutput(); err != nil {
		t.Fatalf("start tmux: %v: %s", err, out)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		_ = exec.CommandContext(ctx, "tmux", "-S", w.socket, "kill-server").Run() // it may have ended
	})
	return w
}

func (w *Window) tmux(args ...string) string {
	w.t.Helper()
	out, err := exec.CommandContext(Within(w.t), "tmux", append([]string{"-S", w.socket}, args...)...).CombinedOutput()
	if err != nil {
		w.t.Fatalf("tmux %q: %v: %s", args, err, out)
	}
	return string(out)
}

// until polls until cond holds, for a time that is long for what a screen shows.
func (w *Window) until(what string, cond func() (bool, error)) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), 4*time.Minute)
	defer cancel()
	if err := lab.Until(ctx, what, cond); err != nil {
		w.t.Fatal(err)
	}
}

// Screen returns what the window shows.
func (w *Window) Screen() string {
	w.t.Helper()
	return strings.TrimRight(w.tmux("capture-pane", "-p"), "\n")
}

// Colours returns what the window shows, with its colours.
func (w *Window) Colours() string {
	w.t.Helper()
	return w.tmux("capture-pane", "-p", "-e")
}

// All returns what the window shows and what has scrolled off its top.
func (w *Window) All() string {
	w.t.Helper()
	return strings.TrimRight(w.tmux("capture-pane", "-p", "-J", "-S", "-"), "\n")
}

// Sees waits until the window shows all of these words, and returns the screen.
func (w *Window) Sees(words ...string) (screen string) {
	w.t.Helper()
	w.until(fmt.Sprintf("%q on the screen", words), func() (bool, error) {
		screen = w.Screen()
		for _, word := range words {
			if !strings.Contains(screen, word) {
				return false, fmt.Errorf("there is no %q on\n%s", word, screen)
			}
		}
		return true, nil
	})
	return screen
}

// Misses waits until the window does not show these words any more.
func (w *Window) Misses(words string) {
	w.t.Helper()
	w.until(fmt.Sprintf("no %q on the screen", words), func() (bool, error) {
		if screen := w.Screen(); strings.Contains(screen, words) {
			return false, fmt.Errorf("there is\n%s", screen)
		}
		return true, nil
	})
}

// Presses sends keys as tmux names them: y, Enter, Down, C-c.
func (w *Window) Presses(keys ...string) {
	w.t.Helper()
	for _, key := range keys {
		w.tmux("send-keys", key)
	}
}

// Types sends a text as it is.
func (w *Window) Types(text string) {
	w.t.Helper()
	w.tmux("send-keys", "-l", text)
}

// Resize changes the size of the window.
func (w *Window) Resize(width, height int) {
	w.t.Helper()
	w.tmux("resize-window", "-x", strconv.Itoa(width), "-y", strconv.Itoa(height))
}

// Ends waits until ctl has ended, and returns its exit code.
func (w *Window) Ends() (code int) {
	w.t.Helper()
	w.until("the end of ctl", func() (bool, error) {
		status, err := os.ReadFile(w.status)
		if err != nil || !strings.HasSuffix(string(status), "\n") {
			return false, fmt.Errorf("on the screen is\n%s", w.Screen())
		}
		code, err = strconv.Atoi(strings.TrimSpace(string(status)))
		return err == nil, err
	})
	return code
}
