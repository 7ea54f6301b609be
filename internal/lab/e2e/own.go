package e2e

import (
	"testing"

	"fairlead.dev/fairlead/hostexec/hosttest"
	"fairlead.dev/fairlead/internal/lab"
)

// Own starts a stack for one test, with a host web-1 and a seed team. run runs
// ctl there.
func Own(t *testing.T, config string) (l *lab.Lab, run func(args ...string) string) {
	t.Helper()
	ctx := Within(t)
	l, err := lab.New(ctx, lab.Options{Repo: Repo, Script: script, Config: config})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	if _, err := l.AddHost(ctx, "web-1", hosttest.Options{}); err != nil {
		t.Fatal(err)
	}
	if err := l.ImportSeed(ctx, "team"); err != nil {
		t.Fatal(err)
	}
	return l, func(args ...string) string {
		t.Helper()
		out, err := l.Out(ctx, args...)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
}
