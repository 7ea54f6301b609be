package approval

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"fairlead.dev/fairlead/cmd/ctl/internal/conn"
	"fairlead.dev/fairlead/cmd/ctl/internal/core"
	"fairlead.dev/fairlead/cmd/ctl/internal/live"
	"fairlead.dev/fairlead/cmd/ctl/internal/show"
	"fairlead.dev/fairlead/cmd/internal/flows"
	"fairlead.dev/fairlead/internal/api"
	"fairlead.dev/fairlead/internal/protocol"
)

// Command is `ctl approval`.
func Command(a *core.App) *cobra.Command {
	return signing(a, core.Group("approval", "what codex asks for and waits for",
		listCommand(a), showCommand(a), watchCommand(a),
		decideCommand(a, "accept", "let codex do it"),
		decideCommand(a, "decline", "do not let codex do it; the turn goes on"),
		decideCommand(a, "cancel", "do not let codex do it, and end the turn"),
		answerCommand(a), grantCommand(a), reviseCommand(a)))
}

func listCommand(a *core.App) *cobra.Command {
	var session string
	var all bool
	c := &cobra.Command{
		Use: "list", Short: "open approvals", Args: cobra.NoArgs, Example: "  ctl approval list -o json",
		RunE: func(c *cobra.Command, _ []string) error {
			t, err := conn.Open(c.Context(), a)
			if err != nil {
				return err
			}
			list, err := t.Approvals(c.Context(), session, all, nil)
			if err != nil {
				return err
			}
			return core.ShowAll(a.Print(), list, func(p *core.Printer) {
				var rows [][]core.Cell
				for _, ap := range list {
					rows = append(rows, []core.Cell{core.Painted(core.Bold, ap.ID), core.Plain(ap.Kind), core.Painted(approvalColour(ap.State), string(ap.State)),
						core.Plain(decidedText(ap)), whatCell(ap), core.Painted(core.Yellow, show.EarlierText(ap.Earlier)), core.Plain(ap.CWD), core.Plain(ap.AskedAt), expires(ap)})
				}
				p.Table([]string{"ID", "KIND", "STATE", "DECIDED", "WHAT", "EARLIER", "IN", "ASKED", "EXPIRES"}, rows)
			})
		},
	}
	c.Flags().StringVar(&session, "session", "", "only this session's")
	c.Flags().BoolVar(&all, "all", false, "also those decided, expired or void")
	return c
}

func decidedText(ap protocol.Approval) string {
	if ap.Decision == nil {
		return ""
	}
	text := ap.Decision.Outcome
	if ap.Decision.Scope == "session" {
		text += " for the session"
	}
	if ap.Decision.By != "" {
		text += " by " + ap.Decision.By
	}
	return core.OneLine(text, 60)
}

// expires is empty unless the approval is open.
func expires(ap protocol.Approval) core.Cell {
	if ap.State != protocol.ApprovalOpen {
		return core.Plain("")
	}
	return core.Plain(ap.ExpiresAt)
}

func approvalColour(s protocol.ApprovalState) core.Style {
	switch s {
	case protocol.ApprovalOpen, protocol.ApprovalUnjudged:
		return core.Yellow
	case protocol.ApprovalAcknowledged:
		return core.Green
	case protocol.ApprovalExpired, protocol.ApprovalVoid:
		return core.Dim
	}
	return ""
}

func approval(ctx context.Context, t *conn.Conn, doing, id string) (protocol.Approval, error) {
	session, err := sessionOf(id)
	if err != nil {
		return protocol.Approval{}, err
	}
	var list []protocol.Approval
	if err := t.Ask(ctx, doing, protocol.SessionID(session), protocol.QueryApprovals, &list); err != nil {
		return protocol.Approval{}, err
	}
	return conn.Pick(list, doing, id)
}

