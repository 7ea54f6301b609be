package session

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"fairlead.dev/fairlead/cmd/ctl/internal/conn"
	"fairlead.dev/fairlead/cmd/ctl/internal/core"
	"fairlead.dev/fairlead/cmd/ctl/internal/show"
	"fairlead.dev/fairlead/internal/access"
	"fairlead.dev/fairlead/internal/protocol"
)

// A group is the open sessions that were started with some labels.
type group struct {
	labels          []string
	discard, noWait bool
	yes             bool
	limit           int
}

// maxGroup bounds --limit: ctl asks each open session for its labels.
const maxGroup = 10000

func (g *group) add(c *cobra.Command) {
	c.Flags().StringArrayVar(&g.labels, "label", nil, "close all open sessions that were started with this label, `KEY=VALUE`; repeatable, all must hold")
	c.Flags().BoolVar(&g.yes, "yes", false, "with --label: close them without asking")
	c.Flags().IntVar(&g.limit, "limit", 200, "with --label: close at most so many at a time, the newest first")
}

// check returns the labels, or nil if a single session is meant.
func (g *group) check(c *cobra.Command, args []string) (map[string]string, error) {
	switch {
	case len(g.labels) == 0 && len(args) == 1 && !c.Flags().Changed("yes") && !c.Flags().Changed("limit"):
		return nil, nil
	case len(g.labels) == 0 && len(args) == 1:
		return nil, core.Usage("--yes and --limit go with --label")
	case len(g.labels) == 0:
		return nil, core.Usage("say what to close: the id of a session, or --label")
	case len(args) > 0:
		return nil, core.Usage("session %s and --label are given: give one of them", core.Clean(args[0]))
	case g.limit < 1 || g.limit > maxGroup:
		return nil, core.Usage("--limit %d: want 1 to %d", g.limit, maxGroup)
	}
	want := map[string]string{}
	for _, l := range g.labels {
		k, v, ok := strings.Cut(l, "=")
		if !ok || k == "" || v == "" {
			return nil, core.Usage("--label %q is not KEY=VALUE", l)
		}
		if had, twice := want[k]; twice && had != v {
			return nil, core.Usage("--label %s=%s and --label %s: no session has both", k, had, l)
		}
		want[k] = v
	}
	return want, nil
}

// find returns the newest sessions with the labels that have not ended, and whether there
// are more of them than limit.
func (g *group) find(ctx context.Context, t *conn.Conn, want map[string]string) (list []protocol.SessionView, more bool, err error) {
	const doing = "close sessions by label"
	// The workflows of sessions that have ended are not asked.
	infos, err := t.List(ctx, doing, fmt.Sprintf("WorkflowType = '%s' AND ExecutionStatus = 'Running'", protocol.TypeSession), maxGroup+1)
	if err != nil {
		return nil, false, err
	}
	more = len(infos) > maxGroup
	infos = infos[:min(len(infos), maxGroup)]
	const page = 64
	for ; len(infos) > 0 && len(list) <= g.limit; infos = infos[min(page, len(infos)):] {
		some := infos[:min(page, len(infos))]
		has := make([]bool, len(some))
		var asks errgroup.Group
		asks.SetLimit(8)
		for i, info := range some {
			asks.Go(func() error {
				var o access.Object
				_, err := t.AskEither(ctx, doing, info.GetExecution().GetWorkflowId(), protocol.QueryObject, &o)
				if code := core.ExitCode(err); err != nil && (code == core.ExitNotFound || code == core.ExitRefused) {
					return nil // it ended meanwhile
				}
				has[i] = err == nil && holds(o.Labels, want)
				return err
			})
		}
		if err := asks.Wait(); err != nil {
			return nil, false, err
		}
		for i, info := range some {
			if has[i] {
				list = append(list, conn.KeptView(info, t.Codec))
			}
		}
	}
	if len(list) > g.limit {
		list, more = list[:g.limit], true
	}
	slices.SortStableFunc(list, func(a, b protocol.SessionView) int { return b.CreatedAt.Compare(a.CreatedAt) })
	return list, more, nil
}

func holds(labels, want map[string]string) bool {
	for k, v := range want {
		if have, ok := labels[k]; !ok || have != v {
			return false
		}
	}
	return true
}

// A closing is what became of one session of a group. Result is one of the words below.
type closing struct {
	ID     string                 `json:"id"`
	Result string                 `json:"result"`
	State  protocol.SessionStatus `json:"state"`
	Error  *protocol.Failure      `json:"error,omitempty"`
}

// The results of closing a session of a group.
const (
	closedNow   = "closed"
	closingYet  = "closing"     // it was told to close, and was not waited for
	endedBefore = "had_ended"   // before it could be told
	notClosed   = "not_closed"  // Error says why
	notInTime   = "not_in_time" // it goes on closing
)

func (r closing) left() bool { return r.Result == notClosed || r.Result == notInTime }

func closeGroup(ctx context.Context, a *core.App, g group, want map[string]string) error {
	t, err := conn.Open(ctx, a)
	if err != nil {
		return err
	}
	list, more, err := g.find(ctx, t, want)
	if err != nil {
		return err
	}
	if len(list) == 0 {
		a.Note("no open session was started with %s", core.Clean(strings.Join(g.labels, " and ")))
		return nil
	}
	if err := g.agreed(ctx, a, list, more); err != nil {
		return err
	}
	results := g.tellAll(ctx, a, t, list)
	if !g.noWait {
		awaitAll(ctx, a, t, results)
	}
	return g.outcome(a, results, more)
}

