package snaps

import (
	"context"
	"fmt"
	"strings"

	"fairlead.dev/fairlead/activities/internal/kit"
	"fairlead.dev/fairlead/activities/site"
	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/snapshots"
)

const maxUnread = 5

// TakeWhole makes a snapshot before its files are removed from the host. If it lacks any of
// them, TakeWhole returns an error, too.
func TakeWhole(ctx context.Context, s *site.Site, h hostexec.Host, in Taking, hide site.Secrets) (*SnapshotBrief, error) {
	got, err := takeOn(ctx, s, h, in, hide)
	if err != nil || got == nil {
		return got, err
	}
	m, err := Manifest(ctx, s, got.ID)
	if err != nil {
		return nil, err
	}
	if !MadeBy(m, in) {
		return nil, fmt.Errorf("the id %s is already used by another snapshot (generation %d on %s, thread %q)", m.ID, m.Generation, m.Host, m.ThreadID)
	}
	return got, Whole(m, in.Layout.OwnWork)
}

// Whole returns an error if a snapshot lacks files that go with a session's folder. A
// person's folder stays and does not count.
func Whole(m snapshots.Manifest, ownWork bool) error {
	goes := []string{snapshots.Rollouts}
	if ownWork {
		goes = append(goes, snapshots.Work)
	}
	n, names := m.Unread(maxUnread, goes...)
	if n == 0 {
		return nil
	}
	return &kit.TypedError{Kind: protocol.ErrTypeUnreadable,
		Hint: fmt.Sprintf("make them readable for the user that Fairlead logs in as, and try again; `ctl session close %s --discard` gives them up", m.Session),
		Err:  fmt.Errorf("snapshot %s lacks %s", m.ID, unreadText(n, names))}
}

func unreadText(n int64, names []string) string {
	text := fmt.Sprintf("%d files or folders that may not be read", n)
	if n == 1 {
		text = "one file or folder that may not be read"
	}
	if len(names) == 0 {
		return text
	}
	if int64(len(names)) < n {
		names = append(names[:len(names):len(names)], "…")
	}
	return text + ": " + strings.Join(names, ", ")
}
