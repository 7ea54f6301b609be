package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/chromedp/chromedp"

	"fairlead.dev/fairlead/internal/lab"
	"fairlead.dev/fairlead/internal/protocol"
)

// measureTranscript opens the page of a session with a long transcript in Chromium, and looks at the
// page's frames while the session streams.
func measureTranscript(ctx context.Context, o *options) (err error) {
	const rate, long, opened = 60, 20 * time.Second, 5
	c, err := startCrowd(ctx, o, 1)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close(context.WithoutCancel(ctx))) }()
	if err := c.gather(ctx, "say 1", protocol.Idle); err != nil {
		return err
	}
	id := c.ids[0]
	if err := c.says(ctx, id, "fill", strings.Repeat("say 8\n", o.entries)); err != nil {
		return err
	}
	if err := c.turns(ctx, id, 2); err != nil {
		return err
	}
	d, err := c.detail(ctx, id)
	if err != nil {
		return err
	}
	if d.Seq < int64(o.entries) {
		return fmt.Errorf("the transcript has %d entries of %d", d.Seq, o.entries)
	}
	tab, base, stop, err := c.browse(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	var loaded series
	for range opened + 1 {
		if err := chromedp.Do(tab, chromedp.Navigate(base+"/sessions/"+id), chromedp.WaitVisible(".entry")); err != nil {
			return err
		}
		ms, err := chromedp.Run(tab, chromedp.EvaluateAsDevTools[float64](`performance.getEntriesByType("navigation")[0].loadEventEnd`))
		if err != nil {
			return err
		}
		loaded = append(loaded, time.Duration(ms*float64(time.Millisecond)))
	}
	loaded = loaded[1:] // the first one fetched the style sheet
	// The page must follow before the stream begins.
	watch := `window.gaps = []; window.grown = 0; (() => { let last = performance.now(), text = ""; const f = () => { const now = performance.now(); gaps.push(now - last); last = now; ` +
		`const r = document.querySelector("[data-running]"); if (!r.hidden && r.textContent !== text) { text = r.textContent; grown++; } requestAnimationFrame(f); }; requestAnimationFrame(f); })(); true`
	if _, err := chromedp.Run(tab, chromedp.EvaluateAsDevTools[bool](watch)); err != nil {
		return err
	}
	if err := c.says(ctx, id, "stream", fmt.Sprintf("stream %d/s for %v", rate, long)); err != nil {
		return err
	}
	err = lab.Until(ctx, "the page to follow", func() (bool, error) {
		return chromedp.Run(tab, chromedp.EvaluateAsDevTools[bool](`grown > 10`))
	})
	if err != nil {
		return err
	}
	if _, err := chromedp.Run(tab, chromedp.EvaluateAsDevTools[bool](`(gaps = [], grown = 0, true)`)); err != nil {
		return err
	}
	select {
	case <-time.After(long / 2):
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	got, err := chromedp.Run(tab, chromedp.EvaluateAsDevTools[[]float64](`[gaps.length, grown, Math.max(...gaps), gaps.filter(g => g > 100).length]`))
	if err != nil {
		return err
	}
	loaded.against(fmt.Sprintf("a transcript of %d entries, until its page is loaded", o.entries), 500*time.Millisecond)
	verdict := "reached"
	if got[2] > 100 {
		verdict = "missed"
	}
	fmt.Printf("  %d events a second on that page for %v: %.0f frames, the text grew in %.0f of them; longest gap %.0f ms, %.0f above 100 ms, goal 0: %s\n", rate, long/2, got[0], got[1], got[2], got[3], verdict)
	fmt.Printf("  load average                                   %s\n", loadAverage())
	return c.turns(ctx, id, 3)
}

// says sends a message to a session.
func (f *fleet) says(ctx context.Context, id, message, text string) error {
	return f.c.SignalWorkflow(ctx, protocol.SessionID(id), "", protocol.SignalMessage, protocol.Message{ID: message + "-" + id, Text: text, By: "bench"})
}

// turns waits until a session has ended so many turns.
func (f *fleet) turns(ctx context.Context, id string, n int) error {
	ctx, cancel := context.WithTimeout(ctx, 15*time.Minute)
	defer cancel()
	return lab.Until(ctx, fmt.Sprintf("the end of turn %d of %s", n, id), func() (bool, error) {
		d, err := f.detail(ctx, id)
		return err == nil && d.View.State == protocol.Idle && len(d.Turns) > 0 && d.Turns[len(d.Turns)-1].N >= n && d.Turns[len(d.Turns)-1].Done(), err
	})
}
