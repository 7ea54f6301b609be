package session

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"fairlead.dev/fairlead/cmd/ctl/internal/conn"
	"fairlead.dev/fairlead/cmd/ctl/internal/core"
	"fairlead.dev/fairlead/cmd/ctl/internal/live"
	"fairlead.dev/fairlead/cmd/ctl/internal/show"
	"fairlead.dev/fairlead/cmd/internal/flows"
	"fairlead.dev/fairlead/internal/protocol"
)

// moveWait bounds the wait for a session to park or to come back.
const moveWait = 10 * time.Minute

func parkCommand(a *core.App) *cobra.Command {
	var noWait bool
	c := &cobra.Command{
		Use: "park ID", Short: "let an idle session sleep: it gives back host and credentials", Args: cobra.ExactArgs(1),
		Long: `Takes a snapshot, stops codex, wipes the credentials and gives back host and seed. The
session's folder stays on the host, so that it comes back there within seconds. The next
message brings it back, on that host or, where that is not to be had, on another one.
One with a running turn is refused (exit 6).`,
		Example: "  ctl session park release-42",
		RunE: func(c *cobra.Command, args []string) error {
			return park(c.Context(), a, args[0], noWait)
		},
	}
	c.Flags().BoolVar(&noWait, "no-wait", false, "do not wait until it is parked")
	return c
}

func resumeCommand(a *core.App) *cobra.Command {
	var host string
	var noWait bool
	c := &cobra.Command{
		Use: "resume ID", Short: "bring a session back, here or on another host", Args: cobra.ExactArgs(1),
		Long: `Brings a parked session back, on the host where it was if that has a free slot. With --host
it goes on there: an idle one moves, and one whose host is lost goes on from its newest
snapshot, as a new attempt. One with a running turn is refused (exit 6).`,
		Example: "  ctl session resume release-42\n  ctl session resume release-42 --host web-2",
		RunE: func(c *cobra.Command, args []string) error {
			if host != "" {
				if err := core.CheckName("host name", host); err != nil {
					return err
				}
			}
			return resume(c.Context(), a, args[0], host, noWait)
		},
	}
	c.Flags().StringVar(&host, "host", "", "`NAME` of the host where it goes on")
	c.Flags().BoolVar(&noWait, "no-wait", false, "do not wait until it is back")
	return c
}

// A move is a request that takes the session some time.
type move struct {
	doing, signal string
	msg           any
	check         func(string) func(protocol.SessionDetail) error
	becoming      string // what the session does meanwhile; shown with noWait
	noWait        bool
	// there reports whether the move is done, or why it failed.
	there func(protocol.SessionView) (bool, error)
	done  func(*core.Printer, protocol.SessionView)
}

func moves(ctx context.Context, a *core.App, t *conn.Conn, id string, m move) error {
	was, kept, err := say(ctx, t, id, m.doing, m.signal, m.msg, m.check)
	if err != nil {
		return err
	}
	if kept || m.noWait {
		return showMoved(ctx, a, t, id, moved(kept, m.becoming))
	}
	v, err := conn.AwaitSession(ctx, a, t, id, m.doing, moveWait, func(v protocol.SessionView) (bool, error) {
		if there, err := m.there(v); there || err != nil {
			return there, err
		}
		return false, stays(m.doing, v, was)
	})
	if err != nil {
		return err
	}
	return a.Print().Show(v, func(p *core.Printer) { m.done(p, v) })
}

func park(ctx context.Context, a *core.App, id string, noWait bool) error {
	t, err := toSession(ctx, a, id)
	if err != nil {
		return err
	}
	doing := "park session " + id
	return moves(ctx, a, t, id, move{
		doing: doing, signal: protocol.SignalPark, msg: protocol.Park{By: core.Person()}, check: flows.Quiet, becoming: "parking", noWait: noWait,
		there: func(v protocol.SessionView) (bool, error) {
			if v.State == protocol.Running || v.State == protocol.Waiting && v.Limit == nil {
				return false, core.Refused("%s: the session got another message meanwhile and goes on", doing)
			}
			return v.State == protocol.Parked, nil
		},
		done: func(p *core.Printer, v protocol.SessionView) {
			p.Printf("session %s is parked%s; the next message brings it back\n", id, warmText(v.Warm))
		},
	})
}

func resume(ctx context.Context, a *core.App, id, host string, noWait bool) error {
	doing := "resume session " + id
	t, err := toSession(ctx, a, id)
	if err != nil {
		return err
	}
	if err := hasHost(ctx, t, doing, id, host); err != nil {
		return err
	}
	return moves(ctx, a, t, id, move{
		doing: doing, signal: protocol.SignalResume, msg: protocol.Resume{Host: host, By: core.Person()}, check: conn.TakesMore, becoming: "coming back", noWait: noWait,
		there: func(v protocol.SessionView) (bool, error) {
			there := v.Lost == nil && (host == "" || v.Host == host)
			switch v.State {
			case protocol.Idle, protocol.Interrupted:
				return there, nil
			case protocol.Running, protocol.Waiting:
				if !there && v.Lost == nil {
					return false, core.Refused("%s: host %s is back and runs a turn of the session, so the session does not move", doing, v.Host)
				}
				return there, nil
			}
			return false, nil
		},
		done: func(p *core.Printer, v protocol.SessionView) {
			p.Printf("session %s is back on %s, attempt %d\n", id, v.Host, v.Attempt)
		},
	})
}

