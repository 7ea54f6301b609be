package activities

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"

	"fairlead.dev/fairlead/activities/folder"
	"fairlead.dev/fairlead/activities/pumps"
	"fairlead.dev/fairlead/activities/site"
	"fairlead.dev/fairlead/conversation"
	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/hostexec/hosttest"
	"fairlead.dev/fairlead/hostexec/process"
	"fairlead.dev/fairlead/internal/lab/scriptedmodel"
	"fairlead.dev/fairlead/internal/protocol"
)

// mail stands in for Temporal: it records the signals to sessions.
type mail struct {
	client.Client
	mu    sync.Mutex
	told  []string
	fails map[string]error // by workflow
}

func (m *mail) SignalWorkflow(_ context.Context, id, run, name string, arg any) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	what := arg.(pumps.Stirred)
	m.told = append(m.told, fmt.Sprintf("%s%s %s %s/%d gone=%s moved=%v", id, run, name, what.Host, what.Incarnation, what.Gone, what.Offset > 0))
	return m.fails[id]
}

func (m *mail) take() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := m.told
	m.told = nil
	return out
}

// A lookout is a watcher of a bed's host that looks only when the test calls it.
type lookout struct {
	*pumps.Watcher
	t    *testing.T
	mail *mail
	now  time.Time
}

func (b *bed) lookout() *lookout {
	l := &lookout{t: b.t, mail: &mail{fails: map[string]error{}}, now: time.Now()}
	deps := b.set.site.Deps
	deps.Temporal, deps.Now = l.mail, func() time.Time { return l.now }
	in := pumps.WatchHostInput{Host: b.spec, Prefix: "session/", Signal: "stirred"}
	l.Watcher = &pumps.Watcher{Site: New(deps).site, In: in, Stirs: map[string]*pumps.Stir{},
		Back: func(context.Context) error { return nil },
		Away: func(_ context.Context, p protocol.Problem) error { l.t.Errorf("the pool is told: %+v", p); return nil }}
	l.Tell = func(ctx context.Context, session string, what pumps.Stirred) error {
		return l.mail.SignalWorkflow(ctx, in.Prefix+session, "", in.Signal, what)
	}
	return l
}

// sees looks once and checks the signals that sessions get.
func (l *lookout) sees(want ...string) {
	l.t.Helper()
	if err := l.Look(l.t.Context()); err != nil {
		l.t.Fatal(err)
	}
	if got := l.mail.take(); !slices.Equal(got, want) {
		l.t.Errorf("told %q, want %q", got, want)
	}
}

// awaits looks until sessions get a signal.
func (l *lookout) awaits(want ...string) {
	l.t.Helper()
	var got []string
	await(l.t, fmt.Sprint(want), func() bool {
		if err := l.Look(l.t.Context()); err != nil {
			l.t.Fatal(err)
		}
		got = append(got, l.mail.take()...)
		return len(got) >= len(want)
	})
	if !slices.Equal(got, want) {
		l.t.Errorf("told %q, want %q", got, want)
	}
}

// says writes a line to codex past Fairlead, as somebody on the host could.
func (k *talk) says(format string, args ...any) {
	k.t.Helper()
	f, err := os.OpenFile(filepath.Join(folder.ServerDir(k.layout, k.incarnation), "in"), os.O_WRONLY, 0)
	if err != nil {
		k.t.Fatal(err)
	}
	defer f.Close()
	if _, err := fmt.Fprintf(f, "\n"+format+"\n", args...); err != nil {
		k.t.Fatal(err)
	}
}

func (k *talk) journal() string {
	k.t.Helper()
	data, err := os.ReadFile(filepath.Join(folder.ServerDir(k.layout, k.incarnation), "out.log"))
	if err != nil {
		k.t.Fatal(err)
	}
	return string(data)
}

// asking is a model that asks in every turn for a command that a person must allow.
const asking = `
rules:
  - when: {contains: command}
    steps:
      - - shell: {cmd: "printf hello", escalate: true, justification: "to see it run"}
      - - say: Done.
`

