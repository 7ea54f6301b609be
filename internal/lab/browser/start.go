package browser

import (
	"context"
	"errors"
	"os/exec"

	"github.com/chromedp/chromedp"
)

// Start starts a headless Chromium with a folder of its own, for programs that are no tests. It ends
// with stop.
func Start(ctx context.Context, profile string) (_ context.Context, stop func(), err error) {
	path, err := exec.LookPath("chromium")
	if err != nil {
		return nil, nil, errors.New("chromium is missing: run `make tools`")
	}
	opts := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.UserDataDir(profile), chromedp.Flag("disable-dev-shm-usage", true))
	ctx, end := chromedp.NewExecAllocator(ctx, opts...)
	ctx, cancel := chromedp.NewContext(ctx)
	return ctx, func() {
		_ = chromedp.Cancel(ctx) // it writes to its folder until it has ended
		cancel()
		end()
	}, nil
}
