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
	"fairlead.dev/fairlead/cmd/internal/flows"
	"fairlead.dev/fairlead/internal/protocol"
)

func sessionControls(a *core.App) []*cobra.Command {
	return []*cobra.Command{
		unsendCommand(a), compactCommand(a), reviewCommand(a), modelsCommand(a),
		renameCommand(a), archiveCommand(a), unarchiveCommand(a),
	}
}

func choose(ctx context.Context, a *core.App, id string, m protocol.Set, done string) error {
	return tell(ctx, a, id, "set session "+id, protocol.SignalSet, m, conn.TakesMore, done)
}

func unsendCommand(a *core.App) *cobra.Command {
	return &cobra.Command{
		Use: "unsend ID MESSAGE", Short: "take back a message whose turn has not begun", Args: cobra.ExactArgs(2),
		Long: `Takes a queued message back. Its turn keeps its number and is shown as interrupted; who waits
for it is told. One whose turn has begun is refused (exit 6): 'ctl session interrupt' ends that.
'ctl session show' lists the queue.`,
		Example: "  ctl session unsend release-42 m-1f3c9a",
		RunE: func(c *cobra.Command, args []string) error {
			return tell(c.Context(), a, args[0], fmt.Sprintf("take back message %s of session %s", args[1], args[0]), protocol.SignalUnsend,
				protocol.Unsend{Message: args[1], By: core.Person()}, conn.TakesMore, "message "+args[1]+" taken back")
		},
	}
}

func compactCommand(a *core.App) *cobra.Command {
	var noWait bool
	c := &cobra.Command{
		Use: "compact ID", Short: "have codex make its history shorter", Args: cobra.ExactArgs(1),
		Long: `Has codex replace the thread's history by a summary of it, as a turn of its own: queued behind
a running one, interrupted like any other, and never begun twice. Waits for its end.`,
		Example: "  ctl session compact release-42",
		RunE: func(c *cobra.Command, args []string) error {
			return act(c.Context(), a, args[0], protocol.Message{Do: protocol.ActCompact}, noWait)
		},
	}
	c.Flags().BoolVar(&noWait, "no-wait", false, "do not wait for its end")
	return c
}

func reviewCommand(a *core.App) *cobra.Command {
	var noWait, uncommitted bool
	var r protocol.Review
	c := &cobra.Command{
		Use: "review ID", Short: "have codex review changes", Args: cobra.ExactArgs(1),
		Long: `Has codex review what changed in the work folder, as a turn of its own: queued behind a running
one, interrupted like any other, and never begun twice. Waits for its end and prints the review,
which is the turn's final text. Without a flag: what is not committed.`,
		Example: "  ctl session review release-42\n  ctl session review release-42 --base main\n  ctl session review release-42 --instructions 'only the SQL'",
		RunE: func(c *cobra.Command, args []string) error {
			n := 0
			for _, name := range []string{"uncommitted", "base", "commit", "instructions"} {
				if c.Flags().Changed(name) {
					n++
				}
			}
			if n > 1 {
				return core.Usage("more than one thing to review is given").Hinted("give one of --uncommitted, --base, --commit, --instructions")
			}
			if n == 1 && !uncommitted && r == (protocol.Review{}) {
				return core.Usage("the value of --base, --commit or --instructions is empty").Hinted("--base main, --commit 1f3c9a, --instructions TEXT")
			}
			return act(c.Context(), a, args[0], protocol.Message{Do: protocol.ActReview, Review: &r}, noWait)
		},
	}
	c.Flags().BoolVar(&uncommitted, "uncommitted", false, "what is not committed (the default)")
	c.Flags().StringVar(&r.Base, "base", "", "what differs from this `branch`")
	c.Flags().StringVar(&r.Commit, "commit", "", "the commit of this `sha`")
	c.Flags().StringVar(&r.Instructions, "instructions", "", "what this `text` says")
	c.Flags().BoolVar(&noWait, "no-wait", false, "do not wait for its end")
	return c
}

