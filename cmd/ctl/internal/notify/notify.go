package notify

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"fairlead.dev/fairlead/cmd/ctl/internal/conn"
	"fairlead.dev/fairlead/cmd/ctl/internal/core"
	"fairlead.dev/fairlead/internal/notify"
	"fairlead.dev/fairlead/internal/protocol"
)

// Command is `ctl notify`.
func Command(a *core.App) *cobra.Command {
	return core.Group("notify", "who is told what, and whether it arrived", testCommand(a), logCommand(a), rulesCommand(a), keysCommand(a), linkCommand(a))
}

func zoneFlag(c *cobra.Command, zone *string) {
	c.Flags().StringVar(zone, "zone", "", "the `ZONE` whose outbox is meant")
}

// noOutbox explains that a zone has no outbox.
func noOutbox(doing, zone string, err error) error {
	if core.ExitCode(err) == core.ExitNotFound {
		return core.NotFound("%s: zone %s notifies nobody", doing, cmp.Or(zone, "default")).
			Hinted("name a file of rules in the config of its workers (notifications), and start them again").Because(err)
	}
	return err
}

var states = []protocol.NoticeState{protocol.NoticePending, protocol.NoticeSent, protocol.NoticeFailed, protocol.NoticeSuppressed, protocol.NoticeUnknown}

func logCommand(a *core.App) *cobra.Command {
	var zone, state, session string
	c := &cobra.Command{
		Use: "log", Short: "what people were told, and what not and why", Args: cobra.NoArgs,
		Long: `Lists the notices that wait and the newest 300 that are done, the oldest first. Of those that are
done, what failed or is unknown stays longer than what arrived. A notice is one event for one person
by one channel. Its state is pending; sent (the receiving server took it); failed
(it was not delivered, and is not tried again); suppressed (it was not to be sent); or unknown (the
receiving server may have taken it, and it is not sent again, because it might come twice).`,
		Example: "  ctl notify log\n  ctl notify log --only failed -o json",
		RunE: func(c *cobra.Command, _ []string) error {
			const doing = "show notices"
			q := protocol.NoticesQuery{State: protocol.NoticeState(state)}
			if state != "" && !slices.Contains(states, q.State) {
				return core.Usage("%s: --only %q is not one of pending, sent, failed, suppressed, unknown", doing, state)
			}
			v, err := ask(c.Context(), a, doing, zone, q)
			if err != nil {
				return err
			}
			v.Notices = slices.DeleteFunc(v.Notices, func(n protocol.Notice) bool { return session != "" && n.Event.Session != session })
			return a.Print().Show(v, func(p *core.Printer) { show(p, v) })
		},
	}
	zoneFlag(c, &zone)
	c.Flags().StringVar(&state, "only", "", "only notices in this `STATE`")
	c.Flags().StringVar(&session, "session", "", "only notices about session `ID`")
	return c
}

func ask(ctx context.Context, a *core.App, doing, zone string, q protocol.NoticesQuery) (v protocol.NoticesView, err error) {
	if zone != "" {
		if err := core.CheckName("zone", zone); err != nil {
			return v, err
		}
	}
	t, err := conn.Open(ctx, a)
	if err != nil {
		return v, err
	}
	err = t.Ask(ctx, doing, protocol.OutboxID(zone), protocol.QueryNotices, &v, q)
	return v, noOutbox(doing, zone, err)
}

func show(p *core.Printer, v protocol.NoticesView) {
	var rows [][]core.Cell
	for _, n := range v.Notices {
		rows = append(rows, row(n))
	}
	if len(rows) > 0 {
		p.Table([]string{"AT", "EVENT", "ABOUT", "PERSON", "CHANNEL", "STATE", "WHY"}, rows)
	} else {
		p.Printf("no notices\n")
	}
	if v.Older > 0 {
		p.Printf("%d older ones are not listed\n", v.Older)
	}
	if v.Problem != "" {
		p.Printf("it cannot look further: %s\n", v.Problem)
	}
	for _, what := range v.Deaf {
		p.Printf("%s did not answer for an hour: what happened there is perhaps not told\n", what)
	}
}

