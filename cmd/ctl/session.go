package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"fairlead.dev/fairlead/activities"
	"fairlead.dev/fairlead/snapshots"
	"fairlead.dev/fairlead/workflows"
)

func sessionCommand(a *app) *cobra.Command {
	return group("session", "durable conversations", append(sessionControls(a),
		sessionStartCommand(a), sessionSendCommand(a), sessionListCommand(a), sessionShowCommand(a), sessionFollowCommand(a),
		sessionInterruptCommand(a), sessionSteerCommand(a), sessionDiffCommand(a), sessionFetchCommand(a), sessionPushCommand(a), sessionParkCommand(a), sessionResumeCommand(a), sessionForkCommand(a), sessionSetCommand(a), sessionDeliverablesCommand(a), sessionCloseCommand(a))...)
}

func sessionStartCommand(a *app) *cobra.Command {
	var f startFlags
	var key keyFlags
	c := &cobra.Command{
		Use: "start", Short: "open a session that waits for a message", Args: cobra.NoArgs,
		Example: "  ctl session start --host web-1 --seed team --id release-42\n  ctl session start --host web-1 --seed team --key \"$BUILD_URL\"   # as often as CI likes: one session",
		RunE: func(c *cobra.Command, _ []string) error {
			opt, err := a.sessionOptions(&f)
			if err != nil {
				return err
			}
			id, err := f.sessionID()
			if err != nil {
				return err
			}
			k, err := key.request(workflows.ClaimSession, f.id, "start", anybodys(opt))
			if err != nil {
				return err
			}
			id = k.id(id)
			t, err := a.temporal(c.Context())
			if err != nil {
				return err
			}
			if err := f.work.send(c.Context(), a, t, id, "", &opt); err != nil {
				return err
			}
			there, err := a.startSession(c.Context(), t, id, opt, k)
			if err != nil {
				return err
			}
			return a.print().show(k.shown(map[string]any{"id": id}, there), func(p *printer) { p.printf("%s\n", id) })
		},
	}
	f.add(c, "id")
	key.add(c, "session")
	return c
}

func sessionSendCommand(a *app) *cobra.Command {
	var noWait bool
	var anyModel bool
	var with inputFlags
	var model, effort, id string
	c := &cobra.Command{
		Use: "send ID PROMPT|-", Short: "one more turn", Args: cobra.ExactArgs(2),
		Long: `Sends a message; it is queued behind a running turn. Waits for the turn's end and prints it.
With no worker up the message is kept by Temporal until one is; its turn has no number (n is 0)
until then.`,
		Example: "  ctl session send release-42 'now run the tests'\n  git diff | ctl session send release-42 -\n  ctl session send release-42 --file report.pdf 'what does it say?'",
		RunE: func(c *cobra.Command, args []string) error {
			text, err := a.prompt(args[1])
			if err != nil {
				return err
			}
			if err := checkName("session id", args[0]); err != nil {
				return err
			}
			x, err := with.look()
			if err != nil {
				return err
			}
			t, err := a.temporal(c.Context())
			if err != nil {
				return err
			}
			folder := ofSession(args[0])
			m, err := a.message(c.Context(), t, folder, text, id)
			if err == nil {
				err = a.attach(c.Context(), t, folder, x, &m)
			}
			if err != nil {
				return err
			}
			m.Model, m.Effort, m.AnyModel = model, effort, anyModel
			doing := "send to session " + args[0]
			msg := delivery{doing: doing, session: args[0], name: workflows.SignalMessage, updateID: m.ID, msg: m, again: true, check: takesMore(doing)}
			acc := workflows.MessageAccepted{Session: args[0], MessageID: m.ID}
			seen, live, err := msg.look(c.Context(), t)
			kept, err := msg.send(c.Context(), t, seen, live, err, &acc)
			if err != nil {
				return err
			}
			if noWait {
				return a.print().show(acc, func(p *printer) {
					if kept {
						p.printf("%s message %s kept\n", acc.Session, acc.MessageID)
						return
					}
					p.printf("%s turn %d queued\n", acc.Session, acc.N)
				})
			}
			return a.watchTurn(c.Context(), t, acc, seen.Seq+1)
		},
	}
	with.add(c, false)
	c.Flags().BoolVar(&noWait, "no-wait", false, "do not wait for the turn's end")
	c.Flags().StringVar(&model, "model", "", "model from this turn on")
	c.Flags().StringVar(&effort, "effort", "", "reasoning effort from this turn on")
	c.Flags().BoolVar(&anyModel, "any-model", false, "also a --model that codex does not list")
	c.Flags().StringVar(&id, "message-id", "", "the message's own `id`: sent twice, it is one message")
	return c
}

func sessionShowCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "show ID", Short: "what a session does and waits for", Args: cobra.ExactArgs(1), Example: "  ctl session show release-42",
		RunE: func(c *cobra.Command, args []string) error {
			t, err := a.temporal(c.Context())
			if err != nil {
				return err
			}
			v, err := a.session(c.Context(), t, args[0])
			if err != nil {
				return err
			}
			return a.print().show(asKnown(v), func(p *printer) { showSession(p, v) })
		},
	}
}

// session returns a session as it reports itself or, with no worker up, as Temporal keeps
// it.
func (a *app) session(ctx context.Context, t *temporal, id string) (workflows.SessionView, error) {
	var v workflows.SessionView
	if err := checkName("session id", id); err != nil {
		return v, err
	}
	err := t.ask(ctx, "show session "+id, workflows.SessionID(id), workflows.QueryState, &v)
	if err == nil && v.State != workflows.Closed && v.State != workflows.Failed {
		// A workflow that was terminated from outside still answers queries as if it ran.
		if kept, kerr := t.kept(ctx, id); kerr == nil && kept.Error != nil {
			v.State, v.Waits, v.Error, v.UpdatedAt = kept.State, "", kept.Error, kept.UpdatedAt
		}
	}
	if err == nil && goesOn(v.State) {
		live, trouble := a.live(ctx, t, id)
		freshen(&v, live, trouble)
	}
	if err == nil || exitOf(err) != exitUnreachable {
		return v, err
	}
	kept, kerr := t.kept(ctx, id)
	if kerr != nil {
		return v, err
	}
	a.note("no worker answers: this is what Temporal keeps")
	return kept, nil
}

func showSession(p *printer, v workflows.SessionView) {
	turn, process, failure := "", "", ""
	snapshot, snapshotTrouble := snapshotText(v.Snapshot)
	warm := ""
	if v.Warm != nil {
		warm = fmt.Sprintf("on %s, where it comes back at once; since %s", v.Warm.Host, age(v.Warm.Since))
	}
	if v.Turn != nil {
		turn = fmt.Sprintf("%d, %s", v.Turn.N, v.Turn.Status)
	}
	if v.Process != nil {
		process = fmt.Sprintf("%s, incarnation %d, offset %d", v.Process.Name, v.Process.Incarnation, v.Process.Offset)
		if !v.Process.Alive {
			process += ", gone"
			if v.Process.End != "" {
				process += " (" + v.Process.End + ")"
			}
		}
	}
	if v.Error != nil {
		failure = v.Error.Kind + ": " + v.Error.Message
		if v.Error.Hint != "" {
			failure += " (" + v.Error.Hint + ")"
		}
	}
	away := ""
	if v.Archived {
		away = "it takes no messages until `ctl session unarchive`"
	}
	p.fields(plain("id"), painted(bold, v.ID), plain("name"), plain(v.Name), plain("archived"), painted(yellow, away), plain("state"), painted(stateColour(v.State), string(v.State)), plain("waits for"), plain(v.Waits), plain("next attempt"), painted(yellow, attemptsText(v.WaitingFor)),
		plain("host"), plain(v.Host), plain("lost"), painted(red, lostText(v.Lost)), plain("warm"), plain(warm), plain("attempt"), plain(attemptText(v.Attempt)), plain("seed"), plain(v.Seed), plain("thread"), plain(v.ThreadID), plain("turn"), plain(turn), plain("progress"), plain(progressText(v.Progress)),
		plain("process"), plain(process), plain("tokens"), plain(tokens(v.Usage)), plain("context"), plain(contextText(v.Usage.Context)), plain("rate limits"), plain(rateText(v.RateLimits)), plain("budget"), plain(budgetText(v.Budget)), plain("nearly used up"), painted(yellow, budgetWarnings(v.Budget)),
		plain("sandbox"), plain(confineText(v.Options)), plain("begun from"), plain(v.Options["from"]), plain("snapshots"), plain(policyText(v.Options)), plain("snapshot"), plain(snapshot), plain("snapshot failed"), painted(red, snapshotTrouble),
		plain("on interrupt"), plain(v.Options["on_interrupt"]), plain("on host lost"), plain(hostLostText(v.Options)), plain("policy"), plain(policyLine(v.Policy)), plain("seed's policy"), plain(policyLine(v.SeedPolicy)), plain("unprotected"), painted(red, v.Unprotected), plain("error"), painted(red, failure), plain("started by"), plain(v.Origin),
		plain("created"), plain(v.CreatedAt), plain("updated"), plain(v.UpdatedAt))
	for _, r := range v.Requests {
		p.printf("%s  %s  %s  (expires %s)\n", p.paint(yellow, r.ID), r.Kind, clean(oneLine(r.Summary, 100)), age(r.ExpiresAt))
		if was := earlierText(r.Earlier); was != "" {
			p.printf("  %s\n", p.paint(yellow, was))
		}
	}
	showQueue(p, v.Queued)
	showMessages(p, v.Messages)
	for _, r := range v.Refusals {
		p.printf("refused %s, %s: %s\n", r.Name, age(r.At), clean(r.Reason))
	}
}