// act sends a message without text, such as a compaction, and waits for its turn.
func act(ctx context.Context, a *core.App, id string, m protocol.Message, noWait bool) error {
	if err := core.CheckName("session id", id); err != nil {
		return err
	}
	t, err := conn.Open(ctx, a)
	if err != nil {
		return err
	}
	m.ID, m.By = "m-"+core.RandomID(), core.Person()
	doing := fmt.Sprintf("%s session %s", m.Do, id)
	msg := conn.Delivery{Doing: doing, Session: id, Name: protocol.SignalMessage, UpdateID: m.ID, Msg: m, Again: true, Check: conn.TakesMore(doing)}
	acc := protocol.MessageAccepted{Session: id, MessageID: m.ID}
	seen, live, err := msg.Look(ctx, t.Conn)
	kept, err := msg.Send(ctx, t.Conn, seen, live, err, &acc)
	switch {
	case err != nil:
		return err
	case noWait && kept:
		return a.Print().Show(acc, func(p *core.Printer) { p.Printf("%s message %s kept\n", acc.Session, acc.MessageID) })
	case noWait:
		return a.Print().Show(acc, func(p *core.Printer) { p.Printf("%s turn %d queued\n", acc.Session, acc.N) })
	}
	return watchTurn(ctx, a, t, acc, seen.Seq+1)
}

func modelsCommand(a *core.App) *cobra.Command {
	return &cobra.Command{
		Use: "models ID", Short: "which models codex lists there", Args: cobra.ExactArgs(1),
		Long: `Lists the models that the session's codex offers, with their reasoning efforts. It is codex's own
list: a model provider of the config's own is not asked what it serves. Of a session that is not
up it is what its last codex listed.`,
		Example: "  ctl session models release-42\n  ctl session set release-42 --model gpt-6.1-sol --effort high",
		RunE: func(c *cobra.Command, args []string) error {
			v, err := models(c.Context(), a, args[0])
			if err != nil {
				return err
			}
			if len(v.Models) == 0 && v.At.IsZero() {
				return core.Failed("models of session %s: codex has not listed its models in this session yet", args[0]).Hinted("they are known with its first message")
			}
			return a.Print().Show(v, func(p *core.Printer) { showModels(p, v) })
		},
	}
}

// models asks the session, which asks codex if it does not know them yet.
func models(ctx context.Context, a *core.App, id string) (v protocol.ModelsView, err error) {
	doing := "models of session " + id
	if err := core.CheckName("session id", id); err != nil {
		return v, err
	}
	t, err := conn.Open(ctx, a)
	if err != nil {
		return v, err
	}
	answered, err := t.AskEither(ctx, doing, protocol.SessionID(id), protocol.QueryModels, &v)
	if err != nil || !v.At.IsZero() || !answered {
		return v, err
	}
	s, err := live.Session(ctx, a, t, id)
	if err != nil || s.Process == nil || !s.Process.Alive || s.State != protocol.Idle {
		return v, err
	}
	if err := t.Update(ctx, doing, protocol.SessionID(id), protocol.SignalModels, "", &v, protocol.AskModels{By: core.Person()}); err != nil {
		return v, err
	}
	ctx, cancel := context.WithTimeout(ctx, a.Wait(conn.AnswerWait))
	defer cancel()
	tick := time.NewTicker(250 * time.Millisecond)
	defer tick.Stop()
	for v.At.IsZero() && v.Error == "" {
		select {
		case <-ctx.Done():
			return v, core.TimedOut("%s: codex has not answered", doing)
		case <-tick.C:
		}
		if err := t.Query(ctx, doing, protocol.SessionID(id), protocol.QueryModels, &v); err != nil {
			return v, err
		}
	}
	if v.At.IsZero() {
		return v, core.Failed("%s: %s", doing, v.Error)
	}
	return v, nil
}