func row(n protocol.Notice) []core.Cell {
	e := n.Event
	style := core.Style("")
	switch n.State {
	case protocol.NoticeFailed:
		style = core.Red
	case protocol.NoticeUnknown:
		style = core.Yellow
	}
	why := n.Reason
	if n.State == protocol.NoticePending && n.NotBefore.After(time.Now()) {
		why = strings.TrimPrefix(why+"; not before "+n.NotBefore.Local().Format("2006-01-02 15:04:05"), "; ")
	}
	return []core.Cell{core.Plain(n.CreatedAt.Local().Format("2006-01-02 15:04:05")), core.Plain(e.Kind), core.Plain(cmp.Or(e.Approval, e.Session, e.Batch, e.Host, e.Seed, "-")),
		core.Plain(cmp.Or(n.Person, "-")), core.Plain(cmp.Or(n.Channel, "-")), core.Painted(style, n.State), core.Plain(core.OneLine(why, 200))}
}

// testWait bounds the wait for a test.
const testWait = time.Minute

func testCommand(a *core.App) *cobra.Command {
	var zone string
	c := &cobra.Command{
		Use: "test [CHANNEL|PERSON]", Short: "send a message that says it is a test", Args: cobra.MaximumNArgs(1),
		Long: `Sends a test to a channel or a person of the rules, or to all. It goes the way of all notices:
through the outbox, and by a worker. Quiet hours do not hold it back. ctl waits until each has been
sent or has failed, at most --timeout (1m). Exit 1: one has failed, is unknown or waits. It needs the
verb notify.test (role admin).`,
		Example: "  ctl notify test\n  ctl notify test ann",
		RunE: func(c *cobra.Command, args []string) error {
			const doing = "test notifications"
			in := protocol.TestNotify{ID: core.RandomID(), By: core.Person()}
			if len(args) == 1 {
				if in.To = args[0]; in.To == "" || len(in.To) > 100 {
					return core.Usage("%s: the name of a channel or a person has 1 to 100 characters", doing)
				}
			}
			if zone != "" {
				if err := core.CheckName("zone", zone); err != nil {
					return err
				}
			}
			return runTest(c.Context(), a, doing, zone, in)
		},
	}
	zoneFlag(c, &zone)
	return c
}

func runTest(ctx context.Context, a *core.App, doing, zone string, in protocol.TestNotify) error {
	t, err := conn.Open(ctx, a)
	if err != nil {
		return err
	}
	var acc protocol.TestNotifyAccepted
	if err := t.Update(ctx, doing, protocol.OutboxID(zone), protocol.UpdateTestNotify, in.ID, &acc, in); err != nil {
		return noOutbox(doing, zone, err)
	}
	ctx, cancel := context.WithTimeout(ctx, a.Wait(testWait))
	defer cancel()
	var v protocol.NoticesView
	for {
		if err := t.Ask(ctx, doing, protocol.OutboxID(zone), protocol.QueryNotices, &v, protocol.NoticesQuery{Key: acc.Key}); err != nil && ctx.Err() == nil {
			return err
		}
		waits := len(v.Notices) == 0 || slices.ContainsFunc(v.Notices, func(n protocol.Notice) bool {
			return n.State == protocol.NoticePending && (n.Channel == "" || n.Reason == "")
		})
		if !waits || ctx.Err() != nil {
			break
		}
		select {
		case <-ctx.Done():
		case <-time.After(300 * time.Millisecond):
		}
	}
	if err := a.Print().Show(v, func(p *core.Printer) { show(p, v) }); err != nil {
		return err
	}
	n := 0
	for _, x := range v.Notices {
		if x.State != protocol.NoticeSent {
			n++
		}
	}
	if n > 0 || len(v.Notices) == 0 {
		return core.Failed("%s: %d of %s did not arrive", doing, n, core.CountOf(len(v.Notices), "message")).Hinted("`ctl notify log` shows what became of those that wait")
	}
	return nil
}

