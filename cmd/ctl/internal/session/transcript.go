package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"fairlead.dev/fairlead/activities/records"
	"fairlead.dev/fairlead/cmd/ctl/internal/approval"
	"fairlead.dev/fairlead/cmd/ctl/internal/conn"
	"fairlead.dev/fairlead/cmd/ctl/internal/core"
	"fairlead.dev/fairlead/cmd/ctl/internal/live"
	"fairlead.dev/fairlead/cmd/ctl/internal/show"
	"fairlead.dev/fairlead/internal/api"
	"fairlead.dev/fairlead/internal/escape"
	"fairlead.dev/fairlead/internal/protocol"
)

var transcriptFormats = []string{"text", "json", "markdown", "chat"}

// TranscriptCommand is `ctl transcript`.
func TranscriptCommand(a *core.App) *cobra.Command {
	var format string
	var agents bool
	c := &cobra.Command{
		Use: "transcript ID", Short: "the whole conversation so far", Args: cobra.ExactArgs(1),
		Example: "  ctl transcript release-42 --format markdown > release-42.md",
		RunE: func(c *cobra.Command, args []string) error {
			if a.Flags.Output == "json" && !c.Flags().Changed("format") {
				format = "json"
			}
			if !slices.Contains(transcriptFormats, format) {
				return core.Usage("--format %q is not one of %s", format, strings.Join(transcriptFormats, ", "))
			}
			if agents && format != "chat" {
				return core.Usage("--sub-agents goes with --format chat; the other formats always have them")
			}
			return transcript(c.Context(), a, args[0], format, agents)
		},
	}
	c.Flags().StringVar(&format, "format", "text", "text, json, markdown or chat (messages with role, content, reasoning_content, tool_calls and tool results)")
	c.Flags().BoolVar(&agents, "sub-agents", false, "with --format chat, also the messages of sub-agents, after the session's own")
	return c
}

func transcript(ctx context.Context, a *core.App, id, format string, agents bool) error {
	doing := "read the transcript of session " + id
	if err := core.CheckName("session id", id); err != nil {
		return err
	}
	t, err := conn.Open(ctx, a)
	if err != nil {
		return err
	}
	// The store keeps transcripts longer than Temporal keeps closed sessions.
	_, gone := t.Kept(ctx, id)
	if gone != nil && core.ExitCode(gone) != core.ExitNotFound {
		return gone
	}
	worker, err := conn.WorkerFor(ctx, a, t, id)
	if err != nil && gone != nil {
		return core.Unreachable("%s: Temporal does not know the session, and no worker answers that could read its transcript from the store", doing).
			Hinted("`ctl status` shows what is up").Because(err)
	}
	if err != nil {
		return err
	}
	p := core.NewPrinter(a.Out, format == "json")
	n := 0
	var all []protocol.Entry // for formats that need all entries
	take := func(e protocol.Entry) error { all = append(all, e); return nil }
	if format == "json" {
		take = func(e protocol.Entry) error { return p.Show(e, nil) }
	}
	for e, err := range worker.Transcript(ctx, id, 1) {
		if err != nil {
			return conn.APIFailure(doing, err)
		}
		n++
		if err := take(e); err != nil {
			return core.Failed("%s: %v", doing, err)
		}
	}
	if n == 0 && gone == nil {
		whyNoTranscript(ctx, a, t, id)
	}
	switch format {
	case "text":
		r := &show.Renderer{P: p}
		for _, e := range records.TranscriptTree(all) {
			r.TreeEntry(e)
		}
	case "markdown":
		p.Exact(string(records.TranscriptMarkdown("Session "+id, all)))
	case "chat":
		p.Exact(string(escape.JSON(records.TranscriptChat(all, agents))))
	}
	return nil
}

func whyNoTranscript(ctx context.Context, a *core.App, t *conn.Conn, id string) {
	var v protocol.SessionView
	if t.Ask(ctx, "show session "+id, protocol.SessionID(id), protocol.QueryState, &v) != nil {
		return
	}
	if conn.HasEnded(v.State) {
		a.Note("session %s %s; it has no transcript", id, core.Clean(conn.EndText(v)))
		return
	}
	a.Note("session %s is %s; it has no transcript yet", id, v.State)
}

func followCommand(a *core.App) *cobra.Command {
	var from int64
	c := &cobra.Command{
		Use: "follow ID", Short: "watch a session live", Args: cobra.ExactArgs(1),
		Long: `Shows entries, text and the output of commands as they come, states and approvals; ends when the session
closes or on ^C. With -o json each line has an event: entry, delta, state, approval,
usage, progress (what the model reports, where it was given that tool), void.`,
		Example: "  ctl session follow release-42",
		RunE: func(c *cobra.Command, args []string) error {
			if from < 1 {
				return core.Usage("--from %d: entries are numbered from 1", from)
			}
			return followSession(c.Context(), a, args[0], from)
		},
	}
	c.Flags().Int64Var(&from, "from", 1, "begin at entry `SEQ`")
	return c
}

