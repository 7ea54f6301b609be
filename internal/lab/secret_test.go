package lab

import (
	"context"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// watched waits until the watch has taken that many more samples.
func watched(t *testing.T, w *Watch, more int) {
	t.Helper()
	count := func() int {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.samples
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	first := count()
	if err := Until(ctx, "samples", func() (bool, error) { return count() >= first+more, nil }); err != nil {
		t.Fatal(err)
	}
}

// A secret is seen in a process that starts with it, and in an old process that
// execs a program with it.
func TestASecretInAProcessIsSeenHoweverOldItIs(t *testing.T) {
	for name, line := range map[string]string{"arguments": `read -r word; exec sh -c 'read -r end' "$word"`, "environment": `read -r word; WORD=$word exec sh -c 'read -r end'`} {
		for age, samples := range map[string]int{"young": 0, "old": young + 1} {
			t.Run(age+" "+name, func(t *testing.T) {
				const secret = "the-word-that-nobody-may-see"
				w := WatchProcesses(secret)
				c := exec.CommandContext(t.Context(), "sh", "-c", line)
				in, err := c.StdinPipe()
				if err != nil {
					t.Fatal(err)
				}
				if err := c.Start(); err != nil {
					t.Fatal(err)
				}
				watched(t, w, samples)
				if _, err := in.Write([]byte(secret + "\n")); err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
				defer cancel()
				err = Until(ctx, "the secret to be seen", func() (bool, error) {
					w.mu.Lock()
					defer w.mu.Unlock()
					return len(w.found) > 0, nil
				})
				if err != nil {
					t.Error(err)
				}
				if err := in.Close(); err != nil {
					t.Error(err)
				}
				_ = c.Wait() // its input ended
				if found, _ := w.Stop(); len(found) == 0 || !strings.HasPrefix(found[0], map[string]string{"arguments": "cmdline", "environment": "environ"}[name]) {
					t.Errorf("it was seen in %q", found)
				}
			})
		}
	}
}

func TestAProcessWithoutTheSecretIsNotReported(t *testing.T) {
	w := WatchProcesses("another-word-that-nobody-has")
	watched(t, w, young+2*seldom)
	if found, samples := w.Stop(); len(found) > 0 || samples < young {
		t.Errorf("%d samples found %q", samples, found)
	}
}