// sessionOf returns the session of an approval id, <session>.<n>.
func sessionOf(id string) (string, error) {
	session, _, ok := core.CutLast(id)
	if !ok {
		return "", core.Usage("%q is not the id of an approval", id).Hinted("it looks like SESSION.N; `ctl approval list` shows them")
	}
	return session, core.CheckName("session id", session)
}

func showCommand(a *core.App) *cobra.Command {
	return &cobra.Command{
		Use: "show ID", Short: "the whole of what codex asks for", Args: cobra.ExactArgs(1), Example: "  ctl approval show release-42.1",
		RunE: func(c *cobra.Command, args []string) error {
			t, err := conn.Open(c.Context(), a)
			if err != nil {
				return err
			}
			ap, err := approval(c.Context(), t, "show approval "+args[0], args[0])
			if err != nil {
				return err
			}
			if ap, err = whole(c.Context(), a, t, ap); err != nil {
				return err
			}
			if ap = Checked(ap); ap.DigestCheck == protocol.DigestOther {
				return otherContent("show approval " + ap.ID)
			}
			if ap.State == protocol.ApprovalDecided || ap.State == protocol.ApprovalSent {
				now, _ := live.Now(c.Context(), a, t, ap.Session)
				live.FreshenApproval(&ap, now)
			}
			return a.Print().Show(ap, func(p *core.Printer) { Show(p, ap, true) })
		},
	}
}

// whole reads the full request from a worker.
func whole(ctx context.Context, a *core.App, t *conn.Conn, ap protocol.Approval) (protocol.Approval, error) {
	if !ap.Truncated {
		return ap, nil
	}
	c, err := conn.WorkerFor(ctx, a, t, ap.Session)
	if err != nil {
		return ap, err
	}
	req, err := c.Request(ctx, ap.Session, ap.Digest)
	if err != nil {
		return ap, conn.APIFailure("show approval "+ap.ID, err)
	}
	return flows.InFull(ap, req), nil
}

type decideFlags struct{ reason, digest string }

func (f *decideFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&f.reason, "reason", "", "why, for the record")
	c.Flags().StringVar(&f.digest, "digest", "", "decide only if the request has this `digest`; needed where what is shown does not give it")
}

func (f *decideFlags) decide(approval, outcome string) protocol.Decide {
	return protocol.Decide{Approval: approval, Outcome: outcome, Reason: f.reason, Digest: f.digest}
}

const decideLong = `

Once the decision is recorded, ctl waits up to --timeout (10 s) for codex to
acknowledge it, prints the state reached, and exits 0 even if codex has not. With
--digest the decision holds only for what was seen. With no worker up the decision is
kept by Temporal, and counts as soon as one is. Where workers take signed commands
only, ctl judges it by the access file of its config (access, with authority: required).
Without that file its state is unjudged. ctl cannot judge decisions of API tokens.

ctl computes the digest from what it shows, and refuses (exit 6) if that gives another
one. It cannot check the digest if secrets are redacted, if the whole request cannot be
read, or if an earlier version asked. Then accept, answer and grant need --digest.`

func decideCommand(a *core.App, outcome, short string) *cobra.Command {
	var forSession, amend bool
	var f decideFlags
	c := &cobra.Command{
		Use: outcome + " ID", Short: short, Args: cobra.ExactArgs(1),
		Long:    strings.ToUpper(outcome[:1]) + outcome[1:] + "s an approval: " + short + "." + decideLong,
		Example: "  ctl approval " + outcome + " release-42.1 --reason 'looked at it'",
		RunE: func(c *cobra.Command, args []string) error {
			d := f.decide(args[0], outcome)
			switch {
			case forSession && amend:
				return core.Usage("--for-session and --amend: give one of them")
			case forSession:
				d.Scope = "session"
			case amend:
				d.Outcome = "amend"
			}
			return decide(c.Context(), a, d, nil)
		},
	}
	if outcome == "accept" {
		c.Flags().BoolVar(&forSession, "for-session", false, "also accept the same request later in this session")
		c.Flags().BoolVar(&amend, "amend", false, "also write the rule that 'ctl approval show' prints: codex no longer asks for what matches it, in any session of that codex home")
		c.Example += "\n  ctl approval accept release-42.2 --for-session"
	}
	f.add(c)
	return c
}