func showModels(p *core.Printer, v protocol.ModelsView) {
	rows := make([][]core.Cell, 0, len(v.Models))
	for _, m := range v.Models {
		var marks []string
		if m.ID == v.Model {
			marks = append(marks, "the session's")
		}
		if m.Default {
			marks = append(marks, "codex's default")
		}
		rows = append(rows, []core.Cell{core.Painted(core.Bold, m.ID), core.Plain(m.Name), core.Plain(strings.Join(m.Efforts, " ")), core.Plain(m.DefaultEffort), core.Plain(strings.Join(marks, ", "))})
	}
	p.Table([]string{"MODEL", "NAME", "EFFORTS", "DEFAULT", ""}, rows)
	if v.Provider != "" && v.Provider != "openai" {
		p.Printf("codex %s lists these; provider %s was not asked what it serves (--any-model takes others)\n", v.Codex, core.Clean(v.Provider))
	}
}

func renameCommand(a *core.App) *cobra.Command {
	return &cobra.Command{
		Use: "rename ID NAME", Short: "give a session a name for people", Args: cobra.ExactArgs(2),
		Long: `Gives a session a name that lists show beside its id, which stays what it is; an empty one
takes it away. codex calls the thread so, too, as soon as it is up.`,
		Example: "  ctl session rename release-42 'the October release'",
		RunE: func(c *cobra.Command, args []string) error {
			done := "is called " + args[1]
			if args[1] == "" {
				done = "has no name any more"
			}
			return choose(c.Context(), a, args[0], protocol.Set{By: core.Person(), Name: &args[1]}, core.Clean(done))
		},
	}
}

func archiveCommand(a *core.App) *cobra.Command {
	var noWait bool
	c := &cobra.Command{
		Use: "archive ID", Short: "put a session away: it parks, and lists leave it out", Args: cobra.ExactArgs(1),
		Long: `Parks a session, if it is not parked: snapshot, no process, no credential, no host. Lists leave it out
unless they are asked for what is archived, and it takes no messages until it is taken out again.
Nothing of it is deleted. One that runs a turn or has messages queued is refused (exit 6).`,
		Example: "  ctl session archive release-42\n  ctl session list --archived",
		RunE: func(c *cobra.Command, args []string) error {
			return archive(c.Context(), a, args[0], noWait)
		},
	}
	c.Flags().BoolVar(&noWait, "no-wait", false, "do not wait until it is parked")
	return c
}

func archive(ctx context.Context, a *core.App, id string, noWait bool) error {
	t, err := toSession(ctx, a, id)
	if err != nil {
		return err
	}
	return moves(ctx, a, t, id, move{
		doing: "archive session " + id, signal: protocol.SignalArchive, msg: protocol.Archive{By: core.Person()}, check: flows.Quiet, becoming: "being archived", noWait: noWait,
		there: func(v protocol.SessionView) (bool, error) { return v.State == protocol.Parked && v.Archived, nil },
		done: func(p *core.Printer, _ protocol.SessionView) {
			p.Printf("session %s is archived; `ctl session unarchive %s` takes it out again\n", id, id)
		},
	})
}

func unarchiveCommand(a *core.App) *cobra.Command {
	return &cobra.Command{
		Use: "unarchive ID", Short: "take a session out again", Args: cobra.ExactArgs(1),
		Long:    `Takes an archived session out again. It stays parked until its next message.`,
		Example: "  ctl session unarchive release-42",
		RunE: func(c *cobra.Command, args []string) error {
			return tell(c.Context(), a, args[0], "unarchive session "+args[0], protocol.SignalUnarchive, protocol.Archive{By: core.Person()}, conn.TakesMore,
				"not archived any more; the next message brings it back")
		},
	}
}

const notArchived = flows.NotArchived

// showQueue lists messages whose turns have not begun.
func showQueue(p *core.Printer, all []protocol.QueuedView) {
	var rows [][]core.Cell
	for _, q := range all {
		rows = append(rows, []core.Cell{core.Plain(q.N), core.Plain(q.ID), core.Plain(q.By), core.Plain(core.OneLine(strings.TrimSpace(q.Act+" "+q.Text), 70))})
	}
	if len(rows) > 0 {
		p.Printf("\n")
		p.Table([]string{"TURN", "QUEUED MESSAGE", "BY", "SAYS"}, rows)
	}
}

func quietIf(more bool, done string) string {
	if more {
		return ""
	}
	return done
}
