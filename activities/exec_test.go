package activities

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"

	"fairlead.dev/fairlead/activities/hosts"
	"fairlead.dev/fairlead/activities/internal/kit"
	"fairlead.dev/fairlead/activities/records"
	"fairlead.dev/fairlead/activities/site"
	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/internal/protocol"
)

func (b *bed) output(id, stream string) string {
	b.t.Helper()
	var out bytes.Buffer
	for c, err := range records.ReadExec(b.t.Context(), b.store, id, stream, 0) {
		if err != nil {
			b.t.Fatal(err)
		}
		out.Write(c.Data)
	}
	return out.String()
}

func (b *bed) exec(ctx context.Context, id string, n int32, stop <-chan struct{}, argv ...string) (protocol.ExecResult, error) {
	return hosts.ExecOn(ctx, b.set.Host.Site, protocol.ExecInput{ID: id, Host: b.spec, Argv: argv}, hosts.ExecAttempt{N: n, Stop: stop})
}

func TestCommandsStreamsAndStatusAreKept(t *testing.T) {
	b := newBed(t, readyHost(t))
	out, err := b.exec(t.Context(), "e1", 1, nil, "sh", "-c", `echo "to $1"; echo to err >&2; cat; exit 7`, "sh", "out 'and \" more")
	if err != nil {
		t.Fatal(err)
	}
	want := protocol.ExecResult{State: "exited", Code: 7, Stdout: int64(len("to out 'and \" more\n")), Stderr: int64(len("to err\n"))}
	if out != want {
		t.Errorf("result %+v, want %+v", out, want)
	}
	if got := b.output("e1", records.Stdout); got != "to out 'and \" more\n" {
		t.Errorf("stdout %q", got)
	}
	if got := b.output("e1", records.Stderr); got != "to err\n" {
		t.Errorf("stderr %q", got)
	}
	if end, ok, err := records.ReadExecEnd(t.Context(), b.store, "e1"); err != nil || !ok || end != want {
		t.Errorf("the end on record is %+v, %v, %v", end, ok, err)
	}
	if n := len(b.live.of(records.ExecTopic("e1"), records.LiveState)); n != 1 {
		t.Errorf("the end was shown %d times", n)
	}
	if left := b.sh(`[ ! -e "$1/exec/e1" ] || ls -A "$1/exec/e1"`, b.root()); left != "" {
		t.Errorf("left on the host: %s", left)
	}
	// This is a second attempt, after the answer of the first was lost.
	if again, err := b.exec(t.Context(), "e1", 2, nil, "sh", "-c", "exit 9"); err != nil || again != want {
		t.Errorf("again: %+v, %v", again, err)
	}
}

func TestCommandThatIsNotThereExitsAsShellsSay(t *testing.T) {
	b := newBed(t, protocol.HostSpec{Name: protocol.LocalHost, Root: t.TempDir()})
	out, err := b.exec(t.Context(), "e2", 1, nil, "no-such-command-anywhere")
	if err != nil || out.State != "exited" || out.Code != 127 {
		t.Errorf("result %+v, %v", out, err)
	}
}

func TestCommandSurvivesItsFollower(t *testing.T) {
	b := newBed(t, readyHost(t))
	first := b.another()
	b.sh(`mkdir -p "$1"`, b.root())
	gate := b.root() + "/gate"
	argv := []string{"sh", "-c", `i=0; while [ $i -lt 2000 ]; do i=$((i+1)); echo line $i; done
echo half >&2; until [ -e "$1" ]; do sleep 0.05; done; echo ran >>"$1.count"; echo last; exit 3`, "sh", gate}
	done := make(chan error, 1)
	go func() {
		_, err := first.exec(t.Context(), "e3", 1, nil, argv...)
		done <- err
	}()
	await(t, "the output", func() bool { return first.shown("e3") >= 2000*6 })
	if err := first.pool.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; !errors.Is(err, hostexec.ErrOutcomeUnknown) {
		t.Errorf("the follower ended with %v", err)
	}
	stop := make(chan struct{})
	close(stop)
	if _, err := b.exec(t.Context(), "e3", 2, stop, argv...); !errors.Is(err, kit.ErrHandOver) {
		t.Errorf("a stopping worker ended with %v", err)
	}
	b.sh(`: >"$1"`, gate)
	out, err := b.exec(t.Context(), "e3", 3, nil, argv...)
	if err != nil || out.State != "exited" || out.Code != 3 {
		t.Fatalf("result %+v, %v", out, err)
	}
	var want strings.Builder
	for i := 1; i <= 2000; i++ {
		fmt.Fprintf(&want, "line %d\n", i)
	}
	want.WriteString("last\n")
	if got := b.output("e3", records.Stdout); got != want.String() {
		t.Errorf("stdout has %d bytes, want %d of the same", len(got), want.Len())
	}
	if got := b.output("e3", records.Stderr); got != "half\n" {
		t.Errorf("stderr %q", got)
	}
	if got := b.sh(`cat "$1.count"`, gate); got != "ran\n" {
		t.Errorf("it ran %d times", strings.Count(got, "ran"))
	}
}

// shown returns about how many bytes of output were shown live.
func (b *bed) shown(id string) int {
	n := 0
	for _, ev := range b.live.of(records.ExecTopic(id), records.LiveOutput) {
		n += len(ev.Data) * 3 / 4 // base64, roughly
	}
	return n
}

