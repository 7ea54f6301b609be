// Package browser drives a headless Chromium for tests of pages.
package browser

import (
	"context"
	_ "embed"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

// axe is axe-core 4.14.1, which finds barriers on pages.
//
//go:embed testdata/axe.min.js
var axe string

// patience is how long a page may take to show what a test waits for.
const patience = 10 * time.Minute

// A Tab is a tab of a headless Chromium.
type Tab struct {
	*testing.T
	Ctx  context.Context
	Base string // address of the pages
}

// Open starts Chromium. It ends with the test.
func Open(t *testing.T, base string, width, height int64) *Tab {
	t.Helper()
	path, err := exec.LookPath("chromium")
	if err != nil {
		t.Fatal("chromium is missing: run `make tools`")
	}
	opts := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.UserDataDir(t.TempDir()), chromedp.Flag("disable-dev-shm-usage", true))
	ctx, stop := chromedp.NewExecAllocator(t.Context(), opts...)
	t.Cleanup(stop)
	ctx, cancel := chromedp.NewContext(ctx, chromedp.WithErrorf(t.Logf))
	t.Cleanup(func() {
		_ = chromedp.Cancel(ctx) // it writes to its folder until it has ended
		cancel()
	})
	b := &Tab{T: t, Ctx: ctx, Base: base}
	b.Run(chromedp.EmulateViewport(width, height))
	return b
}

func (b *Tab) Run(acts ...chromedp.Action[chromedp.Void]) {
	b.Helper()
	if err := chromedp.Do(b.Ctx, acts...); err != nil {
		b.Fatalf("the browser: %v\n%s", err, b.Text())
	}
}

// GoTo opens a page. A path is one of the console.
func (b *Tab) GoTo(to string) {
	b.Helper()
	if strings.HasPrefix(to, "/") {
		to = b.Base + to
	}
	b.Run(chromedp.Navigate(to))
}

// Text is what the page shows.
func (b *Tab) Text() string {
	text, err := chromedp.Run(b.Ctx, chromedp.EvaluateAsDevTools[string](`document.body ? document.body.innerText : ""`))
	if err != nil {
		return err.Error()
	}
	return text
}

// Sees waits until the page shows all words.
func (b *Tab) Sees(words ...string) string {
	b.Helper()
	text := ""
	b.Until(strings.Join(words, ", "), func() bool {
		text = b.Text()
		for _, w := range words {
			if !strings.Contains(text, w) {
				return false
			}
		}
		return true
	})
	return text
}

// Eval evaluates an expression in the page, past its policy.
func Eval[T any](b *Tab, expr string) T {
	b.Helper()
	v, err := evaluate[T](b, expr)
	if err != nil {
		b.Fatalf("the browser: %.200s: %v", expr, err)
	}
	return v
}

// Shoot keeps a picture of the page, with light colours, for the documentation if SCREENSHOTS names its
// folder.
func (b *Tab) Shoot(name string) {
	b.Helper()
	dir := os.Getenv("SCREENSHOTS")
	if dir == "" {
		return
	}
	Call(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: "light"}}})
	png, err := chromedp.Run(b.Ctx, chromedp.CaptureScreenshot())
	if err != nil {
		b.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name+".png"), png, 0o644); err != nil {
		b.Fatal(err)
	}
}

// HasNoBarriers runs axe-core on the page, light and dark, on a phone and on a desk.
func (b *Tab) HasNoBarriers(where string) {
	b.Helper()
	for _, width := range []int64{360, 1440} {
		for _, scheme := range []string{"light", "dark"} {
			b.Run(chromedp.EmulateViewport(width, 900))
			Call(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
			Eval[bool](b, axe+";true")
			raw := Eval[string](b, `axe.run().then(r => JSON.stringify(r.violations.map(v => [v.id, v.nodes.map(n => n.html.slice(0, 200) + " " + n.failureSummary)])))`)
			var found []any
			if err := json.Unmarshal([]byte(raw), &found); err != nil {
				b.Fatal(err)
			}
			if len(found) > 0 {
				b.Errorf("%s, %d px, %s: %s", where, width, scheme, raw)
			}
			if Eval[bool](b, `document.documentElement.scrollWidth > innerWidth`) {
				b.Errorf("%s, %d px: the page scrolls sideways", where, width)
			}
		}
	}
}

// Call sends a command of the protocol.
func Call[P, R any](b *Tab, cmd cdp.Command[P, R], params P) {
	b.Helper()
	if _, err := chromedp.Call(b.Ctx, cmd, params); err != nil {
		b.Fatal(err)
	}
}
