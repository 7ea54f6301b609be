package stack

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// program returns a child that runs a shell script. In the script, $0 is a separate folder.
func program(t *testing.T, text string) (c *child, dir string) {
	t.Helper()
	dir = t.TempDir()
	return &child{
		name: "worker", path: "/bin/sh", args: func() []string { return []string{"-c", text, dir} }, env: os.Environ(),
		log: filepath.Join(dir, "log"), drain: 10 * time.Second, started: func(int, io.Reader) {},
		logger: slog.New(slog.DiscardHandler), refusals: []int{2, 4},
	}, dir
}

// A worker that has run once is kept: if it crashes later, it does not end its stack, even
// if it refuses to run when it is started again.
func TestAWorkerThatCrashesLaterDoesNotEndItsStack(t *testing.T) {
	c, dir := program(t, `echo run >>"$0/runs"
case $(grep -c run "$0/runs") in
1) kill -9 $$ ;;
2) exit 4 ;;
3) exit 2 ;;
esac
echo up >"$0/up"
exec sleep 600`)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- c.run(ctx) }()
	for up := false; !up; {
		select {
		case err := <-ended:
			t.Fatalf("its stack ended: %v", err)
		case <-time.After(20 * time.Millisecond):
			_, err := os.Stat(filepath.Join(dir, "up"))
			up = err == nil
		}
	}
	stop()
	if err := <-ended; err != nil {
		t.Errorf("stopped with %v", err)
	}
}

// If a program is missing for a moment, as in an upgrade, the stack waits for it too.
func TestAProgramThatIsReplacedLaterDoesNotEndItsStack(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "worker")
	install := func(text string) {
		t.Helper()
		if err := os.WriteFile(path+".new", []byte("#!/bin/sh\n"+text), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(path+".new", path); err != nil {
			t.Fatal(err)
		}
	}
	install(fmt.Sprintf("rm %s\n", path))
	c, _ := program(t, "")
	c.path = path
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- c.run(ctx) }()
	installed := false
	for up := false; !up; {
		select {
		case err := <-ended:
			t.Fatalf("its stack ended: %v", err)
		case <-time.After(20 * time.Millisecond):
		}
		if _, err := os.Stat(path); err != nil && !installed {
			installed = true
			install(fmt.Sprintf("touch %s/up\nexec sleep 600\n", dir))
		}
		_, err := os.Stat(filepath.Join(dir, "up"))
		up = err == nil
	}
	stop()
	if err := <-ended; err != nil {
		t.Errorf("stopped with %v", err)
	}
}

// If the first process refuses to run, the stack ends, because a person waits for it.
func TestAProgramThatRefusesAtOnceEndsItsStack(t *testing.T) {
	c, _ := program(t, `echo "no such zone" >&2; exit 2`)
	if err := c.run(t.Context()); err == nil || !strings.Contains(err.Error(), "no such zone") {
		t.Errorf("ended with %v", err)
	}
	c.path = "/nonexistent/worker"
	if err := c.run(t.Context()); err == nil || !strings.Contains(err.Error(), "/nonexistent/worker") {
		t.Errorf("ended with %v", err)
	}
}

// A refusal quotes, as plain text, only what this run of the program has logged.
func TestARefusalQuotesTheReasonAlone(t *testing.T) {
	c, _ := program(t, `echo '{"time":"2026-01-02T03:04:05Z","level":"INFO","msg":"reaching Temporal","address":"a"}' >&2
echo '{"time":"2026-01-02T03:04:06Z","level":"ERROR","msg":"worker cannot use its store","err":"read the identity: no"}' >&2
exit 4`)
	old := `{"time":"2026-01-01T03:04:05Z","level":"ERROR","msg":"worker failed","err":"of yesterday"}` + "\n"
	if err := os.WriteFile(c.log, []byte(old), 0o600); err != nil {
		t.Fatal(err)
	}
	err := c.run(t.Context())
	if err == nil || err.Error() != "worker refuses to start: worker cannot use its store: read the identity: no" {
		t.Errorf("it says %v", err)
	}
	if got := Tail(c.log, 2); got != "reaching Temporal\n  worker cannot use its store: read the identity: no" {
		t.Errorf("the log ends with %q", got)
	}
}
