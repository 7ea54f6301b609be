package session

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"fairlead.dev/fairlead/cmd/ctl/internal/conn"
	"fairlead.dev/fairlead/cmd/ctl/internal/core"
	"fairlead.dev/fairlead/cmd/ctl/internal/live"
	"fairlead.dev/fairlead/cmd/ctl/internal/start"
	"fairlead.dev/fairlead/internal/api"
	"fairlead.dev/fairlead/internal/protocol"
)

// A steering is the state of a message to a running turn. State and Turn are as in the
// session's messages.
type steering struct {
	protocol.MessageAccepted
	State string `json:"state"`
	Turn  int    `json:"turn"`

	into int // the turn that ran when the message was taken
}

func steerCommand(a *core.App) *cobra.Command {
	var turn int
	var with start.InputFlags
	c := &cobra.Command{
		Use: "steer ID TEXT|-", Short: "say something into the running turn", Args: cobra.ExactArgs(2), Example: "  ctl session steer release-42 'use the other branch'",
		Long: `Says something into the running turn. Waits up to --timeout (10 s) for codex to have it and
prints what became of it: a message that came too late for the turn is queued as the next one.
With --turn it is for that turn alone: refused (exit 6) if another one runs, and given up if that
one ends first. A compaction or a review cannot be steered.
With no worker up the message is kept by Temporal until one is.`,
		RunE: func(c *cobra.Command, args []string) error {
			text, err := start.Prompt(a, args[1])
			if err != nil {
				return err
			}
			if err := core.CheckName("session id", args[0]); err != nil {
				return err
			}
			x, err := with.Look()
			if err != nil {
				return err
			}
			t, err := conn.Open(c.Context(), a)
			if err != nil {
				return err
			}
			folder := start.OfSession(args[0])
			m, err := start.Message(c.Context(), a, t, folder, text, "")
			if err != nil {
				return err
			}
			if turn < 0 || c.Flags().Changed("turn") && turn == 0 {
				return core.Usage("--turn %d: turns count from 1", turn)
			}
			if err := start.Attach(c.Context(), a, t, folder, x, &m); err != nil {
				return err
			}
			m.Mode, m.Turn = "steer", turn
			return steer(c.Context(), a, t, args[0], m)
		},
	}
	c.Flags().IntVar(&turn, "turn", 0, "the `number` of the turn that it is for")
	with.Add(c, true)
	return c
}

func steer(ctx context.Context, a *core.App, t *conn.Conn, session string, m protocol.Message) error {
	doing, began := "steer session "+session, time.Now()
	msg := conn.Delivery{Doing: doing, Session: session, Name: protocol.SignalMessage, UpdateID: m.ID, Msg: m, Again: true, Check: conn.TurnRuns(doing)}
	// The feed must start at an entry from before the message, or ctl could miss codex's
	// acknowledgement.
	seen, answered, err := msg.Look(ctx, t.Conn)
	fctx, stop := context.WithCancel(ctx)
	heard := live.StartFeed(fctx, a, t, session, seen.Seq+1)
	defer func() { stop(); <-heard.Done }()
	acc := protocol.MessageAccepted{Session: session, MessageID: m.ID}
	kept, err := msg.Send(ctx, t.Conn, seen, answered, err, &acc)
	if err != nil {
		return err
	}
	s := steering{MessageAccepted: acc, State: string(protocol.Decided), Turn: acc.N, into: acc.N}
	if kept {
		var v protocol.SessionView
		if _, err := t.AskEither(ctx, doing, protocol.SessionID(session), protocol.QueryState, &v); err == nil {
			s.is(v)
		}
		return a.Print().Show(s, func(p *core.Printer) { p.Printf("%s message %s kept\n", s.Session, s.MessageID) })
	}
	s = awaitSteered(ctx, t, s, heard, a.Wait(conn.AnswerWait)-time.Since(began))
	switch s.State {
	case string(protocol.Rejected):
		return core.Refused("%s: codex refused the message", doing).
			Hinted("`ctl transcript %s` has its reason; `ctl session send` makes it the next turn", session)
	case string(protocol.Void):
		if m.Turn > 0 {
			return core.Refused("%s: turn %d ended before the message could steer it", doing, m.Turn).
				Hinted("`ctl session send` makes it a turn of its own")
		}
		return core.Refused("%s: the session ended before the message had its turn", doing)
	}
	return a.Print().Show(s, func(p *core.Printer) { p.Printf("%s turn %d%s\n", s.Session, s.into, s.text()) })
}

// text says what became of the message, after the turn's name.
func (s steering) text() string {
	late := " ended before the message could steer it: it "
	switch {
	case s.Turn != s.into && s.State == "queued":
		return fmt.Sprintf("%sis queued as turn %d", late, s.Turn)
	case s.Turn != s.into:
		return fmt.Sprintf("%sbecame turn %d", late, s.Turn)
	case s.State == string(protocol.Acknowledged):
		return " steered"
	case s.State == string(protocol.Sent):
		return ": the message was sent, and codex has not acknowledged it"
	}
	return ": the message is on its way"
}

// is copies the session's record of the message. settled says that it will not change soon.
func (s *steering) is(v protocol.SessionView) (settled bool) {
	i := slices.IndexFunc(v.Messages, func(m protocol.MessageView) bool { return m.ID == s.MessageID })
	if i < 0 {
		return false
	}
	m := v.Messages[i]
	s.State, s.Turn, s.N = m.State, m.Turn, m.Turn
	// After the turn's end, nothing more becomes known.
	over := m.Turn != s.into || v.Turn != nil && (v.Turn.N != m.Turn || v.Turn.Status != "inProgress")
	return over || !s.onItsWay()
}

// awaitSteered waits until ctl knows what became of a message. The live feed reports
// codex's acknowledgement first, but only the session knows whether the message steered the
// turn or began a new one.
func awaitSteered(ctx context.Context, t *conn.Conn, s steering, heard *live.Feed, wait time.Duration) steering {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	look := time.NewTicker(250 * time.Millisecond)
	defer look.Stop()
	acknowledged := false
	for {
		select {
		case <-ctx.Done():
			return s
		case ev := <-heard.Events:
			if ev.Kind != api.KindState || acknowledged || !slices.Contains(ev.State.Acknowledged, s.MessageID) {
				continue
			}
			acknowledged = true
		case <-look.C:
		}
		var v protocol.SessionView
		if t.Query(ctx, "look at session "+s.Session, protocol.SessionID(s.Session), protocol.QueryState, &v) != nil {
			continue
		}
		settled := s.is(v)
		if acknowledged && s.onItsWay() {
			s.State, settled = string(protocol.Acknowledged), true
		}
		if settled {
			return s
		}
	}
}

// onItsWay reports whether codex may not have the message yet.
func (s steering) onItsWay() bool {
	return s.State == string(protocol.Decided) || s.State == string(protocol.Sent)
}
