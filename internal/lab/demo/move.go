package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"fairlead.dev/fairlead/hostexec/hosttest"
	"fairlead.dev/fairlead/internal/lab"
	"fairlead.dev/fairlead/internal/protocol"
)

func folderOn(l *lab.Lab, host string) string {
	return filepath.Join(l.Dir, "host "+host, "sessions", "demo")
}

// fifthTurn kills the host while the model streams.
func fifthTurn(ctx context.Context, l *lab.Lab) error {
	step("Turn 5: the host is lost in the middle of a sentence, without warning")
	var before protocol.SessionView
	if err := keptAsOf(ctx, l, 4, &before); err != nil {
		return err
	}
	fmt.Printf("the newest snapshot is of turn %d: %d files, %d bytes\n", before.Snapshot.Turn, before.Snapshot.Files, before.Snapshot.Bytes)
	if before.Process == nil || before.Process.Incarnation != 1 {
		return fmt.Errorf("codex was started anew: %+v", before.Process)
	}
	if _, err := l.AddHost(ctx, "web-2", hosttest.Options{}, "--label", "team=demo"); err != nil {
		return err
	}
	for _, args := range [][]string{{"host", "provision", "web-2"}, {"session", "send", "demo", "--no-wait", "Tell me a long story."}} {
		if err := show(ctx, l, args...); err != nil {
			return err
		}
	}
	if _, err := l.Model.AwaitWaiting(ctx, "story"); err != nil {
		return err
	}
	if err := lose(ctx, l, "web-1"); err != nil {
		return err
	}
	lost := time.Now()
	fmt.Println("  ✂ web-1 is gone: its sshd, its codex, all that ran on it")
	var v protocol.SessionView
	// The session moves to the other host only with the next message, so that
	// nobody pays for a turn that nobody asked for.
	err := lab.Until(ctx, "the session to leave its host", func() (bool, error) {
		err := l.JSON(ctx, &v, "session", "show", "demo")
		return v.Turn != nil && v.Turn.N == 5 && (v.Turn.Status == "interrupted" || v.Turn.Status == "unknown"), err
	})
	if err != nil {
		return err
	}
	l.Model.Release("story")
	fmt.Printf("  ⟲ %.1f s later the session has left it, its turn cut off on record (%s)\n", time.Since(lost).Seconds(), v.Turn.Status)
	if err := finishesThere(ctx, l, before.ThreadID); err != nil {
		return err
	}
	return comesBack(ctx, l)
}

func keptAsOf(ctx context.Context, l *lab.Lab, turn int, v *protocol.SessionView) error {
	return lab.Until(ctx, fmt.Sprintf("a snapshot of turn %d", turn), func() (bool, error) {
		*v = protocol.SessionView{}
		err := l.JSON(ctx, v, "session", "show", "demo")
		return v.Snapshot != nil && v.Snapshot.ID != "" && v.Snapshot.Turn >= turn && v.Snapshot.Taking == 0, err
	})
}

// lose kills a host's sshd and all its processes. Its files stay.
func lose(ctx context.Context, l *lab.Lab, host string) error {
	if err := l.Host(host).Stop(); err != nil {
		return err
	}
	return lab.Until(ctx, "the end of all that ran on "+host, func() (bool, error) {
		left := lab.Below(filepath.Join(l.Dir, "host "+host))
		for _, p := range left {
			word, _, _ := strings.Cut(p, " ")
			pid, err := strconv.Atoi(word)
			if err != nil {
				return false, err
			}
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
				return false, err
			}
		}
		return len(left) == 0, nil
	})
}

// finishesThere runs a turn that needs the history and the files.
func finishesThere(ctx context.Context, l *lab.Lab, thread string) error {
	if err := show(ctx, l, "session", "send", "demo", "What do you still know?"); err != nil {
		return err
	}
	turn, err := turnEnd(ctx, l, 6)
	if err != nil {
		return err
	}
	var v protocol.SessionView
	if err := l.JSON(ctx, &v, "session", "show", "demo"); err != nil {
		return err
	}
	switch {
	case turn.Status != "completed" || !strings.Contains(turn.FinalText, "Write a short plan into"):
		return fmt.Errorf("the thread does not remember: the turn %s with %q", turn.Status, turn.FinalText)
	case !strings.Contains(turn.FinalText, "paid") || !strings.Contains(turn.FinalText, "ok"):
		return fmt.Errorf("the files are not there: %q", turn.FinalText)
	case v.ThreadID != thread || v.Host != "web-2":
		return fmt.Errorf("the session is on %s with thread %s, not %s", v.Host, v.ThreadID, thread)
	}
	return show(ctx, l, "snapshot", "list", "demo")
}

// comesBack restarts the first host: the session's folder there must be
// deleted.
func comesBack(ctx context.Context, l *lab.Lab) error {
	if _, err := os.Stat(folderOn(l, "web-1")); err != nil {
		return err
	}
	if err := l.Host("web-1").Start(ctx); err != nil {
		return err
	}
	fmt.Println("web-1 is back, with what the session left on its disk")
	err := lab.Until(ctx, "what was left on web-1 to go", func() (bool, error) {
		_, err := os.Stat(folderOn(l, "web-1"))
		if !errors.Is(err, os.ErrNotExist) {
			return false, err
		}
		var h protocol.HostView
		err = l.JSON(ctx, &h, "host", "show", "web-1")
		return h.Unclean == 0, err
	})
	if err != nil {
		return err
	}
	return show(ctx, l, "host", "show", "web-1")
}
