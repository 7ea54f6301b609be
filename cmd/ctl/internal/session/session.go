package session

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"fairlead.dev/fairlead/cmd/ctl/internal/conn"
	"fairlead.dev/fairlead/cmd/ctl/internal/core"
	"fairlead.dev/fairlead/cmd/ctl/internal/live"
	"fairlead.dev/fairlead/cmd/ctl/internal/show"
	"fairlead.dev/fairlead/cmd/ctl/internal/start"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/snapshots"
)

// Command is `ctl session`.
func Command(a *core.App) *cobra.Command {
	return core.Group("session", "durable conversations", append(sessionControls(a),
		startCommand(a), sendCommand(a), listCommand(a), showCommand(a), bodiesCommand(a), followCommand(a),
		interruptCommand(a), steerCommand(a), diffCommand(a), fetchCommand(a), pushCommand(a), parkCommand(a), resumeCommand(a), forkCommand(a), setCommand(a), deliverablesCommand(a), closeCommand(a))...)
}

func startCommand(a *core.App) *cobra.Command {
	var f start.Flags
	var key conn.KeyFlags
	c := &cobra.Command{
		Use: "start", Short: "open a session that waits for a message", Args: cobra.NoArgs,
		Example: "  ctl session start --host web-1 --seed team --id release-42\n  ctl session start --host web-1 --seed team --key \"$BUILD_URL\"   # as often as CI likes: one session",
		RunE: func(c *cobra.Command, _ []string) error {
			opt, err := start.Options(a, &f)
			if err != nil {
				return err
			}
			id, err := f.SessionID()
			if err != nil {
				return err
			}
			k, err := key.Request(protocol.ClaimSession, f.ID, "start", conn.Anybodys(opt))
			if err != nil {
				return err
			}
			id = k.IDOr(id)
			t, err := conn.Open(c.Context(), a)
			if err != nil {
				return err
			}
			if err := f.Work.Send(c.Context(), a, t, id, "", &opt); err != nil {
				return err
			}
			if err := start.KeepGiven(c.Context(), a, t, start.OfSession(id), &opt); err != nil {
				return err
			}
			there, err := start.Session(c.Context(), t, id, opt, k)
			if err != nil {
				return err
			}
			tellRules(c.Context(), a, t, opt)
			return a.Print().Show(k.Shown(map[string]any{"id": id}, there), func(p *core.Printer) { p.Printf("%s\n", id) })
		},
	}
	f.Add(c, "id")
	key.Add(c, "session")
	return c
}

func sendCommand(a *core.App) *cobra.Command {
	var noWait bool
	var anyModel bool
	var with start.InputFlags
	var model, effort, id string
	c := &cobra.Command{
		Use: "send ID PROMPT|-", Short: "one more turn", Args: cobra.ExactArgs(2),
		Long: `Sends a message; it is queued behind a running turn. Waits for the turn's end and prints it.
With no worker up the message is kept by Temporal until one is; its turn has no number (n is 0)
until then.`,
		Example: "  ctl session send release-42 'now run the tests'\n  git diff | ctl session send release-42 -\n  ctl session send release-42 --file report.pdf 'what does it say?'",
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
			m, err := start.Message(c.Context(), a, t, folder, text, id)
			if err == nil {
				err = start.Attach(c.Context(), a, t, folder, x, &m)
			}
			if err != nil {
				return err
			}
			m.Model, m.Effort, m.AnyModel = model, effort, anyModel
			doing := "send to session " + args[0]
			msg := conn.Delivery{Doing: doing, Session: args[0], Name: protocol.SignalMessage, UpdateID: m.ID, Msg: m, Again: true, Check: conn.TakesMore(doing)}
			acc := protocol.MessageAccepted{Session: args[0], MessageID: m.ID}
			seen, live, err := msg.Look(c.Context(), t.Conn)
			kept, err := msg.Send(c.Context(), t.Conn, seen, live, err, &acc)
			if err != nil {
				return err
			}
			if noWait {
				return a.Print().Show(acc, func(p *core.Printer) {
					if kept {
						p.Printf("%s message %s kept\n", acc.Session, acc.MessageID)
						return
					}
					p.Printf("%s turn %d queued\n", acc.Session, acc.N)
				})
			}
			return watchTurn(c.Context(), a, t, acc, seen.Seq+1)
		},
	}
	with.Add(c, false)
	c.Flags().BoolVar(&noWait, "no-wait", false, "do not wait for the turn's end")
	c.Flags().StringVar(&model, "model", "", "model from this turn on")
	c.Flags().StringVar(&effort, "effort", "", "reasoning effort from this turn on")
	c.Flags().BoolVar(&anyModel, "any-model", false, "also a --model that codex does not list")
	c.Flags().StringVar(&id, "message-id", "", "the message's own `id`: sent twice, it is one message")
	return c
}

