package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"fairlead.dev/fairlead/internal/api"
	"fairlead.dev/fairlead/workflows"
)

func approvalCommand(a *app) *cobra.Command {
	return signing(a, group("approval", "what codex asks for and waits for",
		approvalListCommand(a), approvalShowCommand(a), approvalWatchCommand(a),
		approvalDecideCommand(a, "accept", "let codex do it"),
		approvalDecideCommand(a, "decline", "do not let codex do it; the turn goes on"),
		approvalDecideCommand(a, "cancel", "do not let codex do it, and end the turn"),
		approvalAnswerCommand(a), approvalGrantCommand(a)))
}

func approvalListCommand(a *app) *cobra.Command {
	var session string
	var all bool
	c := &cobra.Command{
		Use: "list", Short: "open approvals", Args: cobra.NoArgs, Example: "  ctl approval list -o json",
		RunE: func(c *cobra.Command, _ []string) error {
			t, err := a.temporal(c.Context())
			if err != nil {
				return err
			}
			list, err := a.approvals(c.Context(), t, session, all)
			if err != nil {
				return err
			}
			return showAll(a.print(), list, func(p *printer) {
				var rows [][]cell
				for _, ap := range list {
					rows = append(rows, []cell{painted(bold, ap.ID), plain(ap.Kind), painted(approvalColour(ap.State), string(ap.State)),
						plain(decidedText(ap)), plain(oneLine(ap.Summary, 60)), painted(yellow, earlierText(ap.Earlier)), plain(ap.CWD), plain(ap.AskedAt), expires(ap)})
				}
				p.table([]string{"ID", "KIND", "STATE", "DECIDED", "WHAT", "EARLIER", "IN", "ASKED", "EXPIRES"}, rows)
			})
		},
	}
	c.Flags().StringVar(&session, "session", "", "only this session's")
	c.Flags().BoolVar(&all, "all", false, "also those decided, expired or void")
	return c
}

// decidedText says how an approval was decided and by whom or by which rule.
func decidedText(ap workflows.Approval) string {
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
	return oneLine(text, 60)
}

// expires returns the expiry of an open approval. For other approvals it is empty.
func expires(ap workflows.Approval) cell {
	if ap.State != workflows.ApprovalOpen {
		return plain("")
	}
	return plain(ap.ExpiresAt)
}

func approvalColour(s workflows.ApprovalState) style {
	switch s {
	case workflows.ApprovalOpen:
		return yellow
	case workflows.ApprovalAcknowledged:
		return green
	case workflows.ApprovalExpired, workflows.ApprovalVoid:
		return dim
	}
	return ""
}

// approvals collects the approvals of one session, or of all sessions with open ones.
func (a *app) approvals(ctx context.Context, t *temporal, session string, all bool) ([]workflows.Approval, error) {
	var ids []string
	if session != "" {
		if err := checkName("session id", session); err != nil {
			return nil, err
		}
		ids = []string{session}
	} else {
		query := fmt.Sprintf("WorkflowType = '%s' AND ExecutionStatus = 'Running'", workflows.TypeSession)
		if !all {
			query += " AND FairleadApprovals > 0"
		}
		infos, err := t.list(ctx, "list approvals", query, 1000)
		if err != nil {
			return nil, err
		}
		for _, info := range infos {
			ids = append(ids, strings.TrimPrefix(info.GetExecution().GetWorkflowId(), "session/"))
		}
	}
	list, silent := []workflows.Approval{}, 0
	for _, id := range ids {
		var some []workflows.Approval
		err := t.ask(ctx, "list approvals of session "+id, workflows.SessionID(id), workflows.QueryApprovals, &some)
		if session == "" && exitOf(err) == exitUnreachable && ctx.Err() == nil && err != nil && silent < len(ids)-1 {
			silent++ // one silent session must not hide the others
			a.note("session %s does not answer just now: its approvals are not shown", id)
			continue
		}
		if err != nil {
			return nil, err
		}
		for _, ap := range some {
			if all || ap.State == workflows.ApprovalOpen {
				list = append(list, ap)
			}
		}
	}
	return list, nil
}

// approval returns the approval with this id.
func (a *app) approval(ctx context.Context, t *temporal, doing, id string) (workflows.Approval, error) {
	session, err := sessionOf(id)
	if err != nil {
		return workflows.Approval{}, err
	}
	var list []workflows.Approval
	if err := t.ask(ctx, doing, workflows.SessionID(session), workflows.QueryApprovals, &list); err != nil {
		return workflows.Approval{}, err
	}
	return pick(list, doing, id)
}