// A filling completes a decision. seen is nil if the request cannot be read now.
type filling func(ctx context.Context, t *conn.Conn, seen *protocol.Approval, d *protocol.Decide) error

func decide(ctx context.Context, a *core.App, d protocol.Decide, fill filling) error {
	if _, err := sessionOf(d.Approval); err != nil {
		return err
	}
	t, err := conn.Open(ctx, a)
	if err != nil {
		return err
	}
	word := func(ap protocol.Approval) string { // the person may have declined instead
		if ap.Decision != nil {
			return ap.Decision.Outcome
		}
		return d.Outcome
	}
	ap, err := carryOut(ctx, a, t, d, fill)
	if err != nil {
		return err
	}
	return a.Print().Show(ap, func(p *core.Printer) {
		p.Printf("%s %s: %s\n", ap.ID, word(ap), ap.State)
		if text := signedText(ap); text != "" {
			p.Printf("%s\n", core.Clean(text))
		}
	})
}

// carryOut checks a decision, signs it if that is asked for, sends it, and waits for the
// acknowledgement. Every decision goes through it.
func carryOut(ctx context.Context, a *core.App, t *conn.Conn, d protocol.Decide, fill filling) (none protocol.Approval, err error) {
	doing, began := d.Outcome+" approval "+d.Approval, time.Now()
	session, err := sessionOf(d.Approval)
	if err != nil {
		return none, err
	}
	// The feed must start before the decision, or ctl could miss the acknowledgement.
	msg := conn.Delivery{Doing: doing, Session: session, Name: protocol.SignalDecide, Again: true}
	seen, answered, err := msg.Look(ctx, t.Conn)
	var asked *protocol.Approval
	if err == nil {
		if ap, perr := conn.Pick(seen.Approvals, doing, d.Approval); perr == nil {
			asked = &ap
		} else if d.Digest == "" || fill != nil {
			return none, perr
		}
	}
	if d.Digest == "" && err != nil {
		return none, withDigestHint(err, d)
	}
	if asked != nil {
		if err := digestOf(ctx, a, t, doing, asked, &d); err != nil {
			return none, err
		}
	}
	if fill != nil {
		// Wrong answers must not hide that the approval is decided.
		if asked != nil {
			if err := conn.StillOpen(doing, *asked, d); err != nil {
				return none, err
			}
		}
		if err := fill(ctx, t, asked, &d); err != nil {
			return none, err
		}
		doing = d.Outcome + " approval " + d.Approval // the person may have declined
		msg.Doing = doing
	}
	var serr error
	if d.By, serr = t.By(ctx, doing); serr == nil {
		serr = sign(ctx, a, t, doing, asked, &d)
	}
	if serr != nil {
		return none, serr
	}
	msg.Msg, msg.Check = d, conn.Decidable(doing, d)
	fctx, stop := context.WithCancel(ctx)
	heard := live.StartFeed(fctx, a, t, session, seen.Seq+1)
	defer func() { stop(); <-heard.Done }()
	var ap protocol.Approval
	kept, err := msg.Send(ctx, t.Conn, seen, answered, err, &ap)
	if err != nil {
		return none, err
	}
	if kept {
		if ap, err = keptDecision(ctx, t, msg, seen, d); err != nil {
			return none, err
		}
	}
	ap = awaitAck(ctx, t, ap, heard, a.Wait(conn.AnswerWait)-time.Since(began))
	if err := conn.Ours(doing, ap, d); err != nil {
		return none, err
	}
	return ap, nil
}

