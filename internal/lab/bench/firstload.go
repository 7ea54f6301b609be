package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"

	"fairlead.dev/fairlead/internal/lab"
	"fairlead.dev/fairlead/internal/lab/browser"
	"fairlead.dev/fairlead/internal/protocol"
)

// browse starts Chromium, logged in at the console. base is the console's address.
func (f *fleet) browse(ctx context.Context) (tab context.Context, base string, stop func() error, err error) {
	link, err := f.lab.Out(ctx, "ui", "--no-browser")
	if err != nil {
		return nil, "", nil, err
	}
	link = strings.TrimSpace(link)
	profile, err := os.MkdirTemp("/var/tmp", "fairlead-browser-")
	if err != nil {
		return nil, "", nil, err
	}
	tab, end, err := browser.Start(ctx, profile)
	if err != nil {
		return nil, "", nil, errors.Join(err, os.RemoveAll(profile))
	}
	stop = func() error {
		end()
		return os.RemoveAll(profile)
	}
	if err := chromedp.Do(tab, chromedp.Navigate(link)); err != nil {
		return nil, "", nil, errors.Join(err, stop())
	}
	base, _, _ = strings.Cut(link, "/login")
	return tab, base, stop, nil
}

// What a page says of its own load: milliseconds until it was usable, bytes over the wire, the cards
// that wait, shown or not, the most requests for one kind of file, and milliseconds until the server
// had answered: it sends the beginning of the page before it has the cards.
const loadOfPage = `(() => {
	const page = performance.getEntriesByType("navigation")[0], parts = performance.getEntriesByType("resource").filter(r => !r.name.includes("/live"));
	const kinds = {};
	for (const p of parts) { const kind = p.name.split("?")[0].split(".").pop(); kinds[kind] = (kinds[kind] || 0) + 1; }
	return [page.loadEventEnd, page.transferSize + parts.reduce((sum, p) => sum + p.transferSize, 0), parseInt(document.querySelector("[data-part=count]").textContent) || 0, Math.max(0, ...Object.values(kinds)), page.responseEnd];
})()`

// measureInbox opens the inbox with many cards in Chromium, which has nothing of it yet.
func measureInbox(ctx context.Context, o *options) (err error) {
	const sessions, opened = 10, 40
	c, err := startCrowd(ctx, o, sessions)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close(context.WithoutCancel(ctx))) }()
	of := max(o.cards/sessions, 1)
	if err := c.gather(ctx, fmt.Sprintf("asks %d", of), protocol.Waiting); err != nil {
		return err
	}
	select { // what the sessions and their host do at the beginning of a wait is no part of it
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(o.rest):
	}
	tab, base, stop, err := c.browse(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	if _, err := chromedp.Call(tab, network.SetCacheDisabled, network.SetCacheDisabledParams{CacheDisabled: true}); err != nil {
		return err
	}
	load := func() ([]float64, error) {
		if err := chromedp.Do(tab, chromedp.Navigate(base+"/")); err != nil {
			return nil, err
		}
		var got []float64
		err := lab.Until(ctx, "the end of the load", func() (bool, error) {
			var err error
			got, err = chromedp.Run(tab, chromedp.EvaluateAsDevTools[[]float64](loadOfPage))
			return err == nil && len(got) == 5 && got[0] > 0, err
		})
		return got, err
	}
	err = lab.Until(ctx, "all cards", func() (bool, error) {
		got, err := load()
		return err == nil && int(got[2]) == of*sessions, err
	})
	if err != nil {
		return err
	}
	var usable, answered series
	var bytes, most float64
	for range opened {
		got, err := load()
		if err != nil {
			return err
		}
		usable = append(usable, time.Duration(got[0]*float64(time.Millisecond)))
		answered = append(answered, time.Duration(got[4]*float64(time.Millisecond)))
		bytes, most = max(bytes, got[1]), max(most, got[3])
	}
	usable.against(fmt.Sprintf("an inbox of %d cards, opened anew, until it is usable", of*sessions), 300*time.Millisecond)
	fmt.Printf("  of it, until the server had answered            p50 %v\n", answered.at(0.5).Round(time.Millisecond))
	verdict := "reached"
	if bytes > 120_000 || most > 1 {
		verdict = "missed"
	}
	fmt.Printf("  over the wire                                  %.0f KB, at most %.0f requests for a kind of file, goal ≤ 120 KB and 1: %s\n", bytes/1000, most, verdict)
	fmt.Printf("  load average                                   %s\n", loadAverage())
	return nil
}