func pick(list []workflows.Approval, doing, id string) (workflows.Approval, error) {
	for _, ap := range list {
		if ap.ID == id {
			return ap, nil
		}
	}
	session, _, _ := cutLast(id)
	return workflows.Approval{}, notFound("%s: session %s has no such approval at hand", doing, session).
		hinted("`ctl approval list --all --session %s`; older ones are in the transcript", session)
}

func cutLast(id string) (session, n string, ok bool) {
	i := strings.LastIndexByte(id, '.')
	if i < 1 || i == len(id)-1 || strings.Trim(id[i+1:], "0123456789") != "" {
		return "", "", false
	}
	return id[:i], id[i+1:], true
}

// sessionOf returns the session part of an approval id (<session>.<n>).
func sessionOf(id string) (string, error) {
	session, _, ok := cutLast(id)
	if !ok {
		return "", usage("%q is not the id of an approval", id).hinted("it looks like SESSION.N; `ctl approval list` shows them")
	}
	return session, checkName("session id", session)
}

func approvalShowCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "show ID", Short: "the whole of what codex asks for", Args: cobra.ExactArgs(1), Example: "  ctl approval show release-42.1",
		RunE: func(c *cobra.Command, args []string) error {
			t, err := a.temporal(c.Context())
			if err != nil {
				return err
			}
			ap, err := a.approval(c.Context(), t, "show approval "+args[0], args[0])
			if err != nil {
				return err
			}
			if ap, err = a.whole(c.Context(), t, ap); err != nil {
				return err
			}
			if ap.State == workflows.ApprovalDecided || ap.State == workflows.ApprovalSent {
				live, _ := a.live(c.Context(), t, ap.Session)
				freshenApproval(&ap, live)
			}
			return a.print().show(ap, func(p *printer) { showApproval(p, ap, true) })
		},
	}
}

// whole replaces the excerpts that the workflow holds with the full request, read from a
// worker.
func (a *app) whole(ctx context.Context, t *temporal, ap workflows.Approval) (workflows.Approval, error) {
	if !ap.Truncated {
		return ap, nil
	}
	c, err := a.workerFor(ctx, t, ap.Session)
	if err != nil {
		return ap, err
	}
	req, err := c.Request(ctx, ap.Session, ap.Digest)
	if err != nil {
		return ap, apiFailure("show approval "+ap.ID, err)
	}
	ap.Command, ap.CWD, ap.Reason, ap.Summary = req.Command, req.CWD, req.Reason, req.Summary
	ap.Changes, ap.Truncated = req.Changes, false
	ap.Network, ap.Permissions, ap.URL, ap.Server, ap.Tool, ap.Amendment = req.Network, req.Permissions, req.URL, req.Server, req.Tool, req.Amendment
	ap.Args, ap.GrantRoot = req.Args, req.GrantRoot
	if req.Questions != nil {
		ap.Questions = req.Questions
	}
	return ap, nil
}

// decideFlags are the flags of every command that decides an approval.
type decideFlags struct{ reason, digest string }

func (f *decideFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&f.reason, "reason", "", "why, for the record")
	c.Flags().StringVar(&f.digest, "digest", "", "decide only if this is what is asked")
}

func (f *decideFlags) decide(approval, outcome string) workflows.Decide {
	return workflows.Decide{Approval: approval, Outcome: outcome, Reason: f.reason, By: person(), Digest: f.digest}
}

// decideLong ends the help text of every command that decides an approval.
const decideLong = `

Recorded is done: ctl exits 0. It then waits up to --timeout (10 s) for codex to
acknowledge and prints the state reached. With --digest the decision holds only for
what was seen. With no worker up the decision is kept by Temporal, and counts as soon
as one is.`

func approvalDecideCommand(a *app, outcome, short string) *cobra.Command {
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
				return usage("--for-session and --amend: give one of them")
			case forSession:
				d.Scope = "session"
			case amend:
				d.Outcome = "amend"
			}
			return a.decide(c.Context(), d, nil)
		},
	}
	if outcome == "accept" {
		c.Flags().BoolVar(&forSession, "for-session", false, "also the same ask later in this session")
		c.Flags().BoolVar(&amend, "amend", false, "also write the rule that 'ctl approval show' names: what begins like it is asked no more, in every session of that codex home")
		c.Example += "\n  ctl approval accept release-42.2 --for-session"
	}
	f.add(c)
	return c
}