func showCommand(a *core.App) *cobra.Command {
	var told bool
	c := &cobra.Command{
		Use: "show ID", Short: "what a session does and waits for", Args: cobra.ExactArgs(1),
		Example: "  ctl session show release-42\n  ctl session show release-42 --instructions   # what codex is told before all messages, and by whom",
		RunE: func(c *cobra.Command, args []string) error {
			t, err := conn.Open(c.Context(), a)
			if err != nil {
				return err
			}
			if told {
				return showInstructions(c.Context(), a, t, args[0])
			}
			v, err := live.Session(c.Context(), a, t, args[0])
			if err != nil {
				return err
			}
			return a.Print().Show(conn.AsKnown(v), func(p *core.Printer) { showSession(p, v) })
		},
	}
	c.Flags().BoolVar(&told, "instructions", false, "show the instructions that codex has: AGENTS.md (of the organisation, the seed and the session), developer instructions and base instructions")
	return c
}

func showSession(p *core.Printer, v protocol.SessionView) {
	turn, process, failure := "", "", ""
	snapshot, snapshotTrouble := snapshotText(v.Snapshot)
	warm := ""
	if v.Warm != nil {
		warm = fmt.Sprintf("on %s, where it comes back at once; since %s", v.Warm.Host, core.Age(v.Warm.Since))
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
	p.Fields(core.Plain("id"), core.Painted(core.Bold, v.ID), core.Plain("name"), core.Plain(v.Name), core.Plain("archived"), core.Painted(core.Yellow, away), core.Plain("state"), core.Painted(stateColour(v.State), string(v.State)), core.Plain("waits for"), core.Plain(v.Waits), core.Plain("next attempt"), core.Painted(core.Yellow, show.AttemptsText(v.WaitingFor)),
		core.Plain("host"), core.Plain(v.Host), core.Plain("lost"), core.Painted(core.Red, lostText(v.Lost)), core.Plain("warm"), core.Plain(warm), core.Plain("attempt"), core.Plain(attemptText(v.Attempt)), core.Plain("seed"), core.Plain(v.Seed), core.Plain("switched"), core.Plain(switchedText(v.Switched)), core.Plain("thread"), core.Plain(v.ThreadID), core.Plain("turn"), core.Plain(turn), core.Plain("progress"), core.Plain(show.ProgressText(v.Progress)),
		core.Plain("plan"), core.Plain(show.PlanLine(v.Notices)), core.Plain("rerouted"), core.Painted(core.Yellow, show.RerouteText(v.Notices)), core.Plain("MCP servers"), core.Plain(show.MCPServersText(v.Notices)),
		core.Plain("process"), core.Plain(process), core.Plain("tokens"), core.Plain(show.Tokens(v.Usage)), core.Plain("context"), core.Plain(show.ContextText(v.Usage.Context)), core.Plain("rate limits"), core.Plain(show.RateText(v.RateLimits)), core.Plain("credentials"), core.Plain(show.CredentialsText(v)), core.Plain("model gateway"), core.Plain(v.Gateway.Text()), core.Plain("egress"), core.Plain(show.EgressText(v)), core.Plain("budget"), core.Plain(show.BudgetText(v.Budget)), core.Plain("nearly used up"), core.Painted(core.Yellow, show.BudgetWarnings(v.Budget)),
		core.Plain("sandbox"), core.Plain(show.ConfineText(v.Options)), core.Plain("begun from"), core.Plain(v.Options["from"]), core.Plain("snapshots"), core.Plain(policyText(v.Options)), core.Plain("snapshot"), core.Plain(snapshot), core.Plain("snapshot failed"), core.Painted(core.Red, snapshotTrouble),
		core.Plain("on interrupt"), core.Plain(v.Options["on_interrupt"]), core.Plain("on host lost"), core.Plain(hostLostText(v.Options)), core.Plain("policy"), core.Plain(show.PolicyLine(v.Policy)), core.Plain("seed's policy"), core.Plain(show.PolicyLine(v.SeedPolicy)), core.Plain("unprotected"), core.Painted(core.Red, v.Unprotected), core.Plain("error"), core.Painted(core.Red, failure), core.Plain("started by"), core.Plain(v.Origin),
		core.Plain("created"), core.Plain(v.CreatedAt), core.Plain("updated"), core.Plain(v.UpdatedAt))
	for _, r := range v.Requests {
		p.Printf("%s  %s  %s  (expires %s)\n", p.Paint(core.Yellow, r.ID), r.Kind, core.Clean(core.OneLine(r.Summary, 100)), core.Age(r.ExpiresAt))
		if was := show.EarlierText(r.Earlier); was != "" {
			p.Printf("  %s\n", p.Paint(core.Yellow, was))
		}
	}
	showRules(p, v.Rules)
	showFollowUps(p, v.FollowUps)
	showChildren(p, v.Children)
	showVerdicts(p, v.Verdicts)
	showQueue(p, v.Queued)
	show.Messages(p, v.Messages)
	for _, r := range v.Refusals {
		p.Printf("refused %s, %s: %s\n", r.Name, core.Age(r.At), core.Clean(r.Reason))
	}
}

func stateColour(s protocol.SessionStatus) core.Style {
	switch s {
	case protocol.Running, protocol.Starting, protocol.Preparing, protocol.Resuming:
		return core.Cyan
	case protocol.Waiting, protocol.Interrupted:
		return core.Yellow
	case protocol.Failed:
		return core.Red
	case protocol.Idle:
		return core.Green
	}
	return ""
}

func listCommand(a *core.App) *cobra.Command {
	var host string
	var limit int
	var archived, tree bool
	var origin conn.OriginFlags
	state := core.StateFlag{Folder: &a.Flags.State}
	c := &cobra.Command{
		Use: "list", Short: "sessions, newest first", Args: cobra.NoArgs,
		Example: "  ctl session list --state waiting\n  ctl --state DIR session list --state waiting",
		RunE: func(c *cobra.Command, _ []string) error {
			// A run that continued as new is part of the session.
			q := []string{fmt.Sprintf("WorkflowType = '%s' AND ExecutionStatus != 'ContinuedAsNew'", protocol.TypeSession)}
			if state.Given {
				if !conn.KnownState(state.Word) {
					return core.Usage("--state %q is not a state of a session", state.Word).
						Hinted("one of %s; a folder goes before the command, or is given with a /", strings.Join(conn.StateWords(), ", "))
				}
				q = append(q, fmt.Sprintf("FairleadState = '%s'", state.Word))
			}
			if !archived {
				q = append(q, notArchived)
			}
			if host != "" {
				if err := core.CheckName("host name", host); err != nil {
					return err
				}
				q = append(q, fmt.Sprintf("FairleadHost = '%s'", host))
			}
			if err := origin.Narrow(&q); err != nil {
				return err
			}
			if limit < 1 {
				return core.Usage("--limit %d: at least 1", limit)
			}
			t, err := conn.Open(c.Context(), a)
			if err != nil {
				return err
			}
			infos, err := t.List(c.Context(), "list sessions", strings.Join(q, " AND "), limit)
			if err != nil {
				return err
			}
			list := []protocol.SessionView{}
			for _, info := range infos {
				list = append(list, conn.KeptView(info, t.Codec))
			}
			live.FreshenAll(c.Context(), a, t, list)
			slices.SortStableFunc(list, func(a, b protocol.SessionView) int { return b.CreatedAt.Compare(a.CreatedAt) })
			depth := make([]int, len(list))
			if tree {
				list, depth = asTree(list)
			}
			known := make([]any, len(list))
			for i, v := range list {
				known[i] = conn.AsKnown(v)
			}
			return core.ShowAll(a.Print(), known, func(p *core.Printer) {
				var rows [][]core.Cell
				for i, v := range list {
					turn := ""
					if v.Turn != nil {
						turn = fmt.Sprint(v.Turn.N)
					}
					rows = append(rows, []core.Cell{core.Painted(core.Bold, strings.Repeat("  ", depth[i])+v.ID), core.Painted(stateColour(v.State), string(v.State)), core.Plain(core.OneLine(v.Waits, show.WidestWait)), core.Plain(v.Host), core.Plain(v.Seed), core.Plain(turn), core.Plain(v.CreatedAt), core.Plain(core.OneLine(v.Name, 40)), core.Painted(core.Yellow, whereabouts(v))})
				}
				p.Table([]string{"ID", "STATE", "WAITS FOR", "HOST", "SEED", "TURN", "CREATED", "NAME", ""}, rows)
			})
		},
	}
	c.Flags().Var(&state, "state", "only those in this `state`; what has a / in it is the folder of a local stack")
	c.Flags().StringVar(&host, "host", "", "only those on this `host`")
	c.Flags().IntVar(&limit, "limit", 100, "at most so many")
	origin.Add(c)
	c.Flags().BoolVar(&archived, "archived", false, "also those that are archived")
	c.Flags().BoolVar(&tree, "tree", false, "show each session that an agent started below its parent, indented")
	return c
}

func interruptCommand(a *core.App) *cobra.Command {
	var reason string
	c := &cobra.Command{
		Use: "interrupt ID", Short: "end the running turn", Args: cobra.ExactArgs(1), Example: "  ctl session interrupt release-42",
		RunE: func(c *cobra.Command, args []string) error {
			return tell(c.Context(), a, args[0], "interrupt session "+args[0], protocol.SignalInterrupt,
				protocol.Interrupt{By: core.Person(), Reason: reason}, conn.TurnRuns, "interrupting")
		},
	}
	c.Flags().StringVar(&reason, "reason", "", "why, for the record")
	return c
}

func closeCommand(a *core.App) *cobra.Command {
	var discard, noWait bool
	var g group
	c := &cobra.Command{
		Use: "close [ID]", Short: "end a session, or a group of them, and leave its host as it was", Args: cobra.MaximumNArgs(1),
		Long: `Interrupts a running turn, keeps the conversation and our work folder in the store,
wipes the credentials, removes our folder on the host and gives back host and seed.
What cannot be saved stays until it can, unless --discard. One that is closed stays so.

With --label it closes each open session that was started with these labels. It lists them and
asks before it closes them, unless --yes is given. Each session gets a command of its own, which
is judged separately. A session that has ended meanwhile is not an error. Exit code 0: all are
closed; 1: the named sessions are not; 6: you said no; 7: nobody can be asked, and
--yes is not given. In JSON, a line for each session has its result: closed, had_ended, closing
(with --no-wait), not_in_time or not_closed.`,
		Example: "  ctl session close release-42\n  ctl session close --label team=payments --label env=dev",
		RunE: func(c *cobra.Command, args []string) error {
			want, err := g.check(c, args)
			if err != nil {
				return err
			}
			if want != nil {
				g.discard, g.noWait = discard, noWait
				return closeGroup(c.Context(), a, g, want)
			}
			id := args[0]
			t, err := conn.Open(c.Context(), a)
			if err != nil {
				return err
			}
			err = tell(c.Context(), a, id, "close session "+id, protocol.SignalClose, protocol.Close{By: core.Person(), Discard: discard}, nil, "")
			if core.ExitCode(err) == core.ExitRefused {
				v, verr := live.Session(c.Context(), a, t, id)
				switch {
				case verr != nil:
				case conn.HasEnded(v.State): // nothing is left to close
					return a.Print().Show(conn.AsKnown(v), func(p *core.Printer) {
						p.Printf("session %s %s\n", id, core.Clean(conn.EndText(v)))
						showKept(c.Context(), a, t, p, v)
					})
				case v.State == protocol.Closing: // wait, as after our own request
					err = nil
				}
			}
			if err != nil {
				return err
			}
			if noWait {
				v, err := live.Session(c.Context(), a, t, id)
				if err != nil {
					return err
				}
				return a.Print().Show(v, func(p *core.Printer) { p.Printf("session %s is %s\n", id, v.State) })
			}
			v, err := awaitClosed(c.Context(), a, t, id)
			if err != nil {
				return err
			}
			return a.Print().Show(v, func(p *core.Printer) {
				p.Printf("session %s closed\n", id)
				showKept(c.Context(), a, t, p, v)
			})
		},
	}
	c.Flags().BoolVar(&discard, "discard", false, "give up what cannot be saved")
	c.Flags().BoolVar(&noWait, "no-wait", false, "do not wait until all is cleaned up")
	g.add(c)
	return c
}

// showKept prints why a closed session's folder was given up, if it was, and what its last
// snapshot holds.
func showKept(ctx context.Context, a *core.App, t *conn.Conn, p *core.Printer, v protocol.SessionView) {
	if v.Error != nil && v.Error.Kind == protocol.ErrTypeDiscarded {
		p.Printf("%s\n", p.Paint(core.Red, core.Clean(v.Error.Message)))
	}
	if v.Close == nil || v.Close.Archive == "" {
		return
	}
	var m snapshots.Manifest
	if worker, err := conn.AnyWorker(ctx, a, t); err == nil {
		m, _ = worker.Snapshot(ctx, v.Close.Archive) // an unknown one counts as incomplete
	}
	p.Printf("%s kept as %s\n", heldBy(m), v.Close.Archive)
}

// heldBy says what a snapshot holds, with a verb.
func heldBy(m snapshots.Manifest) string {
	switch {
	case !m.Complete:
		return "what there was to keep is"
	case slices.ContainsFunc(m.Trees, func(t snapshots.Tree) bool { return t.Name == snapshots.Work }):
		return "conversation and work are"
	}
	return "the conversation alone, nothing of the work folder, is"
}

// tell sends a request. If no worker answers, check decides whether the session would take
// it; without check it takes it in any state.
func tell(ctx context.Context, a *core.App, id, doing, name string, arg any, check func(string) func(protocol.SessionDetail) error, done string) error {
	if err := core.CheckName("session id", id); err != nil {
		return err
	}
	t, err := conn.Open(ctx, a)
	if err != nil {
		return err
	}
	msg := conn.Delivery{Doing: doing, Session: id, Name: name, Msg: arg, Again: name == protocol.SignalClose,
		Check: func(protocol.SessionDetail) error { return nil }}
	if check != nil {
		msg.Check = check(doing)
	}
	seen, live, err := msg.Look(ctx, t.Conn)
	v := seen.View
	kept, err := msg.Send(ctx, t.Conn, seen, live, err, &v)
	if err != nil || done == "" {
		return err
	}
	if kept {
		done = "kept until a worker is up"
	}
	return a.Print().Show(v, func(p *core.Printer) { p.Printf("session %s: %s\n", id, done) })
}
