package inquiry

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"

	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/snapshots"
)

// AskSession asks a session for its SessionNow. An error means that the answer cannot
// be known now.
func AskSession(ctx context.Context, c client.Client, session string) (now SessionNow, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("ask session %s what it goes on from: %w", session, err)
		}
	}()
	if c == nil {
		return now, errors.New("this worker has no way to its workflow")
	}
	ctx, cancel := context.WithTimeout(ctx, AskTimeout)
	defer cancel()
	id := protocol.SessionID(session)
	d, err := c.DescribeWorkflowExecution(ctx, id, "")
	var gone *serviceerror.NotFound
	if errors.As(err, &gone) {
		return now, nil
	}
	if err != nil {
		return now, err
	}
	info := d.GetWorkflowExecutionInfo()
	now.Run = info.GetFirstRunId()
	if Over(info.GetStatus()) {
		return now, nil
	}
	now.Runs = true
	v, err := c.QueryWorkflow(ctx, id, "", "state")
	if err != nil {
		return now, err
	}
	var view struct {
		Snapshot struct {
			ID string `json:"id"`
		} `json:"snapshot"`
	}
	err = v.Get(&view)
	now.Snapshot = view.Snapshot.ID
	return now, err
}

// SessionNow is what a session tells those who drop snapshots.
type SessionNow struct {
	Runs     bool   // its workflow runs
	Run      string // its first run, which distinguishes it from other sessions of that name
	Snapshot string // the snapshot that it goes on from; empty if it has none of its own
}

// AskTimeout is how long a session may take to answer: its workers may be away.
const AskTimeout = 15 * time.Second

// StillHolds reports whether the holder of a pin still goes on from that snapshot. An
// unknown holder counts as going on from it. So does a holder that may be of another
// run than the present one, because not every server reports which run was a workflow's
// first.
func StillHolds(ctx context.Context, ask func(context.Context, string) (SessionNow, error), p snapshots.Pin) (bool, error) {
	session, run := pinnedBy(p)
	if session == "" {
		return true, nil // there is nobody to ask
	}
	now, err := ask(ctx, session)
	if err != nil {
		return false, err
	}
	return now.Runs && now.Snapshot == "" && (now.Run == run || now.Run == "" || run == ""), nil
}

// PinnedBy returns the session that holds a pin.
func PinnedBy(p snapshots.Pin) string {
	session, _ := pinnedBy(p)
	return session
}

func pinnedBy(p snapshots.Pin) (session, run string) {
	i := strings.LastIndexByte(p.Holder, '.') // a run's id has no dot
	if i < 0 {
		return "", ""
	}
	return p.Holder[:i], p.Holder[i+1:]
}
