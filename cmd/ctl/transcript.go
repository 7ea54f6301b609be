package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"fairlead.dev/fairlead/activities"
	"fairlead.dev/fairlead/internal/api"
	"fairlead.dev/fairlead/workflows"
)

var transcriptFormats = []string{"text", "json", "markdown", "chat"}

func transcriptCommand(a *app) *cobra.Command {
	var format string
	c := &cobra.Command{
		Use: "transcript ID", Short: "the whole conversation so far", Args: cobra.ExactArgs(1),
		Example: "  ctl transcript release-42 --format markdown > release-42.md",
		RunE: func(c *cobra.Command, args []string) error {
			if a.flags.output == "json" && !c.Flags().Changed("format") {
				format = "json"
			}
			if !slices.Contains(transcriptFormats, format) {
				return usage("--format %q is none of %s", format, strings.Join(transcriptFormats, ", "))
			}
			return a.transcript(c.Context(), args[0], format)
		},
	}
	c.Flags().StringVar(&format, "format", "text", "text, json, markdown or chat (messages with role, content, tool_calls and tool results)")
	return c
}

func (a *app) transcript(ctx context.Context, id, format string) error {
	doing := "read the transcript of session " + id
	if err := checkName("session id", id); err != nil {
		return err
	}
	t, err := a.temporal(ctx)
	if err != nil {
		return err
	}
	// Temporal deletes closed sessions after a while. The store keeps their transcripts.
	_, gone := t.kept(ctx, id)
	if gone != nil && exitOf(gone) != exitNotFound {
		return gone
	}
	worker, err := a.workerFor(ctx, t, id)
	if err != nil && gone != nil {
		return unreachable("%s: Temporal knows none (any more), and no worker answers that could look into the store", doing).
			hinted("`ctl status` shows what is up").because(err)
	}
	if err != nil {
		return err
	}
	p := newPrinter(a.out, format == "json")
	show := func(e activities.Entry) error {
		r := &renderer{p: p}
		return p.show(e, func(*printer) { r.entry(e) })
	}
	n := 0
	var all []activities.Entry // for formats that need all entries at once
	if format == "markdown" || format == "chat" {
		show = func(e activities.Entry) error { all = append(all, e); return nil }
	}
	for e, err := range worker.Transcript(ctx, id, 1) {
		if err != nil {
			return apiFailure(doing, err)
		}
		n++
		if err := show(e); err != nil {
			return failed("%s: %v", doing, err)
		}
	}
	if n == 0 && gone == nil {
		a.whyNoTranscript(ctx, t, id)
	}
	switch format {
	case "markdown":
		p.printf("%s", activities.TranscriptMarkdown("Session "+id, all))
	case "chat":
		p.printf("%s", activities.TranscriptChat(all))
	}
	return nil
}

// whyNoTranscript says why a transcript is empty, if that is known.
func (a *app) whyNoTranscript(ctx context.Context, t *temporal, id string) {
	var v workflows.SessionView
	if t.ask(ctx, "show session "+id, workflows.SessionID(id), workflows.QueryState, &v) != nil {
		return
	}
	if hasEnded(v.State) {
		a.note("session %s %s; it has no transcript", id, clean(endText(v)))
		return
	}
	a.note("session %s is %s; it has no transcript yet", id, v.State)
}

func sessionFollowCommand(a *app) *cobra.Command {
	var from int64
	c := &cobra.Command{
		Use: "follow ID", Short: "watch a session live", Args: cobra.ExactArgs(1),
		Long: `Shows entries and text as they come, states and approvals; ends when the session
closes or on ^C. With -o json each line has an event: entry, delta, state, approval,
usage, progress (what the model reports, where it was given that tool), void.`,
		Example: "  ctl session follow release-42",
		RunE: func(c *cobra.Command, args []string) error {
			if from < 1 {
				return usage("--from %d: entries are numbered from 1", from)
			}
			return a.followSession(c.Context(), args[0], from)
		},
	}
	c.Flags().Int64Var(&from, "from", 1, "begin at entry `SEQ`")
	return c
}

