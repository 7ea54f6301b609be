package main

import (
	"context"
	"errors"
	"io"
	"sync/atomic"

	"fairlead.dev/fairlead/activities/workspaces"
	"fairlead.dev/fairlead/internal/protocol"
)

// lateWorkspaces gives the API the sessions' work folders once the worker's activities
// exist. The API starts earlier.
type lateWorkspaces struct {
	now atomic.Pointer[workspaces.Workfolders]
}

var errNotReady = errors.New("this worker is not ready yet")

func (l *lateWorkspaces) set(s *workspaces.Workfolders) { l.now.Store(s) }

func (l *lateWorkspaces) WorkDiff(ctx context.Context, session string, moving bool) (protocol.WorkDiff, error) {
	if s := l.now.Load(); s != nil {
		return s.WorkDiff(ctx, session, moving)
	}
	return protocol.WorkDiff{}, errNotReady
}

func (l *lateWorkspaces) FetchFiles(ctx context.Context, session string, paths []string, moving bool, to io.Writer) error {
	if s := l.now.Load(); s != nil {
		return s.FetchFiles(ctx, session, paths, moving, to)
	}
	return errNotReady
}
