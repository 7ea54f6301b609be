package browser

import (
	"context"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/chromedp/chromedp"
)

// Tab opens another tab of the same browser: its cookies are the same.
func (b *Tab) Tab() *Tab {
	b.Helper()
	ctx, cancel := chromedp.NewContext(b.Ctx)
	b.Cleanup(cancel)
	t := &Tab{T: b.T, Ctx: ctx, Base: b.Base}
	t.Run(chromedp.EmulateViewport(1440, 900))
	return t
}

// mark is a property of a document that is to be left. Each time it has another value, since the
// button back may bring back a document that was left before.
const mark = "leftAs"

var marks atomic.Int64

// Leads calls do, which leads to another page, and waits until that page has loaded. Without the
// wait, the next navigation could end the request of a form.
func (b *Tab) Leads(do func()) {
	b.Helper()
	arrives := b.Leaves()
	do()
	arrives()
}

// Leaves is the first half of Leads. The function arrives waits until another page has loaded.
func (b *Tab) Leaves() (arrives func()) {
	b.Helper()
	n := marks.Add(1)
	Eval[int64](b, fmt.Sprintf("document.%s = %d", mark, n))
	return func() {
		b.Helper()
		b.Until("the next page", func() bool {
			next, err := evaluate[bool](b, fmt.Sprintf(`document.%s !== %d && document.readyState === "complete"`, mark, n))
			return err == nil && next
		})
	}
}

// Back presses the browser's button back.
func (b *Tab) Back() {
	b.Helper()
	b.Leads(func() { Eval[bool](b, "history.back(), true") })
}

// Until waits until cond holds. It fails the test with what the page shows.
func (b *Tab) Until(what string, cond func() bool) {
	b.Helper()
	for end := time.Now().Add(patience); !cond(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			b.Fatalf("the browser waits for %s:\n%s", what, b.Text())
		}
	}
}

// Press waits until the first element that a selector finds is shown and enabled, and clicks on
// it. Both are one step of the page's script, so an update of the page cannot come between.
func (b *Tab) Press(selector string) {
	b.Helper()
	b.Until(selector, func() bool {
		done, err := evaluate[bool](b, `(e => e && !e.disabled && e.getClientRects().length > 0 && (e.focus(), e.click(), true) || false)(document.querySelector(`+strconv.Quote(selector)+`))`)
		return err == nil && done
	})
}

// Submit presses a button or a link that leads to another page.
func (b *Tab) Submit(selector string) {
	b.Helper()
	b.Leads(func() { b.Press(selector) })
}

// Types writes a text into a field, in place of what is there.
func (b *Tab) Types(selector, text string) {
	b.Helper()
	Eval[bool](b, fmt.Sprintf(`(e => (e.focus(), e.select(), true))(document.querySelector(%q))`, selector))
	b.Run(chromedp.SendKeys(selector, text))
}

// Has reports whether the page has an element now.
func (b *Tab) Has(selector string) bool {
	b.Helper()
	found, err := evaluate[bool](b, "document.querySelector("+strconv.Quote(selector)+") !== null")
	return err == nil && found
}

// evaluate evaluates an expression in the page, past its policy. It fails while a page loads.
func evaluate[T any](b *Tab, expr string) (T, error) {
	ctx, cancel := context.WithTimeout(b.Ctx, patience)
	defer cancel()
	return chromedp.Run(ctx, chromedp.EvaluateAsDevTools[T](expr, chromedp.EvalAwaitPromise))
}

// Comes opens a page of a worker that may still be about to start.
func (b *Tab) Comes(path string) {
	b.Helper()
	b.Until("an answer at "+path, func() bool {
		ctx, cancel := context.WithTimeout(b.Ctx, patience)
		defer cancel()
		r, err := chromedp.Run(ctx, chromedp.NavigateResponse(b.Base+path))
		return err == nil && r != nil && r.Status < 500
	})
}
