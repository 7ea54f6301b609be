package console

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"fairlead.dev/fairlead/internal/lab/e2e"
)

// axe is axe-core 4.14.1, which finds barriers on pages.
//
//go:embed testdata/axe.min.js
var axe string

// A browser is a tab of a headless Chromium.
type browser struct {
	*testing.T
	ctx  context.Context
	base string // address of the console
}

// open starts Chromium, and logs in by the link of `ctl ui`.
func open(t *testing.T, width, height int64) *browser {
	t.Helper()
	b := fresh(t, width, height)
	link := strings.TrimSpace(e2e.OK(t, "ui"))
	b.base, _, _ = strings.Cut(link, "/login")
	b.goTo(link)
	b.sees("Inbox")
	return b
}

// fresh starts Chromium without a login.
func fresh(t *testing.T, width, height int64) *browser {
	t.Helper()
	path, err := exec.LookPath("chromium")
	if err != nil {
		t.Fatal("chromium is missing: run `make tools`")
	}
	opts := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.UserDataDir(t.TempDir()), chromedp.Flag("disable-dev-shm-usage", true))
	ctx, stop := chromedp.NewExecAllocator(e2e.Within(t), opts...)
	t.Cleanup(stop)
	ctx, cancel := chromedp.NewContext(ctx, chromedp.WithErrorf(t.Logf))
	t.Cleanup(func() {
		_ = chromedp.Cancel(ctx) // it writes to its folder until it has ended
		cancel()
	})
	b := &browser{T: t, ctx: ctx}
	b.run(chromedp.EmulateViewport(width, height))
	return b
}

func (b *browser) run(acts ...chromedp.Action[chromedp.Void]) {
	b.Helper()
	if err := chromedp.Do(b.ctx, acts...); err != nil {
		b.Fatalf("the browser: %v\n%s", err, b.text())
	}
}

// goTo opens a page. A path is one of the console.
func (b *browser) goTo(to string) {
	b.Helper()
	if strings.HasPrefix(to, "/") {
		to = b.base + to
	}
	b.run(chromedp.Navigate(to))
}

// text is what the page shows.
func (b *browser) text() string {
	text, err := chromedp.Run(b.ctx, chromedp.EvaluateAsDevTools[string](`document.body ? document.body.innerText : ""`))
	if err != nil {
		return err.Error()
	}
	return text
}

// sees waits until the page shows all words.
func (b *browser) sees(words ...string) (text string) {
	b.Helper()
	e2e.Until(b.T, fmt.Sprintf("the page to show %q", words), func() (bool, error) {
		text = b.text()
		for _, w := range words {
			if !strings.Contains(text, w) {
				return false, nil
			}
		}
		return true, nil
	})
	return text
}

// eval evaluates an expression in the page, past its policy.
func eval[T any](b *browser, expr string) T {
	b.Helper()
	v, err := chromedp.Run(b.ctx, chromedp.EvaluateAsDevTools[T](expr, chromedp.EvalAwaitPromise))
	if err != nil {
		b.Fatalf("the browser: %.200s: %v", expr, err)
	}
	return v
}

// shoot keeps a picture of the page for the documentation if SCREENSHOTS names its folder.
func (b *browser) shoot(name string) {
	b.Helper()
	dir := os.Getenv("SCREENSHOTS")
	if dir == "" {
		return
	}
	png, err := chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
	if err != nil {
		b.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name+".png"), png, 0o644); err != nil {
		b.Fatal(err)
	}
}

// hasNoBarriers runs axe-core on the page, light and dark, on a phone and on a desk.
func (b *browser) hasNoBarriers(where string) {
	b.Helper()
	for _, width := range []int64{360, 1440} {
		for _, scheme := range []string{"light", "dark"} {
			b.run(chromedp.EmulateViewport(width, 900))
			call(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
			eval[bool](b, axe+";true")
			raw := eval[string](b, `axe.run().then(r => JSON.stringify(r.violations.map(v => [v.id, v.nodes.map(n => n.html.slice(0, 200) + " " + n.failureSummary)])))`)
			var found []any
			if err := json.Unmarshal([]byte(raw), &found); err != nil {
				b.Fatal(err)
			}
			if len(found) > 0 {
				b.Errorf("%s, %d px, %s: %s", where, width, scheme, raw)
			}
			if eval[bool](b, `document.documentElement.scrollWidth > innerWidth`) {
				b.Errorf("%s, %d px: the page scrolls sideways", where, width)
			}
		}
	}
}

// call sends a command of the protocol.
func call[P, R any](b *browser, cmd cdp.Command[P, R], params P) {
	b.Helper()
	if _, err := chromedp.Call(b.ctx, cmd, params); err != nil {
		b.Fatal(err)
	}
}