func toSession(ctx context.Context, a *core.App, id string) (*conn.Conn, error) {
	if err := core.CheckName("session id", id); err != nil {
		return nil, err
	}
	return conn.Open(ctx, a)
}

// hasHost refuses a host that the session's zone does not have, for which the session would
// wait. If no worker answers, the session checks.
func hasHost(ctx context.Context, t *conn.Conn, doing, session, host string) error {
	if host == "" {
		return nil
	}
	d, err := t.DescribeWorkflowExecution(ctx, protocol.SessionID(session), "")
	if err != nil {
		return t.Explain(ctx, doing, err)
	}
	zone := protocol.ZoneOf(d.GetExecutionConfig().GetTaskQueue().GetName())
	if _, err := t.Host(ctx, doing+" on host "+host, zone, host); err != nil && core.ExitCode(err) != core.ExitUnreachable {
		return err
	}
	return nil
}

// stays ends the wait with an error if the session has ended or reports a new error. was is
// the session when it took the request.
func stays(doing string, v, was protocol.SessionView) error {
	switch v.State {
	case protocol.Idle, protocol.Interrupted, protocol.Parked:
		if v.Error != nil && (was.Error == nil || *was.Error != *v.Error) {
			return conn.FailureExit(doing, v.Error)
		}
	}
	return conn.GoneOn(doing, v)
}

// say delivers a request. kept is true if no worker was up.
func say(ctx context.Context, t *conn.Conn, id, doing, name string, arg any, check func(string) func(protocol.SessionDetail) error) (v protocol.SessionView, kept bool, err error) {
	msg := conn.Delivery{Doing: doing, Session: id, Name: name, Msg: arg, Check: check(doing)}
	kept, err = msg.Deliver(ctx, t.Conn, &v)
	return v, kept, err
}

func moved(kept bool, done string) string {
	if kept {
		return "kept until a worker is up"
	}
	return done
}

func showMoved(ctx context.Context, a *core.App, t *conn.Conn, id, done string) error {
	v, err := live.Session(ctx, a, t, id)
	if err != nil {
		return err
	}
	return a.Print().Show(conn.AsKnown(v), func(p *core.Printer) { p.Printf("session %s: %s\n", id, done) })
}

// warmText names the host on which a parked session can resume at once.
func warmText(w *protocol.WarmView) string {
	if w == nil || w.Host == "" {
		return ""
	}
	return ", warm on " + w.Host
}

// snapshotText describes a session's newest snapshot in one line.
func snapshotText(s *protocol.SnapshotView) (text, trouble string) {
	if s == nil {
		return "", ""
	}
	if s.ID != "" {
		text = fmt.Sprintf("%s, of turn %d, %s", s.ID, s.Turn, core.Age(s.At))
	}
	if s.Taking > 0 {
		if text == "" {
			text = "none yet; the first one is being taken"
		} else {
			text += "; another one is being taken"
		}
	}
	if s.Lacks != "" {
		trouble = "it lacks " + s.Lacks
	}
	if s.Error != nil {
		trouble = s.Error.Kind + ": " + s.Error.Message
		if s.Error.Hint != "" {
			trouble += " (" + s.Error.Hint + ")"
		}
	}
	return text, trouble
}

// policyText says what snapshots keep, and when they are taken.
func policyText(opt map[string]string) string {
	var out string
	switch when := opt["snapshot_when"]; when {
	case "":
		return "" // an older worker does not report the policy
	case protocol.SnapshotOff:
		return "none: it cannot park or move, and a lost host takes its work along"
	case protocol.SnapshotClose:
		out = "when it parks or closes"
	default:
		out = "after each turn"
	}
	switch opt["snapshot"] {
	case protocol.WorkNone:
		out = "the conversation alone, " + out
	case protocol.WorkGit:
		out = "git: what upstream does not have, " + out
	default:
		out = "all of the work folder, " + out
	}
	if every := opt["snapshot_every"]; every != "" {
		out += ", and every " + show.RoundTime(every) + " within one"
	}
	if without := opt["snapshot_exclude"]; without != "" {
		out += "; without " + strings.ReplaceAll(without, "\n", "  ")
	}
	if after := opt["park_after"]; after != "" {
		out += "; parks after " + show.RoundTime(after)
	}
	return out
}

func hostLostText(opt map[string]string) string {
	word := opt["on_host_lost"]
	if after := opt["lost_after"]; word != "" && after != "" {
		word += ", after " + show.RoundTime(after)
	}
	return word
}

func lostText(l *protocol.LostView) string {
	if l == nil {
		return ""
	}
	text := fmt.Sprintf("%s cannot be reached since %s", l.Host, l.Since.UTC().Format(time.RFC3339))
	if l.Why != "" {
		text += ": " + l.Why
	}
	if l.Stays != "" {
		text += "; it waits for it: " + l.Stays
	}
	return text
}

// whereabouts says what is unusual about a session's place.
func whereabouts(v protocol.SessionView) string {
	var out []string
	if v.Archived {
		out = append(out, "archived")
	}
	if v.Attempt > 1 {
		out = append(out, fmt.Sprintf("attempt %d", v.Attempt))
	}
	if v.Lost != nil {
		out = append(out, v.Lost.Host+" is lost")
	}
	if v.Warm != nil && v.Warm.Host != "" {
		out = append(out, "warm on "+v.Warm.Host)
	}
	if s := v.Snapshot; s != nil && s.Error != nil {
		out = append(out, "newest snapshot failed")
	}
	return strings.Join(out, ", ")
}

func attemptText(n int) string {
	if n < 2 {
		return ""
	}
	return fmt.Sprint(n)
}
