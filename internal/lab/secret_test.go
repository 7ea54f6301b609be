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

// ways returns the two ways to watch: by the events of the kernel, and by samples.
func ways(t *testing.T) map[string]func(secret string) *Watch {
	t.Helper()
	return map[string]func(string) *Watch{
		"events": func(secret string) *Watch {
			events, err := listenToExecs()
			if err != nil {
				t.Fatal(err)
			}
			return watchProcesses(secret, events)
		},
		"samples": func(secret string) *Watch { return watchProcesses(secret, nil) },
	}
}

// A secret is seen in a process that starts with it, and in an old process that
// execs a program with it.
func TestASecretInAProcessIsSeenHoweverOldItIs(t *testing.T) {
	for way, watch := range ways(t) {
		old := map[string]int{"events": 2, "samples": young + 1}[way]
		for name, line := range map[string]string{"arguments": `read -r word; exec sh -c 'read -r end' "$word"`, "environment": `read -r word; WORD=$word exec sh -c 'read -r end'`} {
			for age, samples := range map[string]int{"young": 0, "old": old} {
				t.Run(way+" "+age+" "+name, func(t *testing.T) {
					const secret = "the-word-that-nobody-may-see"
					w := watch(secret)
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
}

// A sample every 20 ms seldom sees a program that runs for two milliseconds. The kernel tells
// of each, but on a busy machine the watch may come after the program's end.
func TestASecretInAProcessThatLivesShortlyIsSeen(t *testing.T) {
	const secret = "a-word-that-is-there-for-a-moment"
	w := ways(t)["events"](secret)
	for range 20 {
		if err := exec.CommandContext(t.Context(), "sleep", "0.002", "--", secret).Run(); err == nil {
			t.Fatal("sleep took the secret for a time")
		}
		if err := exec.CommandContext(t.Context(), "sh", "-c", ": ; sleep 0.002", secret).Run(); err != nil {
			t.Fatal(err)
		}
	}
	found, _ := w.Stop()
	if len(found) == 0 {
		t.Error("none of 40 short processes was seen")
	}
}

func TestAProcessWithoutTheSecretIsNotReported(t *testing.T) {
	for way, watch := range ways(t) {
		w := watch("another-word-that-nobody-has")
		want := map[string]int{"events": 2, "samples": young + 2*seldom}[way]
		watched(t, w, want)
		if found, samples := w.Stop(); len(found) > 0 || samples < want {
			t.Errorf("%s: %d samples found %q", way, samples, found)
		}
	}
}