// ask runs a pump that returns because codex asks a person.
func (k *talk) ask(text string) {
	k.t.Helper()
	ctx, cancel := context.WithTimeout(k.t.Context(), patience)
	defer cancel()
	in := k.input(k.message(text))
	in.Pump.Thread.Sandbox = "workspace-write"
	out, err := pumps.RunPump(ctx, k.set.Pump.Site, in, quiet(1))
	if err != nil {
		k.t.Fatal(err)
	}
	if k.took(out, conversation.RequestsOpen); len(k.state.Open) != 1 {
		k.t.Fatalf("state is %+v", k.state)
	}
}

func TestARequestThatCodexTakesBackStirsItsSession(t *testing.T) {
	k := handMade(t, "back", scriptedmodel.Serve(t, asking))
	k.start()
	l := k.lookout()
	k.ask("a command, please")
	l.sees()
	// The session does not wait for the answer to a request to codex.
	k.says(`{"id":"mine","method":"thread/loaded/list","params":{}}`)
	await(t, "codex's answer", func() bool { return strings.Contains(k.journal(), `"id":"mine"`) })
	l.sees()
	l.sees()
	k.says(`{"id":"theirs","method":"turn/interrupt","params":{"threadId":%q,"turnId":%q}}`, k.state.ThreadID, k.state.TurnID)
	moved := "session/back stirred local/1 gone= moved=true"
	l.awaits(moved)
	l.sees() // the session got this signal already
	l.now = l.now.Add(pumps.StirAgain + time.Second)
	l.sees(moved) // the signal is repeated
	l.now = l.now.Add(pumps.StirAgain + time.Second)
	l.sees()
	out := k.pump(conversation.TurnEnded)
	if len(out.Pump.Resolved) != 1 || out.Pump.Turn.Status != "interrupted" {
		t.Errorf("the pump returned %+v", out.Pump)
	}
	l.now = l.now.Add(time.Hour)
	l.sees()
}