// A filling completes a decision, for example with answers. seen is nil if the request
// cannot be read at the moment.
type filling func(ctx context.Context, t *temporal, seen *workflows.Approval, d *workflows.Decide) error

func (a *app) decide(ctx context.Context, d workflows.Decide, fill filling) error {
	doing, began := d.Outcome+" approval "+d.Approval, time.Now()
	session, err := sessionOf(d.Approval)
	if err != nil {
		return err
	}
	t, err := a.temporal(ctx)
	if err != nil {
		return err
	}
	// Read the session first: to see codex's acknowledgement, the feed must start at an
	// entry from before the decision.
	msg := delivery{doing: doing, session: session, name: workflows.SignalDecide, again: true}
	seen, live, err := msg.look(ctx, t)
	var asked *workflows.Approval
	if err == nil {
		if ap, perr := pick(seen.Approvals, doing, d.Approval); perr == nil {
			asked = &ap
		} else if d.Digest == "" || fill != nil {
			return perr
		}
	}
	if d.Digest == "" {
		if err != nil {
			return withDigestHint(err, d)
		}
		d.Digest = asked.Digest
	}
	if fill != nil {
		// An approval that is already decided is reported as such, even if the answers are
		// wrong.
		if asked != nil {
			if err := stillOpen(doing, *asked, d); err != nil {
				return err
			}
		}
		if err := fill(ctx, t, asked, &d); err != nil {
			return err
		}
		doing = d.Outcome + " approval " + d.Approval // the person asked for answers may have declined instead
		msg.doing = doing
	}
	if err := a.sign(ctx, t, doing, asked, &d); err != nil {
		return err
	}
	msg.msg, msg.check = d, decidable(doing, d)
	fctx, stop := context.WithCancel(ctx)
	heard := a.startFeed(fctx, t, session, seen.Seq+1)
	defer func() { stop(); <-heard.done }()
	var ap workflows.Approval
	kept, err := msg.send(ctx, t, seen, live, err, &ap)
	if err != nil {
		return err
	}
	if kept {
		ap = decidedByUs(seen, session, d)
	}
	ap = a.awaitAck(ctx, t, ap, heard, a.wait(answerWait)-time.Since(began))
	if err := ours(doing, ap, d); err != nil {
		return err
	}
	return a.print().show(ap, func(p *printer) {
		p.printf("%s %s: %s\n", ap.ID, d.Outcome, ap.State)
		if text := signedText(ap); text != "" {
			p.printf("%s\n", clean(text))
		}
	})
}

// withDigestHint adds how to decide while the request cannot be read.
func withDigestHint(err error, d workflows.Decide) error {
	var e *exitError
	if exitOf(err) != exitUnreachable || !errors.As(err, &e) {
		return err
	}
	return unreachable("%s: what was asked cannot be told just now, and a decision names its digest", e.message).
		hinted("`ctl approval %s %s --digest DIGEST` leaves the decision for the next worker; whoever saw the request (`ctl approval show`, a program of yours) has its digest",
			d.Outcome, d.Approval).because(err)
}

// decidedByUs returns the approval as it will be once a worker has taken the decision.
func decidedByUs(seen workflows.SessionDetail, session string, d workflows.Decide) workflows.Approval {
	ap, err := pick(seen.Approvals, "", d.Approval)
	if err != nil {
		ap = workflows.Approval{ID: d.Approval, Session: session, Digest: d.Digest}
	}
	ap.State = workflows.ApprovalDecided
	ap.Decision = &workflows.Decision{Outcome: d.Outcome, By: d.By, Reason: d.Reason, Scope: cmp.Or(d.Scope, "once"), At: time.Now().UTC(),
		AnswersBlob: d.AnswersBlob, Grant: d.Grant}
	if d.Answers != nil {
		_ = json.Unmarshal(d.Answers, &ap.Decision.Answers) // cannot fail: setAnswers made this JSON
	}
	return ap
}