// withDigestHint adds how to decide while the request cannot be read.
func withDigestHint(err error, d protocol.Decide) error {
	var e *core.Error
	if core.ExitCode(err) != core.ExitUnreachable || !errors.As(err, &e) {
		return err
	}
	return core.Unreachable("%s: the request cannot be read now, and a decision needs its digest", e.Message).
		Hinted("`ctl approval %s %s --digest DIGEST` leaves the decision for the next worker; whoever saw the request (`ctl approval show`, a program of yours) has its digest",
			d.Outcome, d.Approval).Because(err)
}

// keptDecision returns the approval with the decision that Temporal now keeps, as the next
// worker will judge it. It returns the refusal if that worker will refuse it.
func keptDecision(ctx context.Context, t *conn.Conn, msg conn.Delivery, seen protocol.SessionDetail, d protocol.Decide) (protocol.Approval, error) {
	ours := flows.DecidedBy(seen, msg.Session, d)
	now, _, err := msg.Look(ctx, t.Conn)
	if err != nil {
		return ours, nil // nobody can say yet
	}
	return judgedDecision(msg.Doing, seen, now, ours)
}

// judgedDecision returns the approval from what is seen after our decision.
func judgedDecision(doing string, seen, now protocol.SessionDetail, ours protocol.Approval) (protocol.Approval, error) {
	if ap, err := conn.Pick(now.Approvals, doing, ours.ID); err != nil || ap.Decision != nil {
		if err != nil {
			ap = ours
		}
		return ap, nil
	}
	if r := now.View.Refusals; len(r) > 0 && r[len(r)-1].Name == protocol.SignalDecide && !slices.Contains(seen.View.Refusals, r[len(r)-1]) {
		return ours, core.Refused("%s: workers will refuse it: %s", doing, r[len(r)-1].Reason).
			Hinted("ctl judged the decision by the access file of its config. Temporal keeps the decision, and the next worker judges it by its own access file. `ctl access why` says which right is missing")
	}
	return ours, nil
}

// awaitAck waits until codex has a decision, and returns the newest state. After a timeout
// the decision is still recorded. The workflow learns of the acknowledgement only when its
// pump returns, so the live feed counts, too.
func awaitAck(ctx context.Context, t *conn.Conn, ap protocol.Approval, heard *live.Feed, wait time.Duration) protocol.Approval {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	_, digits, _ := core.CutLast(ap.ID)
	n, _ := strconv.Atoi(digits) // cannot fail: the session made the id
	send := protocol.SendID(ap.Session, n)
	look := time.NewTicker(250 * time.Millisecond)
	defer look.Stop()
	for ap.State == protocol.ApprovalDecided || ap.State == protocol.ApprovalSent || ap.State == protocol.ApprovalUnjudged {
		select {
		case <-ctx.Done():
			return ap
		case ev := <-heard.Events:
			if ev.Kind == api.KindState && slices.Contains(ev.State.Acknowledged, send) {
				ap.State = protocol.ApprovalAcknowledged
			}
		case <-look.C:
			var list []protocol.Approval
			if err := t.Query(ctx, "look at approval "+ap.ID, protocol.SessionID(ap.Session), protocol.QueryApprovals, &list); err != nil {
				continue
			}
			if now, err := conn.Pick(list, "", ap.ID); err == nil && (now.Decision != nil || now.State == protocol.ApprovalVoid) {
				ap = now
			}
		}
	}
	return ap
}

