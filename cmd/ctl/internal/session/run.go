package session

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"fairlead.dev/fairlead/cmd/ctl/internal/conn"
	"fairlead.dev/fairlead/cmd/ctl/internal/core"
	"fairlead.dev/fairlead/cmd/ctl/internal/start"
	"fairlead.dev/fairlead/cmd/internal/flows"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/session"
)

// RunCommand is `ctl run`.
func RunCommand(a *core.App) *cobra.Command {
	var f start.Flags
	var with start.InputFlags
	var key conn.KeyFlags
	var keep, detach bool
	c := &cobra.Command{
		Use: "run PROMPT|-", Short: "start a session, run one turn, show it live, close", Args: cobra.ExactArgs(1),
		Long: `Starts a session, runs one turn and shows it as it goes; approvals are asked at the
terminal. Prints the final message and closes the session, unless --keep.`,
		Example: "  ctl run --host web-1 --seed team 'run the tests and mend what fails'\n  ctl run --host local --sandbox read-only - < question.txt\n  ctl run --host web-1 --image shot.png --file app.log 'why does it look like this?'\n  ctl run --host web-1 --output-schema answer.json -q 'which ports are open?' | jq .ports\n  ctl run --host web-1 --seed team --write /srv/cache --read /srv/data --network proxy.golang.org,sum.golang.org 'build it'",
		RunE: func(c *cobra.Command, args []string) error {
			text, err := start.Prompt(a, args[0])
			if err != nil {
				return err
			}
			opt, err := start.Options(a, &f)
			if err != nil {
				return err
			}
			x, err := with.Look()
			if err != nil {
				return err
			}
			x.Work = &f.Work
			opt.CloseAfter = !keep
			if opt.CloseAfter {
				if c.Flags().Changed("park-after") && opt.ParkAfter > 0 {
					return core.Usage("--park-after is for a session that stays: give --keep, or leave it out")
				}
				opt.ParkAfter = 0
			}
			id, err := f.SessionID()
			if err != nil {
				return err
			}
			k, err := key.Request(protocol.ClaimSession, f.ID, "run", conn.Anybodys(opt), text, x.Named())
			if err != nil {
				return err
			}
			return run(c.Context(), a, k.IDOr(id), opt, text, x, detach, k)
		},
	}
	f.Add(c, "")
	with.Add(c, false)
	key.Add(c, "session")
	c.Flags().BoolVar(&keep, "keep", false, "leave the session open")
	c.Flags().BoolVar(&detach, "detach", false, "print the session's id and exit")
	return c
}

func run(ctx context.Context, a *core.App, id string, opt session.Options, text string, x start.Extras, detach bool, k *conn.Keyed) error {
	t, err := conn.Open(ctx, a)
	if err != nil {
		return err
	}
	acc := protocol.MessageAccepted{Session: id, N: 1, MessageID: k.MessageID()}
	there, err := k.Look(ctx, t.Conn)
	switch {
	case err == nil && there:
		err = makeUp(ctx, a, t, &acc, text, x)
	case err == nil:
		acc, there, err = begin(ctx, a, t, id, opt, text, x, k)
	}
	if err != nil {
		return err
	}
	if detach {
		return a.Print().Show(k.Shown(map[string]any{"id": id, "session": id, "n": acc.N, "message_id": acc.MessageID}, there), func(p *core.Printer) { p.Printf("%s\n", id) })
	}
	a.Note("session %s", id)
	err = watchTurn(ctx, a, t, acc, 1)
	if code := core.ExitCode(err); code == core.ExitPerson || code == core.ExitTimeout || errors.Is(err, core.ErrInterrupted) || !opt.CloseAfter {
		return err
	}
	if _, cerr := awaitClosed(ctx, a, t, id); cerr != nil && err == nil {
		return cerr
	}
	return err
}

// begin starts a session with its first message. there says that this request has already
// started it.
func begin(ctx context.Context, a *core.App, t *conn.Conn, id string, opt session.Options, text string, x start.Extras, k *conn.Keyed) (acc protocol.MessageAccepted, there bool, err error) {
	if err := t.CheckNames(ctx, &opt); err != nil {
		return acc, false, err
	}
	folder := start.OfSession(id)
	m, err := start.Message(ctx, a, t, folder, text, k.MessageID())
	if err == nil {
		err = start.Attach(ctx, a, t, folder, x, &m)
	}
	if err == nil && x.Work != nil {
		err = x.Work.Send(ctx, a, t, id, "", &opt)
	}
	if err == nil {
		err = start.KeepGiven(ctx, a, t, folder, &opt)
	}
	if err == nil {
		err = k.Take(ctx, t.Conn, opt.Zone)
	}
	if err != nil {
		return acc, false, err
	}
	acc = protocol.MessageAccepted{Session: id, N: 1, MessageID: m.ID}
	start := flows.WorkflowOptions(id, opt)
	start.WorkflowExecutionErrorWhenAlreadyStarted = true
	k.Mark(&start)
	doing := "start session " + id
	run, err := t.Start(ctx, doing, start, protocol.TypeSession, session.NewInput(id, opt, &m))
	if err == nil {
		return acc, false, taken(ctx, t, doing, run, acc)
	}
	there, err = k.Ours(ctx, t.Conn, err)
	return acc, there, err
}
