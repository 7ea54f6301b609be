package e2e

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"fairlead.dev/fairlead/internal/lab"
	"fairlead.dev/fairlead/internal/protocol"
)

// Session starts a session on web-1 and closes it when the test ends.
func Session(t *testing.T, id string, flags ...string) {
	t.Helper()
	OK(t, append([]string{"session", "start", "--host", "web-1", "--seed", "team", "--id", id}, flags...)...)
	Closes(t, id)
}

// Closes closes a session when the test ends, if it is still there.
func Closes(t *testing.T, id string) {
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 15*time.Minute)
		defer cancel()
		var v protocol.SessionView
		if err := Lab.JSON(ctx, &v, "session", "show", id); err != nil || v.State == protocol.Closed {
			return
		}
		if r := Lab.Ctl(ctx, nil, "session", "close", id); r.Code != 0 {
			t.Errorf("close: %v", r)
		}
		if left := lab.Below(filepath.Join(Root, "sessions", id)); len(left) > 0 {
			t.Errorf("processes of session %s are left: %v", id, left)
		}
	})
}

// Send sends a message and does not wait for the answer.
func Send(t *testing.T, id, text string) protocol.MessageAccepted {
	t.Helper()
	var acc protocol.MessageAccepted
	if err := Lab.JSON(Within(t), &acc, "session", "send", id, "--no-wait", text); err != nil {
		t.Fatal(err)
	}
	return acc
}

// Turn runs a turn to its end.
func Turn(t *testing.T, id, text string) protocol.TurnView {
	t.Helper()
	var v protocol.TurnView
	if err := Lab.JSON(Within(t), &v, "session", "send", id, text); err != nil {
		t.Fatal(err)
	}
	return v
}

// Show returns a session as ctl shows it.
func Show(t *testing.T, id string) protocol.SessionView {
	t.Helper()
	var v protocol.SessionView
	if err := Lab.JSON(Within(t), &v, "session", "show", id); err != nil {
		t.Fatal(err)
	}
	return v
}

// Child waits until a session has started its n-th child, and returns the child's id.
func Child(t *testing.T, parent string, n int) (id string) {
	t.Helper()
	Until(t, fmt.Sprintf("child %d of %s", n, parent), func() (bool, error) {
		for _, v := range Show(t, parent).Children {
			if strings.HasPrefix(v.Session, fmt.Sprintf("%s-child-%d-", parent, n)) {
				id = v.Session
			}
		}
		return id != "", nil
	})
	return id
}

// Started waits for the nth follow-up of a session and returns its id.
func Started(t *testing.T, id string, n int) (followUp string) {
	t.Helper()
	Until(t, fmt.Sprintf("follow-up %d of %s", n, id), func() (bool, error) {
		all := Show(t, id).FollowUps
		if len(all) < n {
			return false, nil
		}
		followUp = all[n-1].Session
		return true, nil
	})
	return followUp
}

// Open waits for n open approvals of a session.
func Open(t *testing.T, id string, n int) []protocol.Approval {
	t.Helper()
	var list []protocol.Approval
	Until(t, fmt.Sprintf("%d approvals of %s", n, id), func() (bool, error) {
		var err error
		list, err = lab.Lines[protocol.Approval](Within(t), Lab, "approval", "list", "--session", id)
		return len(list) == n, err
	})
	return list
}

// final are the statuses of a turn that has ended. Without a worker, a session
// is shown as Temporal stores it, without any status.
var final = map[string]bool{"completed": true, "interrupted": true, "failed": true, "unknown": true}

// Idle waits until a session is idle.
func Idle(t *testing.T, id string) {
	t.Helper()
	Until(t, id+" to be idle", func() (bool, error) { return Show(t, id).State == protocol.Idle, nil })
}

// Ended polls the session until turn n has ended.
func Ended(t *testing.T, id string, n int) protocol.SessionView {
	t.Helper()
	var v protocol.SessionView
	Until(t, fmt.Sprintf("the end of turn %d of %s", n, id), func() (bool, error) {
		v = Show(t, id)
		return v.Turn != nil && v.Turn.N == n && final[v.Turn.Status], nil
	})
	return v
}

// HasClosed waits for the end of a session, also of one that does not exist
// yet.
func HasClosed(t *testing.T, id string) protocol.SessionView {
	t.Helper()
	var v protocol.SessionView
	Until(t, id+" to be closed", func() (bool, error) {
		r := Lab.Ctl(Within(t), nil, "session", "show", id)
		if r.Code == 3 {
			return false, nil // it does not exist yet
		}
		v = Show(t, id)
		return v.State == protocol.Closed || v.State == protocol.Failed, nil
	})
	return v
}