// Lines of `ctl session follow -o json`: flat objects that name their event.
type (
	entryLine struct {
		Event string `json:"event"`
		protocol.Entry
	}
	deltaLine struct {
		Event string `json:"event"`
		protocol.Delta
	}
	stateLine struct {
		Event string `json:"event"`
		protocol.SessionView
	}
	approvalLine struct {
		Event string `json:"event"`
		protocol.Approval
	}
	progressLine struct {
		Event string `json:"event"`
		protocol.ProgressView
	}
	voidLine struct {
		Event string `json:"event"`
		Void  int64  `json:"void"`
	}
)

func followSession(ctx context.Context, a *core.App, id string, from int64) error {
	if a.Flags.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, a.Flags.Timeout,
			core.TimedOut("follow session %s: it has not closed within %s", id, a.Flags.Timeout).Hinted("it goes on"))
		defer cancel()
	}
	t, err := conn.Open(ctx, a)
	if err != nil {
		return err
	}
	v, err := live.Session(ctx, a, t, id)
	if err != nil {
		return err
	}
	if _, err := conn.WorkerFor(ctx, a, t, id); err != nil {
		return err
	}
	fctx, stop := context.WithCancel(ctx)
	feed := live.StartFeed(fctx, a, t, id, from)
	defer func() { stop(); <-feed.Done }()
	p := a.Print()
	r := newShowing(a, p, false, false)
	defer r.close()
	say := func(v any, text func(*core.Printer)) error {
		if !p.JSON {
			r.endLine()
		}
		return p.Show(v, text)
	}
	var shown string
	asked := map[string]bool{}
	state := func(v protocol.SessionView) error {
		word := fmt.Sprintf("%s/%s", v.State, v.Waits)
		if word == shown {
			return nil
		}
		shown = word
		return say(stateLine{"state", v}, func(p *core.Printer) {
			if r.live != nil && v.State != protocol.Failed {
				return // the pane says it
			}
			if v.State == protocol.Failed {
				p.Printf("%s\n", p.Paint(core.Red, "· it "+core.Clean(conn.EndText(v))))
				return
			}
			p.Printf("%s\n", p.Paint(core.Dim, fmt.Sprintf("· %s, waits for %s", v.State, cmp.Or(v.Waits, "nothing"))))
		})
	}
	if err := state(v); err != nil {
		return err
	}
	told := ""
	used := func(s *protocol.SessionLive) error {
		if s == nil || s.Use == nil {
			return nil
		}
		line := show.LineOf(*s.Use)
		if text := line.Text(); text == "" || text == told {
			return nil
		} else {
			told = text
		}
		if r.live != nil {
			return nil // the pane says it
		}
		return say(line, func(p *core.Printer) { p.Printf("%s\n", p.Paint(core.Dim, told)) })
	}
	var further show.Renderer // of which only this is used
	reported := func(now *protocol.ProgressView) error {
		if !p.JSON {
			r.progress(now)
			return nil
		}
		if !further.Further(now) {
			return nil
		}
		return p.Show(progressLine{"progress", *now}, nil)
	}
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	var rest time.Time // when to query again
	for {
		select {
		case <-ctx.Done():
			r.endLine()
			return context.Cause(ctx)
		case <-feed.Done:
			r.endLine()
			if ctx.Err() != nil {
				return context.Cause(ctx) // ^C ends the feed as well
			}
			return nil
		case ev := <-feed.Events:
			if ev.Kind == api.KindState {
				if r.live != nil {
					r.event(ev)
				}
				if err := errors.Join(used(ev.State), reported(protocol.ViewOfProgress(ev.State.Progress))); err != nil {
					return err
				}
				continue
			}
			if !p.JSON {
				r.event(ev)
				continue
			}
			if err := showEvent(p, ev); err != nil {
				return err
			}
			continue
		case <-tick.C:
		}
		var d protocol.SessionDetail
		if time.Now().Before(rest) {
			continue
		}
		live, err := t.AskEither(ctx, "look at session "+id, protocol.SessionID(id), protocol.QueryDetail, &d)
		if !live {
			rest = time.Now().Add(2 * time.Second) // little changes without a worker
		}
		if err != nil {
			continue
		}
		r.detail(d, !live)
		if err := state(d.View); err != nil {
			return err
		}
		if err := reported(d.View.Progress); err != nil {
			return err
		}
		for _, ap := range conn.OpenApprovals(d) {
			if asked[ap.ID] {
				continue
			}
			asked[ap.ID] = true
			ap = approval.Checked(ap)
			if err := say(approvalLine{"approval", ap}, func(p *core.Printer) {
				if r.live != nil {
					approval.ShowCard(p, ap, d)
					return
				}
				approval.Show(p, ap, false)
			}); err != nil {
				return err
			}
		}
	}
}

func showEvent(p *core.Printer, ev api.Event) error {
	switch ev.Kind {
	case api.KindEntry:
		return p.Show(entryLine{ev.Kind, *ev.Entry}, nil)
	case api.KindDelta:
		return p.Show(deltaLine{ev.Kind, *ev.Delta}, nil)
	case api.KindVoid:
		return p.Show(voidLine{ev.Kind, ev.Void}, nil)
	}
	return nil
}