// agreed shows what is to be closed, and asks whether it is.
func (g *group) agreed(ctx context.Context, a *core.App, list []protocol.SessionView, more bool) error {
	p := core.NewPrinter(a.Err, false)
	var rows [][]core.Cell
	for _, v := range list {
		rows = append(rows, []core.Cell{core.Painted(core.Bold, v.ID), core.Painted(stateColour(v.State), string(v.State)), core.Plain(core.OneLine(v.Waits, show.WidestWait)), core.Plain(v.Host), core.Plain(v.CreatedAt), core.Plain(core.OneLine(v.Name, 40))})
	}
	p.Table([]string{"ID", "STATE", "WAITS FOR", "HOST", "CREATED", "NAME"}, rows)
	if more {
		p.Printf("and more, which this command does not close (--limit)\n")
	}
	doing := fmt.Sprintf("close %d sessions", len(list))
	switch {
	case g.yes:
		return nil
	case !a.MayAsk():
		return core.NeedsPerson("%s: nobody can be asked whether they are to be closed", doing).Hinted("nothing was closed; --yes closes them without asking")
	}
	question := fmt.Sprintf("Close these %d sessions?", len(list))
	if g.discard {
		question = fmt.Sprintf("Close these %d sessions, and give up what cannot be saved?", len(list))
	}
	ok, err := a.Confirm(ctx, question)
	if err == nil && !ok {
		err = core.Refused("%s: you said no; nothing was closed", doing)
	}
	return err
}

// tellAll tells each session to close, by a command of its own. They are told one after
// another, since a key may want a touch for each.
func (g *group) tellAll(ctx context.Context, a *core.App, t *conn.Conn, list []protocol.SessionView) []closing {
	results := make([]closing, len(list))
	for i, v := range list {
		r := closing{ID: v.ID, Result: closingYet, State: protocol.Closing}
		err := context.Cause(ctx)
		if err == nil {
			r.State, err = tellToClose(ctx, a, t, v.ID, g.discard)
		}
		switch {
		case err != nil:
			r.Result, r.State, r.Error = notClosed, v.State, failureOf(ctx, err)
		case conn.HasEnded(r.State):
			r.Result = endedBefore
		}
		results[i] = r
	}
	return results
}

// tellToClose tells a session to close. The state is that of a session that has ended
// already, or closing.
func tellToClose(ctx context.Context, a *core.App, t *conn.Conn, id string, discard bool) (protocol.SessionStatus, error) {
	doing := "close session " + id
	msg := conn.Delivery{Doing: doing, Session: id, Name: protocol.SignalClose, Msg: protocol.Close{By: core.Person(), Discard: discard}, Again: true,
		Check: func(protocol.SessionDetail) error { return nil }}
	var v protocol.SessionView
	_, err := msg.Deliver(ctx, t.Conn, &v)
	if err == nil {
		return protocol.Closing, nil
	}
	switch core.ExitCode(err) {
	case core.ExitRefused, core.ExitNotFound:
		var now protocol.SessionView
		if t.Query(ctx, doing, protocol.SessionID(id), protocol.QueryState, &now) != nil {
			if now, _ = t.Kept(ctx, id); now.ID == "" {
				return "", err
			}
		}
		if conn.HasEnded(now.State) || now.State == protocol.Closing {
			return now.State, nil
		}
	}
	return "", err
}

// awaitAll waits for the ends of the sessions that were told to close.
func awaitAll(ctx context.Context, a *core.App, t *conn.Conn, results []closing) {
	var g errgroup.Group
	g.SetLimit(16)
	for i := range results {
		r := &results[i]
		if r.Result != closingYet {
			continue
		}
		g.Go(func() error {
			v, err := awaitClosed(ctx, a, t, r.ID)
			switch {
			case err == nil:
				r.Result, r.State = closedNow, v.State
			case core.ExitCode(err) == core.ExitTimeout:
				r.Result, r.Error = notInTime, failureOf(ctx, err)
			default:
				r.Result, r.Error = notClosed, failureOf(ctx, err)
				if v.State == protocol.Failed { // it has ended, and left nothing open
					r.Result, r.State = closedNow, v.State
				}
			}
			return nil
		})
	}
	_ = g.Wait() // the functions return no errors
}

func failureOf(ctx context.Context, err error) *protocol.Failure {
	e := core.AsError(ctx, err, true, "")
	return &protocol.Failure{Kind: e.Kind, Message: e.Message, Hint: e.Hint}
}

// outcome prints the results, and fails if a session is left.
func (g *group) outcome(a *core.App, results []closing, more bool) error {
	var left []string
	for _, r := range results {
		if r.left() {
			left = append(left, r.ID)
		}
	}
	err := core.ShowAll(a.Print(), results, func(p *core.Printer) {
		for _, r := range results {
			p.Printf("session %s %s\n", r.ID, r.text(p))
		}
	})
	switch {
	case err != nil:
		return err
	case len(left) > 0:
		return core.Failed("%d of %d sessions are not closed: %s", len(left), len(results), core.OneLine(strings.Join(left, ", "), 500)).
			Hinted("give the command again; those that have ended are left alone")
	case more:
		return core.Failed("%d sessions are closed, and more were started with %s", len(results), core.Clean(strings.Join(g.labels, " and "))).
			Hinted("give the command again for the next ones; --limit says how many at a time")
	}
	return nil
}

func (r closing) text(p *core.Printer) string {
	switch r.Result {
	case closedNow:
		if r.State == protocol.Failed {
			return "has failed, and is ended"
		}
		return "closed"
	case endedBefore:
		return "had ended already"
	case closingYet:
		return "is closing"
	}
	text := p.Paint(core.Red, "is not closed")
	if r.Error != nil {
		text += ": " + core.Clean(r.Error.Message)
		if r.Error.Hint != "" {
			text += " (" + core.Clean(r.Error.Hint) + ")"
		}
	}
	return text
}
