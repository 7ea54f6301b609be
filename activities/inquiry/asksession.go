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

// AskSession asks a session. An error means that the answer is not known now.
func AskSession(ctx context.Context, c client.Client, session string) (now SessionNow, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("ask session %s which snapshot it continues from: %w", session, err)
		}
	}()
	if c == nil {
		return now, errors.New("this worker has no connection to Temporal")
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

// SessionNow is a session's answer before snapshots are dropped.
type SessionNow struct {
	Runs     bool
	Run      string // its first run, which tells sessions of one name apart
	Snapshot string // its own, from which it goes on; or empty
}

// AskTimeout is generous: workers may be away.
const AskTimeout = 15 * time.Second

// StillHolds reports whether a pin's holder goes on from that snapshot. Unknown holders
// count, and those of an unknown run, because not every server reports first runs.
func StillHolds(ctx context.Context, ask func(context.Context, string) (SessionNow, error), p snapshots.Pin) (bool, error) {
	session, run := pinnedBy(p)
	if session == "" {
		return true, nil // nobody to ask
	}
	now, err := ask(ctx, session)
	if err != nil {
		return false, err
	}
	return now.Runs && now.Snapshot == "" && (now.Run == run || now.Run == "" || run == ""), nil
}

// PinnedBy returns a pin's session.
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