// Lines of `ctl session follow -o json`: each is a flat object that names its event.
type (
	entryLine struct {
		Event string `json:"event"`
		activities.Entry
	}
	deltaLine struct {
		Event string `json:"event"`
		activities.Delta
	}
	stateLine struct {
		Event string `json:"event"`
		workflows.SessionView
	}
	approvalLine struct {
		Event string `json:"event"`
		workflows.Approval
	}
	progressLine struct {
		Event string `json:"event"`
		workflows.ProgressView
	}
	voidLine struct {
		Event string `json:"event"`
		Void  int64  `json:"void"`
	}
)

func (a *app) followSession(ctx context.Context, id string, from int64) error {
	if a.flags.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, a.flags.timeout,
			timedOut("follow session %s: it has not closed within %s", id, a.flags.timeout).hinted("it goes on"))
		defer cancel()
	}
	t, err := a.temporal(ctx)
	if err != nil {
		return err
	}
	v, err := a.session(ctx, t, id)
	if err != nil {
		return err
	}
	if _, err := a.workerFor(ctx, t, id); err != nil {
		return err
	}
	fctx, stop := context.WithCancel(ctx)
	feed := a.startFeed(fctx, t, id, from)
	defer func() { stop(); <-feed.done }()
	p := a.print()
	r := &renderer{p: p}
	say := func(v any, text func(*printer)) error {
		if !p.json {
			r.endLine()
		}
		return p.show(v, text)
	}
	var shown string
	asked := map[string]bool{}
	state := func(v workflows.SessionView) error {
		word := fmt.Sprintf("%s/%s", v.State, v.Waits)
		if word == shown {
			return nil
		}
		shown = word
		return say(stateLine{"state", v}, func(p *printer) {
			if v.State == workflows.Failed {
				p.printf("%s\n", p.paint(red, "· it "+clean(endText(v))))
				return
			}
			p.printf("%s\n", p.paint(dim, fmt.Sprintf("· %s, waits for %s", v.State, cmp.Or(v.Waits, "nothing"))))
		})
	}
	if err := state(v); err != nil {
		return err
	}
	told := ""
	used := func(s *activities.SessionLive) error {
		if s == nil || s.Use == nil {
			return nil
		}
		line := lineOf(*s.Use)
		if text := line.text(); text == "" || text == told {
			return nil
		} else {
			told = text
		}
		return say(line, func(p *printer) { p.printf("%s\n", p.paint(dim, told)) })
	}
	reported := func(now *workflows.ProgressView) error {
		if !p.json {
			r.progress(now)
			return nil
		}
		if !r.further(now) {
			return nil
		}
		return p.show(progressLine{"progress", *now}, nil)
	}
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	var rest time.Time // when to query the session again
	for {
		select {
		case <-ctx.Done():
			r.endLine()
			return context.Cause(ctx)
		case <-feed.done:
			r.endLine()
			if ctx.Err() != nil {
				return context.Cause(ctx) // ^C ends the feed as well
			}
			return nil
		case ev := <-feed.events:
			if ev.Kind == api.KindState {
				if err := errors.Join(used(ev.State), reported(workflows.ViewOfProgress(ev.State.Progress))); err != nil {
					return err
				}
				continue
			}
			if !p.json {
				r.event(ev)
				continue
			}
			if err := showEvent(p, ev); err != nil {
				return err
			}
			continue
		case <-tick.C:
		}
		var d workflows.SessionDetail
		if time.Now().Before(rest) {
			continue
		}
		live, err := t.askEither(ctx, "look at session "+id, workflows.SessionID(id), workflows.QueryDetail, &d)
		if !live {
			rest = time.Now().Add(2 * time.Second) // little changes without a worker
		}
		if err != nil {
			continue // the next query may succeed
		}
		if err := state(d.View); err != nil {
			return err
		}
		if err := reported(d.View.Progress); err != nil {
			return err
		}
		for _, ap := range openApprovals(d) {
			if asked[ap.ID] {
				continue
			}
			asked[ap.ID] = true
			if err := say(approvalLine{"approval", ap}, func(p *printer) { showApproval(p, ap, false) }); err != nil {
				return err
			}
		}
	}
}

func showEvent(p *printer, ev api.Event) error {
	switch ev.Kind {
	case api.KindEntry:
		return p.show(entryLine{ev.Kind, *ev.Entry}, nil)
	case api.KindDelta:
		return p.show(deltaLine{ev.Kind, *ev.Delta}, nil)
	case api.KindVoid:
		return p.show(voidLine{ev.Kind, ev.Void}, nil)
	}
	return nil
}