// awaitAck waits until codex has a decision, and returns the newest state. A timeout is not
// an error, because the decision is recorded. It also listens to the live feed: the session
// workflow learns of the acknowledgement only when its pump returns.
func (a *app) awaitAck(ctx context.Context, t *temporal, ap workflows.Approval, heard *feed, wait time.Duration) workflows.Approval {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	_, digits, _ := cutLast(ap.ID)
	n, _ := strconv.Atoi(digits) // cannot fail: the session made the id
	send := workflows.SendID(ap.Session, n)
	look := time.NewTicker(250 * time.Millisecond)
	defer look.Stop()
	for ap.State == workflows.ApprovalDecided || ap.State == workflows.ApprovalSent {
		select {
		case <-ctx.Done():
			return ap
		case ev := <-heard.events:
			if ev.Kind == api.KindState && slices.Contains(ev.State.Acknowledged, send) {
				ap.State = workflows.ApprovalAcknowledged
			}
		case <-look.C:
			var list []workflows.Approval
			if err := t.query(ctx, "look at approval "+ap.ID, workflows.SessionID(ap.Session), workflows.QueryApprovals, &list); err != nil {
				continue // no worker yet
			}
			if now, err := pick(list, "", ap.ID); err == nil && (now.Decision != nil || now.State == workflows.ApprovalVoid) {
				ap = now
			}
		}
	}
	return ap
}

// answerWhileOpen waits for a line typed after since. It returns early, with the reason in
// elsewhere, if somebody else decides the approval, if it expires, or if codex withdraws
// it.
func (a *app) answerWhileOpen(ctx context.Context, t *temporal, ap workflows.Approval, since time.Time) (line, elsewhere string, err error) {
	look := time.NewTicker(500 * time.Millisecond)
	defer look.Stop()
	looking := false
	looked := make(chan string, 1)
	for {
		select {
		case <-ctx.Done():
			return "", "", context.Cause(ctx)
		case s, ok := <-a.lines():
			if !ok {
				return "", "", needsPerson("approval %s is open and standard input has ended", ap.ID).
					hinted("`ctl approval show %s`; the session goes on and waits", ap.ID)
			}
			if s.at.Before(since) {
				continue
			}
			return s.text, "", nil
		case elsewhere := <-looked:
			if looking = false; elsewhere != "" {
				return "", elsewhere, nil
			}
		case <-look.C:
			if !looking { // in the background, so that a slow query does not delay the person
				looking = true
				go func() { looked <- a.elsewhere(ctx, t, ap) }()
			}
		}
	}
}

// elsewhere says what became of an approval that is no longer open. For an open one it
// returns "".
func (a *app) elsewhere(ctx context.Context, t *temporal, ap workflows.Approval) string {
	var list []workflows.Approval
	if _, err := t.askEither(ctx, "look at approval "+ap.ID, workflows.SessionID(ap.Session), workflows.QueryApprovals, &list); err != nil {
		return "" // the next query will tell
	}
	now, err := pick(list, "", ap.ID)
	switch {
	case err != nil || now.State == workflows.ApprovalOpen && now.Decision == nil:
		return ""
	case now.Decision != nil:
		return fmt.Sprintf("%s: %s by %s", ap.ID, now.Decision.Outcome, clean(now.Decision.By))
	}
	return fmt.Sprintf("%s is %s: codex does not ask for it any more", ap.ID, now.State)
}

func approvalWatchCommand(a *app) *cobra.Command {
	var session string
	c := &cobra.Command{
		Use: "watch", Short: "show approvals as they come, and decide them", Args: cobra.NoArgs,
		Long:    "Shows open approvals as they come and asks for each at the terminal. Ends on ^C.",
		Example: "  ctl approval watch",
		RunE: func(c *cobra.Command, _ []string) error {
			t, err := a.temporal(c.Context())
			if err != nil {
				return err
			}
			return a.watchApprovals(c.Context(), t, session)
		},
	}
	c.Flags().StringVar(&session, "session", "", "only this session's")
	return c
}

func (a *app) watchApprovals(ctx context.Context, t *temporal, session string) error {
	seen := map[string]bool{}
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	a.note("watching; ^C ends it")
	for {
		list, err := a.approvals(ctx, t, session, false)
		if err != nil && exitOf(err) != exitUnreachable {
			return err
		}
		for _, ap := range list {
			if seen[ap.ID] {
				continue
			}
			seen[ap.ID] = true
			if a.flags.output != "json" && a.mayAsk() {
				again, err := a.decideInline(ctx, t, ap)
				if err != nil {
					return err
				}
				seen[ap.ID] = !again
				continue
			}
			if err := a.print().show(ap, func(p *printer) { showApproval(p, ap, false) }); err != nil {
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