func rulesCommand(a *core.App) *cobra.Command {
	var zone, file string
	c := &cobra.Command{
		Use: "rules", Short: "the rules by which people are told", Args: cobra.NoArgs,
		Long: `Shows the rules that are in force, and says if the newest content of their file is broken: then
the last good ones stay in force. With --file, ctl reads a file as workers do. Exit 2: it is broken;
every mistake is shown with its line. No address and no secret is shown.`,
		Example: "  ctl notify rules\n  ctl notify rules --file notify.yaml",
		RunE: func(c *cobra.Command, _ []string) error {
			const doing = "show notification rules"
			var v protocol.NotifyStanding
			switch {
			case file != "" && zone != "":
				return core.Usage("%s: --file and --zone are both given", doing)
			case file != "":
				data, err := a.Input(doing, file)
				if err != nil {
					return err
				}
				r, err := notify.Parse(data, filepath.Dir(file))
				if err != nil {
					return core.Usage("%s: %s: %v", doing, file, err).Hinted("fix the file; workers go on with the last good one").Because(err)
				}
				v = r.Standing()
				v.File = file
			default:
				if zone != "" {
					if err := core.CheckName("zone", zone); err != nil {
						return err
					}
				}
				t, err := conn.Open(c.Context(), a)
				if err != nil {
					return err
				}
				if err := t.Ask(c.Context(), doing, protocol.OutboxID(zone), protocol.QueryNotifyRules, &v); err != nil {
					return noOutbox(doing, zone, err)
				}
			}
			return a.Print().Show(v, func(p *core.Printer) { showRules(p, v) })
		},
	}
	zoneFlag(c, &zone)
	c.Flags().StringVar(&file, "file", "", "a `FILE` of rules to check")
	return c
}

func showRules(p *core.Printer, v protocol.NotifyStanding) {
	if v.Digest == "" {
		p.Printf("no worker with notification rules has looked yet\n")
		return
	}
	p.Fields(core.Plain("file"), core.Plain(v.File), core.Plain("digest"), core.Plain(v.Digest[:min(12, len(v.Digest))]))
	if v.Broken != "" {
		p.Printf("the newest content of the file is not in force: %s\n", v.Broken)
	}
	var rows [][]core.Cell
	for _, c := range v.Channels {
		rows = append(rows, []core.Cell{core.Plain(c.Name), core.Plain(c.Kind)})
	}
	p.Printf("\n")
	p.Table([]string{"CHANNEL", "KIND"}, rows)
	rows = nil
	for _, x := range v.People {
		rows = append(rows, []core.Cell{core.Plain(x.Name), core.Plain(strings.Join(x.Channels, ", ")), core.Plain(cmp.Or(x.Quiet, "-"))})
	}
	if len(rows) > 0 {
		p.Printf("\n")
		p.Table([]string{"PERSON", "CHANNELS", "QUIET"}, rows)
	}
	rows = nil
	for _, r := range v.Rules {
		when := strings.Join(r.Events, ", ")
		if r.Before != "" {
			when += fmt.Sprintf(" (%s before)", r.Before)
		}
		rows = append(rows, []core.Cell{core.Plain(r.Name), core.Plain(when), core.Plain(cmp.Or(r.Sessions, "all")), core.Plain(strings.Join(r.To, ", "))})
	}
	p.Printf("\n")
	p.Table([]string{"RULE", "EVENTS", "SESSIONS", "TO"}, rows)
}

func keysCommand(a *core.App) *cobra.Command {
	var force bool
	c := &cobra.Command{
		Use: "keys FILE", Short: "make the key of a push channel", Args: cobra.ExactArgs(1),
		Long:    "Makes a VAPID key: the private one is written to FILE, for key_file in the rules, and only its owner\nmay read it. The public one is printed: browsers subscribe with it.",
		Example: "  ctl notify keys push.key",
		RunE: func(c *cobra.Command, args []string) error {
			const doing = "make a push key"
			if err := core.MayReplace(doing, args[0], force); err != nil {
				return err
			}
			private, public, err := notify.NewPushKey()
			if err != nil {
				return core.Failed("%s: %v", doing, err)
			}
			if force {
				_ = os.Remove(args[0]) // the mode of the new file counts
			}
			if err := os.WriteFile(args[0], []byte(private+"\n"), 0o600); err != nil {
				return core.Failed("%s: %v", doing, err)
			}
			v := struct {
				File   string `json:"file"`
				Public string `json:"public"`
			}{args[0], public}
			return a.Print().Show(v, func(p *core.Printer) { p.Printf("%s\n", v.Public) })
		},
	}
	c.Flags().BoolVar(&force, "force", false, "replace FILE")
	return c
}
