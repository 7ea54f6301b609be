package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"fairlead.dev/fairlead/activities"
	"fairlead.dev/fairlead/workflows"
)

// sessionControls returns the commands that control a session, other than messages to
// codex.
func sessionControls(a *app) []*cobra.Command {
	return []*cobra.Command{
		sessionUnsendCommand(a), sessionCompactCommand(a), sessionReviewCommand(a), sessionModelsCommand(a),
		sessionRenameCommand(a), sessionArchiveCommand(a), sessionUnarchiveCommand(a),
	}
}

// chooseFlags are the flags of `session set` for codex's settings.
type chooseFlags struct {
	model, effort, name string
	anyModel            bool
}

func (f *chooseFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&f.model, "model", "", "`model` from the next turn on")
	c.Flags().StringVar(&f.effort, "effort", "", "reasoning `effort` from the next turn on")
	c.Flags().StringVar(&f.name, "name", "", "what people call the session; empty takes the `name` away")
	c.Flags().BoolVar(&f.anyModel, "any-model", false, "also a model that codex does not list, as of a provider of one's own")
}

// set returns the chosen settings, nil if there are none.
func (f *chooseFlags) set(c *cobra.Command) *workflows.Set {
	m := workflows.Set{By: person(), Model: f.model, Effort: f.effort, AnyModel: f.anyModel}
	if c.Flags().Changed("name") {
		m.Name = &f.name
	}
	if m.Model == "" && m.Effort == "" && m.Name == nil {
		return nil
	}
	return &m
}

func (a *app) choose(ctx context.Context, id string, m workflows.Set, done string) error {
	return a.tell(ctx, id, "set session "+id, workflows.SignalSet, m, takesMore, done)
}

func sessionUnsendCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "unsend ID MESSAGE", Short: "take back a message whose turn has not begun", Args: cobra.ExactArgs(2),
		Long: `Takes a queued message back. Its turn keeps its number and is shown as interrupted; who waits
for it is told. One whose turn has begun is refused (exit 6): 'ctl session interrupt' ends that.
'ctl session show' lists the queue.`,
		Example: "  ctl session unsend release-42 m-1f3c9a",
		RunE: func(c *cobra.Command, args []string) error {
			return a.tell(c.Context(), args[0], fmt.Sprintf("take back message %s of session %s", args[1], args[0]), workflows.SignalUnsend,
				workflows.Unsend{Message: args[1], By: person()}, takesMore, "message "+args[1]+" taken back")
		},
	}
}

func sessionCompactCommand(a *app) *cobra.Command {
	var noWait bool
	c := &cobra.Command{
		Use: "compact ID", Short: "have codex make its history shorter", Args: cobra.ExactArgs(1),
		Long: `Has codex replace the thread's history by a summary of it, as a turn of its own: queued behind
a running one, interrupted like any other, and never begun twice. Waits for its end.`,
		Example: "  ctl session compact release-42",
		RunE: func(c *cobra.Command, args []string) error {
			return a.act(c.Context(), args[0], workflows.Message{Do: activities.ActCompact}, noWait)
		},
	}
	c.Flags().BoolVar(&noWait, "no-wait", false, "do not wait for its end")
	return c
}

func sessionReviewCommand(a *app) *cobra.Command {
	var noWait, uncommitted bool
	var r activities.Review
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
				return usage("a review is of one thing").hinted("one of --uncommitted, --base, --commit, --instructions")
			}
			if n == 1 && !uncommitted && r == (activities.Review{}) {
				return usage("what is to be reviewed is empty").hinted("--base main, --commit 1f3c9a, --instructions TEXT")
			}
			return a.act(c.Context(), args[0], workflows.Message{Do: activities.ActReview, Review: &r}, noWait)
		},
	}
	c.Flags().BoolVar(&uncommitted, "uncommitted", false, "what is not committed (the default)")
	c.Flags().StringVar(&r.Base, "base", "", "what differs from this `branch`")
	c.Flags().StringVar(&r.Commit, "commit", "", "the commit of this `sha`")
	c.Flags().StringVar(&r.Instructions, "instructions", "", "what this `text` says")
	c.Flags().BoolVar(&noWait, "no-wait", false, "do not wait for its end")
	return c
}

// act sends a message without text, such as a request to compact, and waits for its turn.
func (a *app) act(ctx context.Context, id string, m workflows.Message, noWait bool) error {
	if err := checkName("session id", id); err != nil {
		return err
	}
	t, err := a.temporal(ctx)
	if err != nil {
		return err
	}
	m.ID, m.By = "m-"+randomID(), person()
	doing := fmt.Sprintf("%s session %s", m.Do, id)
	msg := delivery{doing: doing, session: id, name: workflows.SignalMessage, updateID: m.ID, msg: m, again: true, check: takesMore(doing)}
	acc := workflows.MessageAccepted{Session: id, MessageID: m.ID}
	seen, live, err := msg.look(ctx, t)
	kept, err := msg.send(ctx, t, seen, live, err, &acc)
	switch {
	case err != nil:
		return err
	case noWait && kept:
		return a.print().show(acc, func(p *printer) { p.printf("%s message %s kept\n", acc.Session, acc.MessageID) })
	case noWait:
		return a.print().show(acc, func(p *printer) { p.printf("%s turn %d queued\n", acc.Session, acc.N) })
	}
	return a.watchTurn(ctx, t, acc, seen.Seq+1)
}

func sessionModelsCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "models ID", Short: "which models codex lists there", Args: cobra.ExactArgs(1),
		Long: `Lists the models that the session's codex offers, with their reasoning efforts. It is codex's own
list: a model provider of the config's own is not asked what it serves. Of a session that is not
up it is what its last codex listed.`,
		Example: "  ctl session models release-42\n  ctl session set release-42 --model gpt-6.1-sol --effort high",
		RunE: func(c *cobra.Command, args []string) error {
			v, err := a.models(c.Context(), args[0])
			if err != nil {
				return err
			}
			if len(v.Models) == 0 && v.At.IsZero() {
				return failed("models of session %s: its codex was never up, so nobody asked it", args[0]).hinted("they are known with its first message")
			}
			return a.print().show(v, func(p *printer) { showModels(p, v) })
		},
	}
}

// models asks the session for codex's models. The session asks codex if it does not know
// them yet.
func (a *app) models(ctx context.Context, id string) (v workflows.ModelsView, err error) {
	doing := "models of session " + id
	if err := checkName("session id", id); err != nil {
		return v, err
	}
	t, err := a.temporal(ctx)
	if err != nil {
		return v, err
	}
	live, err := t.askEither(ctx, doing, workflows.SessionID(id), workflows.QueryModels, &v)
	if err != nil || !v.At.IsZero() || !live {
		return v, err
	}
	s, err := a.session(ctx, t, id)
	if err != nil || s.Process == nil || !s.Process.Alive || s.State != workflows.Idle {
		return v, err
	}
	if err := t.update(ctx, doing, workflows.SessionID(id), workflows.SignalModels, "", &v, workflows.AskModels{By: person()}); err != nil {
		return v, err
	}
	ctx, cancel := context.WithTimeout(ctx, a.wait(answerWait))
	defer cancel()
	tick := time.NewTicker(250 * time.Millisecond)
	defer tick.Stop()
	for v.At.IsZero() && v.Error == "" {
		select {
		case <-ctx.Done():
			return v, timedOut("%s: codex has not answered", doing)
		case <-tick.C:
		}
		if err := t.query(ctx, doing, workflows.SessionID(id), workflows.QueryModels, &v); err != nil {
			return v, err
		}
	}
	if v.At.IsZero() {
		return v, failed("%s: %s", doing, v.Error)
	}
	return v, nil
}

func showModels(p *printer, v workflows.ModelsView) {
	rows := make([][]cell, 0, len(v.Models))
	for _, m := range v.Models {
		var marks []string
		if m.ID == v.Model {
			marks = append(marks, "the session's")
		}
		if m.Default {
			marks = append(marks, "codex's default")
		}
		rows = append(rows, []cell{painted(bold, m.ID), plain(m.Name), plain(strings.Join(m.Efforts, " ")), plain(m.DefaultEffort), plain(strings.Join(marks, ", "))})
	}
	p.table([]string{"MODEL", "NAME", "EFFORTS", "DEFAULT", ""}, rows)
	if v.Provider != "" && v.Provider != "openai" {
		p.printf("codex %s lists these; provider %s was not asked what it serves (--any-model takes others)\n", v.Codex, clean(v.Provider))
	}
}

func sessionRenameCommand(a *app) *cobra.Command {
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
			return a.choose(c.Context(), args[0], workflows.Set{By: person(), Name: &args[1]}, clean(done))
		},
	}
}

func sessionArchiveCommand(a *app) *cobra.Command {
	var noWait bool
	c := &cobra.Command{
		Use: "archive ID", Short: "put a session away: it parks, and lists leave it out", Args: cobra.ExactArgs(1),
		Long: `Parks a session, if it is not parked: snapshot, no process, no credential, no host. Lists leave it out
unless they are asked for what is archived, and it takes no messages until it is taken out again.
Nothing of it is deleted. One that runs a turn or has messages queued is refused (exit 6).`,
		Example: "  ctl session archive release-42\n  ctl session list --archived",
		RunE: func(c *cobra.Command, args []string) error {
			return a.archive(c.Context(), args[0], noWait)
		},
	}
	c.Flags().BoolVar(&noWait, "no-wait", false, "do not wait until it is parked")
	return c
}

func (a *app) archive(ctx context.Context, id string, noWait bool) error {
	t, err := a.toSession(ctx, id)
	if err != nil {
		return err
	}
	return a.moves(ctx, t, id, move{
		doing: "archive session " + id, signal: workflows.SignalArchive, msg: workflows.Archive{By: person()}, check: quiet, becoming: "being archived", noWait: noWait,
		there: func(v workflows.SessionView) (bool, error) { return v.State == workflows.Parked && v.Archived, nil },
		done: func(p *printer, _ workflows.SessionView) {
			p.printf("session %s is archived; `ctl session unarchive %s` takes it out again\n", id, id)
		},
	})
}

func sessionUnarchiveCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "unarchive ID", Short: "take a session out again", Args: cobra.ExactArgs(1),
		Long:    `Takes an archived session out again. It stays parked until its next message.`,
		Example: "  ctl session unarchive release-42",
		RunE: func(c *cobra.Command, args []string) error {
			return a.tell(c.Context(), args[0], "unarchive session "+args[0], workflows.SignalUnarchive, workflows.Archive{By: person()}, takesMore,
				"not archived any more; the next message brings it back")
		},
	}
}

// notArchived is the condition that leaves archived sessions out of a list.
const notArchived = "FairleadArchived IS NULL"

// showQueue lists the messages whose turns have not begun.
func showQueue(p *printer, all []workflows.QueuedView) {
	var rows [][]cell
	for _, q := range all {
		rows = append(rows, []cell{plain(q.N), plain(q.ID), plain(q.By), plain(oneLine(strings.TrimSpace(q.Act+" "+q.Text), 70))})
	}
	if len(rows) > 0 {
		p.printf("\n")
		p.table([]string{"TURN", "QUEUED MESSAGE", "BY", "SAYS"}, rows)
	}
}

// quietIf returns done, or "" if more output follows.
func quietIf(more bool, done string) string {
	if more {
		return ""
	}
	return done
}