func TestAProcessThatEndsWhileItsSessionWaitsStirsIt(t *testing.T) {
	k := handMade(t, "dead", scriptedmodel.Serve(t, asking))
	k.start()
	l := k.lookout()
	k.ask("a command, please")
	l.sees()
	st, err := process.Inspect(t.Context(), k.host(), folder.ServerDir(k.layout, 1))
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(st.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	l.awaits("session/dead stirred local/1 gone=exited moved=false")
	l.sees()
	out := k.pump(conversation.ProcessEnded)
	if len(out.Pump.Resolved) != 1 || out.Process.Code != 137 {
		t.Errorf("the pump returned %+v, process %+v", out.Pump, out.Process)
	}
	l.sees()
	// The next incarnation is distinguished from the first, and so is its end.
	k.start()
	k.resume = true
	k.ask("one more command, please")
	l.sees()
	if err := os.Truncate(filepath.Join(folder.ServerDir(k.layout, 2), "out.log"), k.state.Cursor.Offset-1); err != nil {
		t.Fatal(err)
	}
	l.sees("session/dead stirred local/2 gone=journal moved=false")
}

// Somebody cut the journal on the host, and it grew beyond the offset where the last
// pump stopped. The lines in between are lost, and the session must not go on as if
// they were there.
func TestAJournalThatWasCutAndGrewAgainIsNotReadOn(t *testing.T) {
	k := handMade(t, "regrown", scriptedmodel.Serve(t, asking))
	k.start()
	l := k.lookout()
	k.ask("a command, please")
	l.sees()
	log := filepath.Join(folder.ServerDir(k.layout, 1), "out.log")
	grown := strings.Repeat("x", int(k.state.Cursor.Offset)) + "\n" + `{"method":"turn/completed","params":{}}` + "\n"
	if err := os.WriteFile(log, []byte(grown), 0o600); err != nil { // in place
		t.Fatal(err)
	}
	l.sees("session/regrown stirred local/1 gone=journal moved=false")
	l.sees()
	out := k.pump(conversation.ProcessEnded)
	if out.Process.State != string(process.Lost) || !strings.Contains(out.Process.StderrTail, "cut short") {
		t.Errorf("the pump returned %+v, process %+v", out.Pump, out.Process)
	}
}

// unlucky is a pool whose hosts lose the connection during commands of one kind.
type unlucky struct {
	site.HostPool
	kind string
	lost atomic.Int32
	err  error
}

func (u *unlucky) Host(spec protocol.HostSpec) (hostexec.Host, error) {
	h, err := u.HostPool.Host(spec)
	return &unluckyHost{h, u}, err
}

type unluckyHost struct {
	hostexec.Host
	u *unlucky
}

func (h *unluckyHost) Run(ctx context.Context, c hostexec.Command) (hostexec.Result, error) {
	if strings.Contains(c.Script, h.u.kind) && h.u.lost.Add(1) == 1 {
		return hostexec.Result{}, h.u.err
	}
	return h.Host.Run(ctx, c)
}

func TestAPumpThatCannotLeaveAWatchIsRunAgain(t *testing.T) {
	k := handMade(t, "unlucky", scriptedmodel.Serve(t, asking))
	k.start()
	deps := k.set.site.Deps
	u := &unlucky{HostPool: deps.Pool, kind: "watch.$2", err: fmt.Errorf("run: %w", hostexec.ErrOutcomeUnknown)}
	deps.Pool = u
	s := New(deps).Pump
	in := k.input(k.message("a command, please"))
	in.Pump.Thread.Sandbox = "workspace-write"
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	_, err := pumps.RunPump(ctx, s.Site, in, quiet(1))
	if app := appError(t, err); app.Type() != protocol.ErrTypeWireLost || app.NonRetryable() || app.NextRetryDelay() == 0 {
		t.Errorf("the pump ended with %v", err)
	}
	out, err := pumps.RunPump(ctx, s.Site, in, quiet(2))
	if err != nil {
		t.Fatal(err)
	}
	if k.took(out, conversation.RequestsOpen); len(out.Pump.Requests) != 1 {
		t.Errorf("the pump returned %+v", out.Pump)
	}
	k.shownIsStored(k.bed)

	// A full disk does not keep the request from people.
	k.says(`{"id":"theirs","method":"turn/interrupt","params":{"threadId":%q,"turnId":%q}}`, k.state.ThreadID, k.state.TurnID)
	// The test waits for the end of the turn, because a pump that finds only the known
	// request would return at once.
	await(t, "codex's word of the turn's end", func() bool { return strings.Contains(k.journal(), `"turn/completed"`) })
	k.pump(conversation.TurnEnded)
	u.lost.Store(0)
	u.err = fmt.Errorf("run: %w", hostexec.ErrNoSpace)
	if out, err = pumps.RunPump(ctx, s.Site, k.input(k.message("one more command, please")), quiet(1)); err != nil || out.Pump.Reason != conversation.RequestsOpen {
		t.Errorf("with a full disk the pump returned %+v, %v", out.Pump, err)
	}
}

// crier starts a process of a session. The process writes the texts that the test gives
// to cry.
func (b *bed) crier(session string) (cry func(text string)) {
	b.t.Helper()
	l := folder.LayoutOf(b.spec.Root, session)
	c := protocol.Claim{Session: session, Host: b.spec, Generation: 1, Pump: 1}
	dir := folder.ServerDir(l, 1)
	_, err := process.Start(b.t.Context(), b.host(), process.Spec{
		Dir: dir, Fence: folder.FenceOf(c, l.Dir, 1), Argv: []string{"sleep", "2000"}, Mark: session,
	})
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if _, err := process.Stop(ctx, b.host(), dir, folder.FenceOf(c, l.Dir, 1), 0); err != nil {
			b.t.Error(err)
		}
	})
	if err := process.LeaveWatch(b.t.Context(), b.host(), dir, 0, folder.FenceOf(c, l.Dir, 1)); err != nil {
		b.t.Fatal(err)
	}
	return func(text string) {
		f, err := os.OpenFile(filepath.Join(dir, "out.log"), os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			b.t.Fatal(err)
		}
		defer f.Close()
		if _, err := f.WriteString(text); err != nil {
			b.t.Fatal(err)
		}
	}
}