func TestCancelledCommandEnds(t *testing.T) {
	b := newBed(t, protocol.HostSpec{Name: protocol.LocalHost, Root: t.TempDir()})
	sleep := fmt.Sprintf("sleep 1000.%d", os.Getpid()) // no other test's
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := b.exec(ctx, "e4", 1, nil, "sh", "-c", "echo $$; exec "+sleep)
		done <- err
	}()
	await(t, "the output", func() bool { return b.shown("e4") > 0 })
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("it ended with %v", err)
	}
	if left := b.sh(`ls -A "$1/exec" | grep -v '^\.gone' || :; ps -eo args | grep "^$2$" || :`, b.spec.Root, sleep); left != "" {
		t.Errorf("left: %s", left)
	}
}

// If a command cannot be stopped, the caller who cancels it must be told that it may
// still run.
func TestACancelledCommandThatCannotBeStoppedIsTold(t *testing.T) {
	b := newBed(t, protocol.HostSpec{Name: protocol.LocalHost, Root: t.TempDir()})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := b.exec(ctx, "e5", 1, nil, "sh", "-c", "echo $$; exec sleep 1000")
		done <- err
	}()
	await(t, "the output", func() bool { return b.shown("e5") > 0 })
	pid := strings.TrimSpace(b.output5(t))
	t.Cleanup(func() {
		if out, err := exec.Command("kill", "-9", pid).CombinedOutput(); err != nil {
			t.Errorf("end what was left: %v %s", err, out)
		}
	})
	b.sh(`echo 9 9 9 >"$1/exec/e5/epoch"`, b.spec.Root) // the command belongs to another attempt now
	cancel()
	err := <-done
	kind, hint, retry := kit.Failing{}.Classify(err)
	if kind != protocol.ErrTypeOutcomeUnknown || retry || !strings.Contains(err.Error(), "may still run") || !strings.Contains(hint, "exec/e5") {
		t.Errorf("it ended with %s: %v (%s), retry %v", kind, err, hint, retry)
	}
}

func (b *bed) output5(t *testing.T) string {
	t.Helper()
	var c protocol.ExecChunk
	if err := json.Unmarshal(b.live.of(records.ExecTopic("e5"), records.LiveOutput)[0].Data, &c); err != nil {
		t.Fatal(err)
	}
	return string(c.Data)
}

func TestBadCommandsAreRefused(t *testing.T) {
	b := newBed(t, protocol.HostSpec{Name: protocol.LocalHost, Root: t.TempDir()})
	for id, argv := range map[string][]string{"ok": nil, "ok2": {""}, "../up": {"true"}, "ok3": {"a\x00b"}} {
		_, err := b.exec(t.Context(), id, 1, nil, argv...)
		if app := appError(t, kit.Failing{}.Failure(t.Context(), "exec", err)); app.Type() != protocol.ErrTypeBadInput || !app.NonRetryable() {
			t.Errorf("%s %q: %v", id, argv, app)
		}
	}
}

func TestCommandForAHostThatIsAwayDoesNotRunLater(t *testing.T) {
	spec := farHost(t)
	spec.Port = 1 // nobody listens there
	b := newBed(t, spec)
	_, err := b.exec(t.Context(), "e9", 1, nil, "true")
	if app := appError(t, kit.Failing{}.Failure(t.Context(), "exec", err)); app.Type() != protocol.ErrTypeUnreachable || !app.NonRetryable() {
		t.Errorf("at first: %v", app)
	}
	// An earlier attempt may have started the command, so the activity is retried.
	_, err = b.exec(t.Context(), "e9", 2, nil, "true")
	if app := appError(t, kit.Failing{}.Failure(t.Context(), "exec", err)); app.Type() != protocol.ErrTypeUnreachable || app.NonRetryable() {
		t.Errorf("later: %v", app)
	}
}

type counted struct {
	site.HostPool
	n *atomic.Int32
}

func (c counted) Host(spec protocol.HostSpec) (hostexec.Host, error) {
	h, err := c.HostPool.Host(spec)
	return countedHost{h, c.n}, err
}

type countedHost struct {
	hostexec.Host
	n *atomic.Int32
}

func (h countedHost) Run(ctx context.Context, c hostexec.Command) (hostexec.Result, error) {
	h.n.Add(1)
	return h.Host.Run(ctx, c)
}

// Zero bytes in a command's output take no more round trips than text.
func TestABinaryStreamTakesNoMoreRoundTripsThanText(t *testing.T) {
	b := newBed(t, protocol.HostSpec{Name: protocol.LocalHost, Root: t.TempDir()})
	var n atomic.Int32
	b.set.site.Pool = counted{b.pool, &n}
	var trips [2]int32
	for i, script := range []string{"yes zero | head -c 2000000", "head -c 2000000 /dev/zero"} {
		before := n.Load()
		out, err := b.exec(t.Context(), fmt.Sprint("e", i), 1, nil, "sh", "-c", script)
		if err != nil || out.Stdout != 2000000 || len(b.output(fmt.Sprint("e", i), records.Stdout)) != 2000000 {
			t.Fatalf("%s: %+v, %v", script, out, err)
		}
		trips[i] = n.Load() - before
	}
	if trips[1] > trips[0] {
		t.Errorf("text took %d round trips, zeros %d", trips[0], trips[1])
	}
}