// answerWhileOpen waits for a line typed after since, or for a key. It returns early if the
// approval is no longer open; then elsewhere says why.
func answerWhileOpen(ctx context.Context, a *core.App, t *conn.Conn, ap protocol.Approval, since time.Time, keys bool) (line, elsewhere string, err error) {
	look := time.NewTicker(500 * time.Millisecond)
	defer look.Stop()
	looking := false
	looked := make(chan string, 1)
	for {
		select {
		case <-ctx.Done():
			return "", "", context.Cause(ctx)
		case s, ok := <-a.Lines():
			if !ok {
				return "", "", core.NeedsPerson("approval %s is open and standard input has ended", ap.ID).
					Hinted("`ctl approval show %s`; the session goes on and waits", ap.ID)
			}
			if s.At.Before(since) || s.Key != keys {
				continue
			}
			if s.Key && s.Text == "^D" {
				return "", "", core.NeedsPerson("approval %s is open and standard input has ended", ap.ID).
					Hinted("`ctl approval show %s`; the session goes on and waits", ap.ID)
			}
			return s.Text, "", nil
		case elsewhere := <-looked:
			if looking = false; elsewhere != "" {
				return "", elsewhere, nil
			}
		case <-look.C:
			if !looking { // a slow query must not delay the person
				looking = true
				go func() { looked <- decidedElsewhere(ctx, t, ap) }()
			}
		}
	}
}

// decidedElsewhere says how an approval ended; "" if it is open.
func decidedElsewhere(ctx context.Context, t *conn.Conn, ap protocol.Approval) string {
	var list []protocol.Approval
	if _, err := t.AskEither(ctx, "look at approval "+ap.ID, protocol.SessionID(ap.Session), protocol.QueryApprovals, &list); err != nil {
		return "" // the next query tells
	}
	now, err := conn.Pick(list, "", ap.ID)
	switch {
	case err != nil || now.State == protocol.ApprovalOpen && now.Decision == nil:
		return ""
	case now.Decision != nil:
		return fmt.Sprintf("%s: %s by %s", ap.ID, now.Decision.Outcome, core.Clean(now.Decision.By))
	}
	return fmt.Sprintf("%s is %s: codex does not ask for it any more", ap.ID, now.State)
}

func watchCommand(a *core.App) *cobra.Command {
	var session string
	var plain bool
	c := &cobra.Command{
		Use: "watch", Short: "show approvals as they come, and decide them", Args: cobra.NoArgs,
		Long: `Shows open approvals in full screen, those that expire first at the top. For each it shows the
command or the diff, the host and folder, the model's claim, the time left, and the transcript
of the session. One key decides; ? shows the keys. q or ^C leaves; approvals stay open.

With --plain, or with FAIRLEAD_ACCESSIBLE=1, it prints each approval when it comes and asks
for a decision in a line. Without a terminal it prints approvals and does not ask.`,
		Example: "  ctl approval watch\n  ctl approval watch --plain --session release-42",
		RunE: func(c *cobra.Command, _ []string) error {
			t, err := conn.Open(c.Context(), a)
			if err != nil {
				return err
			}
			if session != "" {
				if err := core.CheckName("session id", session); err != nil {
					return err
				}
			}
			if !plain && a.Flags.Output != "json" && a.MayAsk() && core.IsTerminal(a.Out) && !core.Accessible() {
				return showInbox(c.Context(), a, t, session)
			}
			return watchApprovals(c.Context(), a, t, session)
		},
	}
	c.Flags().StringVar(&session, "session", "", "only this session's")
	c.Flags().BoolVar(&plain, "plain", false, "no full screen: print approvals and ask for each as it comes")
	return c
}

func watchApprovals(ctx context.Context, a *core.App, t *conn.Conn, session string) error {
	seen := map[string]bool{}
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	a.Note("watching; ^C ends it")
	for {
		list, err := t.Approvals(ctx, session, false, nil)
		if err != nil && core.ExitCode(err) != core.ExitUnreachable {
			return err
		}
		for _, ap := range list {
			if seen[ap.ID] {
				continue
			}
			seen[ap.ID] = true
			if a.Flags.Output != "json" && a.MayAsk() {
				again, err := DecideInline(ctx, a, t, ap)
				if err != nil {
					return err
				}
				seen[ap.ID] = !again
				continue
			}
			if err := a.Print().Show(ap, func(p *core.Printer) { Show(p, ap, false) }); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
}