// attemptsText says how long an operation has failed, and when it is tried again.
func attemptsText(w *workflows.WaitingView) string {
	if w == nil {
		return ""
	}
	return fmt.Sprintf("%s; %d failed since %s (%s)", age(w.NextAt), w.Attempt, age(w.Since), w.Kind)
}

func tokens(u workflows.UsageView) string {
	if u.Input+u.Output == 0 {
		return ""
	}
	return fmt.Sprintf("%d in (%d cached), %d out", u.Input, u.Cached, u.Output)
}

func stateColour(s workflows.SessionStatus) style {
	switch s {
	case workflows.Running, workflows.Starting, workflows.Preparing, workflows.Resuming:
		return cyan
	case workflows.Waiting, workflows.Interrupted:
		return yellow
	case workflows.Failed:
		return red
	case workflows.Idle:
		return green
	}
	return ""
}

func sessionListCommand(a *app) *cobra.Command {
	var host string
	var limit int
	var archived bool
	var origin originFlags
	state := stateFlag{folder: &a.flags.state}
	c := &cobra.Command{
		Use: "list", Short: "sessions, newest first", Args: cobra.NoArgs,
		Example: "  ctl session list --state waiting\n  ctl --state DIR session list --state waiting",
		RunE: func(c *cobra.Command, _ []string) error {
			// A run that continued as new is part of the same session.
			q := []string{fmt.Sprintf("WorkflowType = '%s' AND ExecutionStatus != 'ContinuedAsNew'", workflows.TypeSession)}
			if state.given {
				if !knownState(state.word) {
					return usage("--state %q is no state of a session", state.word).
						hinted("one of %s; a folder goes before the command, or is given with a /", strings.Join(stateWords(), ", "))
				}
				q = append(q, fmt.Sprintf("FairleadState = '%s'", state.word))
			}
			if !archived {
				q = append(q, notArchived)
			}
			if host != "" {
				if err := checkName("host name", host); err != nil {
					return err
				}
				q = append(q, fmt.Sprintf("FairleadHost = '%s'", host))
			}
			if err := origin.narrow(&q); err != nil {
				return err
			}
			if limit < 1 {
				return usage("--limit %d: at least 1", limit)
			}
			t, err := a.temporal(c.Context())
			if err != nil {
				return err
			}
			infos, err := t.list(c.Context(), "list sessions", strings.Join(q, " AND "), limit)
			if err != nil {
				return err
			}
			list := []workflows.SessionView{}
			for _, info := range infos {
				list = append(list, keptView(info, t.codec))
			}
			a.freshenAll(c.Context(), t, list)
			slices.SortStableFunc(list, func(a, b workflows.SessionView) int { return b.CreatedAt.Compare(a.CreatedAt) })
			known := make([]any, len(list))
			for i, v := range list {
				known[i] = asKnown(v)
			}
			return showAll(a.print(), known, func(p *printer) {
				var rows [][]cell
				for _, v := range list {
					turn := ""
					if v.Turn != nil {
						turn = fmt.Sprint(v.Turn.N)
					}
					rows = append(rows, []cell{painted(bold, v.ID), painted(stateColour(v.State), string(v.State)), plain(oneLine(v.Waits, widestWait)), plain(v.Host), plain(v.Seed), plain(turn), plain(v.CreatedAt), plain(oneLine(v.Name, 40)), painted(yellow, whereabouts(v))})
				}
				p.table([]string{"ID", "STATE", "WAITS FOR", "HOST", "SEED", "TURN", "CREATED", "NAME", ""}, rows)
			})
		},
	}
	c.Flags().Var(&state, "state", "only those in this `state`; what has a / in it is the folder of a local stack")
	c.Flags().StringVar(&host, "host", "", "only those on this `host`")
	c.Flags().IntVar(&limit, "limit", 100, "at most so many")
	origin.add(c)
	c.Flags().BoolVar(&archived, "archived", false, "also those that are archived")
	return c
}

// widestWait bounds the column that says what a session waits for, so that a long error
// does not push other columns off the screen. `session show` prints all of it.
const widestWait = 70

