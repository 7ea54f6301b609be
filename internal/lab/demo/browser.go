package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/chromedp/chromedp"

	"fairlead.dev/fairlead/internal/lab"
	"fairlead.dev/fairlead/internal/lab/browser"
)

// decideInBrowser waits for an approval, and accepts it as bob in the console: a real browser opens
// the link that `ctl ui` prints, and presses the button of the card.
func decideInBrowser(ctx context.Context, l *lab.Lab, id, kind, reason string) (err error) {
	a, err := asked(ctx, l, id, kind)
	if err != nil {
		return err
	}
	r := asBob(ctx, l, "ui", "--no-browser")
	if r.Code != 0 {
		return r
	}
	link := strings.TrimSpace(r.Stdout)
	fmt.Printf("  [bob] $ ctl ui\n  [bob] %s\n", link)
	profile, err := os.MkdirTemp("/var/tmp", "fairlead-browser-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(profile)) }()
	ctx, stop, err := browser.Start(ctx, profile)
	if err != nil {
		return err
	}
	defer stop()
	card := `[id="card-` + id + `"]`
	if err := chromedp.Do(ctx, chromedp.Navigate(link), chromedp.WaitVisible(card)); err != nil {
		return fmt.Errorf("open the inbox: %w", err)
	}
	shown, err := chromedp.Run(ctx, chromedp.EvaluateAsDevTools[string](`document.querySelector('`+card+` .command').innerText`))
	if err != nil {
		return fmt.Errorf("read the card of %s: %w", id, err)
	}
	fmt.Printf("  [bob] the browser shows the card of %s: %s\n", id, strings.TrimSpace(shown))
	if !strings.Contains(a.Command, strings.TrimSpace(shown)) {
		return fmt.Errorf("the card shows %q, and codex asks for %q", shown, a.Command)
	}
	if err := chromedp.Do(ctx, chromedp.SendKeys(card+` input[name=reason]`, reason), chromedp.Click(card+` [data-accept]`)); err != nil {
		return fmt.Errorf("press Accept: %w", err)
	}
	fmt.Println("  [bob] presses Accept")
	var page string
	for !strings.Contains(page, "acknowledged by codex ✓") {
		select {
		case <-ctx.Done():
			return fmt.Errorf("the card does not say that codex acknowledged the decision: %w:\n%s", context.Cause(ctx), page)
		case <-time.After(100 * time.Millisecond):
		}
		if now, err := chromedp.Run(ctx, chromedp.EvaluateAsDevTools[string](`document.body ? document.body.innerText : ""`)); err == nil { // it fails while a page loads
			page = now
		}
	}
	fmt.Println("  [bob] the card says: recorded ✓, sent to codex ✓, acknowledged by codex ✓")
	return nil
}