func TestOnlyWhatMattersInAJournalStirs(t *testing.T) {
	b := newBed(t, protocol.HostSpec{Name: protocol.LocalHost, Root: filepath.Join(t.TempDir(), "root")})
	l := b.lookout()
	cry := b.crier("loud")
	told := "session/loud stirred local/1 gone= moved=true"
	l.sees()
	cry(strings.Repeat(`{"method":"item/agentMessage/delta","params":{"delta":"`+strings.Repeat("x", 500)+`"}}`+"\n", 3000)) // 1.6 MB
	cry("no JSON\n\n" + `{"method":"turn/compl`)
	l.sees()
	cry(`eted","params":`)
	l.sees()
	cry("{}}\n")
	l.sees(told)
	cry(`{"method":"turn/started"}` + "\n")
	l.sees() // the session got this signal already

	// This is a line without an end.
	cry = b.crier("endless")
	cry(`{"method":"x","params":"` + strings.Repeat("y", 3<<20))
	l.sees("session/endless stirred local/1 gone= moved=true")

	// If a journal has more than a single look reads, the next looks read the rest.
	cry = b.crier("much")
	cry(strings.Repeat(`{"method":"item/agentMessage/delta","params":{"delta":"`+strings.Repeat("x", 1000)+`"}}`+"\n", 9<<10) + `{"id":1,"method":"ask"}` + "\n")
	l.sees()
	l.sees()
	l.sees("session/much stirred local/1 gone= moved=true")
}

func TestASessionThatIsNotThereIsTroubledOnceAndAFailureAgain(t *testing.T) {
	b := newBed(t, protocol.HostSpec{Name: protocol.LocalHost, Root: filepath.Join(t.TempDir(), "root")})
	l := b.lookout()
	b.crier("ended")(`{"method":"turn/started"}` + "\n")
	l.mail.fails["session/ended"] = serviceerror.NewNotFound("no such workflow")
	told := "session/ended stirred local/1 gone= moved=true"
	l.sees(told)
	l.now = l.now.Add(2 * time.Hour)
	l.sees()
	b.crier("unheard")(`{"method":"turn/started"}` + "\n")
	l.mail.fails["session/unheard"] = serviceerror.NewUnavailable("come back later")
	told = "session/unheard stirred local/1 gone= moved=true"
	if err := l.Look(t.Context()); err == nil {
		t.Error("a signal that failed was no failure")
	}
	delete(l.mail.fails, "session/unheard")
	l.mail.take()
	l.sees(told)
}

// lines keeps what is logged.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) has(words string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Contains(l.text.String(), words)
}

func TestAHostThatCannotBeReachedIsWatchedAgainLater(t *testing.T) {
	sshd := hosttest.StartSSHD(t, hosttest.Options{Root: filepath.Join(t.TempDir(), "root")})
	b := newBed(t, sshd.Spec())
	b.crier("later")(`{"method":"turn/started"}` + "\n")
	if err := sshd.Stop(); err != nil {
		t.Fatal(err)
	}
	sshd.KillSessions()
	l, log := b.lookout(), &lines{}
	l.Watcher.Site.WatchEvery, l.Watcher.Site.Logger = 20*time.Millisecond, slog.New(slog.NewTextHandler(log, nil))
	// Each is called only once. A second call is a failure, and does not block.
	away, back := make(chan protocol.Problem, 1), make(chan struct{}, 1)
	l.Away = func(_ context.Context, p protocol.Problem) error {
		select {
		case away <- p:
		default:
			t.Errorf("the pool is told again: %+v", p)
		}
		return nil
	}
	l.Back = func(context.Context) error {
		select {
		case back <- struct{}{}:
		default:
			t.Error("the pool is told again that the host is back")
		}
		return nil
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- l.Run(ctx, nil) }()
	// The pool is told after several looks that failed. Only after that does the test
	// start sshd again, so that the number of looks does not depend on the load.
	await(t, "the pool to be told that the host is away", func() bool { return len(away) == 1 })
	if !log.has("host cannot be watched") {
		t.Error("nothing is logged")
	}
	if len(back) != 0 {
		t.Error("the pool is told that the host is back while it is away")
	}
	if err := sshd.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	await(t, "the session to be told", func() bool {
		return slices.Contains(l.mail.take(), fmt.Sprintf("session/later stirred %s/1 gone= moved=true", b.spec.Name))
	})
	await(t, "the pool to be told that the host is back", func() bool { return len(back) == 1 })
	cancel()
	if p := <-away; p.Kind != "unreachable" {
		t.Errorf("the pool is told: %+v", p)
	}
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("a watch that was called back ended with %v", err)
	}
}