func sessionInterruptCommand(a *app) *cobra.Command {
	var reason string
	c := &cobra.Command{
		Use: "interrupt ID", Short: "end the running turn", Args: cobra.ExactArgs(1), Example: "  ctl session interrupt release-42",
		RunE: func(c *cobra.Command, args []string) error {
			return a.tell(c.Context(), args[0], "interrupt session "+args[0], workflows.SignalInterrupt,
				workflows.Interrupt{By: person(), Reason: reason}, turnRuns, "interrupting")
		},
	}
	c.Flags().StringVar(&reason, "reason", "", "why, for the record")
	return c
}

func sessionCloseCommand(a *app) *cobra.Command {
	var discard, noWait bool
	c := &cobra.Command{
		Use: "close ID", Short: "end a session and leave its host as it was", Args: cobra.ExactArgs(1),
		Long: `Interrupts a running turn, keeps the conversation and our work folder in the store,
wipes the credentials, removes our folder on the host and gives back host and seed.
What cannot be saved stays until it can, unless --discard. One that is closed stays so.`,
		Example: "  ctl session close release-42",
		RunE: func(c *cobra.Command, args []string) error {
			id := args[0]
			t, err := a.temporal(c.Context())
			if err != nil {
				return err
			}
			err = a.tell(c.Context(), id, "close session "+id, workflows.SignalClose, workflows.Close{By: person(), Discard: discard}, nil, "")
			if exitOf(err) == exitRefused {
				v, verr := a.session(c.Context(), t, id)
				switch {
				case verr != nil:
				case hasEnded(v.State): // nothing is left to close
					return a.print().show(asKnown(v), func(p *printer) {
						p.printf("session %s %s\n", id, clean(endText(v)))
						a.showKept(c.Context(), t, p, v)
					})
				case v.State == workflows.Closing: // wait for it as for our own request
					err = nil
				}
			}
			if err != nil {
				return err
			}
			if noWait {
				v, err := a.session(c.Context(), t, id)
				if err != nil {
					return err
				}
				return a.print().show(v, func(p *printer) { p.printf("session %s is %s\n", id, v.State) })
			}
			v, err := a.awaitClosed(c.Context(), t, id)
			if err != nil {
				return err
			}
			return a.print().show(v, func(p *printer) {
				p.printf("session %s closed\n", id)
				a.showKept(c.Context(), t, p, v)
			})
		},
	}
	c.Flags().BoolVar(&discard, "discard", false, "give up what cannot be saved")
	c.Flags().BoolVar(&noWait, "no-wait", false, "do not wait until all is cleaned up")
	return c
}

// showKept says what the store has of a closed session, and what is missing.
func (a *app) showKept(ctx context.Context, t *temporal, p *printer, v workflows.SessionView) {
	if v.Error != nil && v.Error.Kind == activities.ErrTypeDiscarded {
		p.printf("%s\n", p.paint(red, clean(v.Error.Message)))
	}
	if v.Close == nil || v.Close.Archive == "" {
		return
	}
	var m snapshots.Manifest
	if worker, err := a.anyWorker(ctx, t); err == nil {
		m, _ = worker.Snapshot(ctx, v.Close.Archive) // an unknown snapshot counts as incomplete
	}
	p.printf("%s kept as %s\n", heldBy(m), v.Close.Archive)
}

// heldBy says what a snapshot holds, with the verb that follows.
func heldBy(m snapshots.Manifest) string {
	switch {
	case !m.Complete:
		return "what there was to keep is"
	case slices.ContainsFunc(m.Trees, func(t snapshots.Tree) bool { return t.Name == snapshots.Work }):
		return "conversation and work are"
	}
	return "the conversation alone, nothing of the work folder, is"
}

// tell sends a request that the session answers with its state. check says, with no worker
// up, whether the session would take it; nil means that it takes it in any state.
func (a *app) tell(ctx context.Context, id, doing, name string, arg any, check func(string) func(workflows.SessionDetail) error, done string) error {
	if err := checkName("session id", id); err != nil {
		return err
	}
	t, err := a.temporal(ctx)
	if err != nil {
		return err
	}
	msg := delivery{doing: doing, session: id, name: name, msg: arg, again: name == workflows.SignalClose,
		check: func(workflows.SessionDetail) error { return nil }}
	if check != nil {
		msg.check = check(doing)
	}
	seen, live, err := msg.look(ctx, t)
	v := seen.View
	kept, err := msg.send(ctx, t, seen, live, err, &v)
	if err != nil || done == "" {
		return err
	}
	if kept {
		done = "kept until a worker is up"
	}
	return a.print().show(v, func(p *printer) { p.printf("session %s: %s\n", id, done) })
}
