package core

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fairlead.dev/fairlead/internal/lab/stranger"
	"fairlead.dev/fairlead/internal/localsocket"
)

// The state folder says where Temporal and the workers are. ctl reads none that another user
// can have written.
func TestAStateFolderOfAnotherUserIsNotRead(t *testing.T) {
	tmp := stranger.Folder(t)
	state := filepath.Join(tmp, "state")
	if err := os.Mkdir(state, 0o700); err != nil {
		t.Fatal(err)
	}
	a := &App{Flags: Flags{State: state}}
	if dir, err := a.StateDir(); err != nil || dir != state {
		t.Errorf("our own: %s, %v", dir, err)
	}
	if err := os.Chown(state, stranger.UID, stranger.UID); err != nil {
		t.Fatal(err)
	}
	var e *Error
	if dir, err := a.StateDir(); !errors.As(err, &e) || !errors.Is(err, localsocket.ErrFolder) || dir != "" || !strings.Contains(e.Message, state) || !strings.Contains(e.Hint, "--state") {
		t.Errorf("of another user: %s, %v", dir, err)
	}
	a.Flags.State = filepath.Join(tmp, "none-yet")
	if dir, err := a.StateDir(); err != nil || dir != a.Flags.State {
		t.Errorf("one that is not made yet: %s, %v", dir, err)
	}
}