func TestAWatchIsHandedOverWhenItsWorkerStops(t *testing.T) {
	b := newBed(t, protocol.HostSpec{Name: protocol.LocalHost, Root: filepath.Join(t.TempDir(), "root")})
	deps := b.set.site.Deps
	deps.WatchEvery = time.Hour
	stop := make(chan struct{})
	close(stop)
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestActivityEnvironment()
	env.SetWorkerStopChannel(stop)
	h := New(deps).Pump
	env.RegisterActivityWithOptions(h.WatchHost, activity.RegisterOptions{Name: "WatchHost"})
	_, err := env.ExecuteActivity("WatchHost", pumps.WatchHostInput{Host: b.spec})
	var app *temporal.ApplicationError
	if !errors.As(err, &app) || app.NonRetryable() || app.NextRetryDelay() <= 0 || app.NextRetryDelay() > time.Second {
		t.Errorf("it ended with %v", err)
	}
}

func TestProcessesAreKnownByTheirNames(t *testing.T) {
	for i := 1; i < 12; i++ {
		if n, ok := folder.IncarnationOf(folder.ServerName(i)); !ok || n != i {
			t.Errorf("%s is taken for %d, %v", folder.ServerName(i), n, ok)
		}
	}
	for _, name := range []string{"", "app-server.", "app-server.1", "app-server.x", "app-server.02", "app-server.-3", "other"} {
		if n, ok := folder.IncarnationOf(name); ok {
			t.Errorf("%q is taken for %d", name, n)
		}
	}
}

// A pool is told a single time that a host is away, and a single time that it is back.
// A watch that took over cannot know whether the host was away, and reports once that
// it is back.
func TestAPoolHearsThatAHostIsBack(t *testing.T) {
	for _, c := range []struct {
		name string
		away bool
		owed bool
		gone int
		want int
	}{{"never away", false, false, 0, 0}, {"away for a while", true, false, 1, 1}, {"taken over", false, true, 0, 1}} {
		t.Run(c.name, func(t *testing.T) {
			b := newBed(t, protocol.HostSpec{Name: protocol.LocalHost, Root: filepath.Join(t.TempDir(), "root")})
			l := b.lookout()
			l.Watcher.Site.WatchEvery, l.Owed = time.Millisecond, c.owed
			said, gone, looks := 0, 0, 0
			l.Back = func(context.Context) error { said++; return nil }
			l.Away = func(_ context.Context, p protocol.Problem) error {
				if gone++; p.Kind != "unreachable" || said != 0 {
					t.Errorf("said %d times, then told %+v", said, p)
				}
				return nil
			}
			pool := l.Site.Pool
			ctx, cancel := context.WithCancel(t.Context())
			l.Site.Pool = poolFunc(func(spec protocol.HostSpec) (hostexec.Host, error) {
				if looks++; looks == 8 {
					cancel()
				}
				if c.away && looks < 4 {
					return nil, hostexec.ErrUnreachable
				}
				return pool.Host(spec)
			})
			if err := l.Run(ctx, nil); !errors.Is(err, context.Canceled) {
				t.Fatal(err)
			}
			if said != c.want || gone != c.gone {
				t.Errorf("away %d times, back %d times in %d looks, want %d and %d", gone, said, looks, c.gone, c.want)
			}
		})
	}
}

type poolFunc func(protocol.HostSpec) (hostexec.Host, error)

func (f poolFunc) Host(spec protocol.HostSpec) (hostexec.Host, error) { return f(spec) }
