package conversation

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"fairlead.dev/fairlead/conversation/wire"
	"fairlead.dev/fairlead/internal/lab/scriptedmodel"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/internal/realparts"
)

// patience ends a test that would otherwise hang. No assertion depends on it.
const patience = 5 * time.Minute

// functions is a model that is offered plain functions, so that item ids are the
// scripted model's. The default model gets code mode.
const functions = "gpt-5.5"

// A journal keeps all bytes that a process wrote. Any number of readers may read it.
type journal struct {
	mu    sync.Mutex
	cond  *sync.Cond
	data  []byte
	ended bool
}

func newJournal() *journal {
	j := &journal{}
	j.cond = sync.NewCond(&j.mu)
	return j
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.data = append(j.data, p...)
	j.cond.Broadcast()
	return len(p), nil
}

func (j *journal) end() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.ended = true
	j.cond.Broadcast()
}

func (j *journal) bytes() []byte {
	j.mu.Lock()
	defer j.mu.Unlock()
	return append([]byte(nil), j.data...)
}

var errGone = errors.New("tap closed")

// A tap is a Wire that reads a journal and writes to the process's input.
type tap struct {
	j      *journal
	in     io.Writer
	off    int64
	size   int64
	closed bool // under j.mu
}

func (j *journal) attach(offset int64, in io.Writer) *tap {
	j.mu.Lock()
	defer j.mu.Unlock()
	return &tap{j: j, in: in, off: offset, size: int64(len(j.data))}
}

func (w *tap) Size() int64 { return w.size }

func (w *tap) Read(p []byte) (int, error) {
	w.j.mu.Lock()
	defer w.j.mu.Unlock()
	for {
		switch {
		case w.closed:
			return 0, errGone
		case w.off < int64(len(w.j.data)):
			n := copy(p, w.j.data[w.off:])
			w.off += int64(n)
			return n, nil
		case w.j.ended:
			return 0, io.EOF
		}
		w.j.cond.Wait()
	}
}

func (w *tap) Write(p []byte) (int, error) {
	w.j.mu.Lock()
	closed := w.closed
	w.j.mu.Unlock()
	if closed {
		return 0, errGone
	}
	return w.in.Write(p)
}

func (w *tap) Close() error {
	w.j.mu.Lock()
	defer w.j.mu.Unlock()
	w.closed = true
	w.j.cond.Broadcast()
	return nil
}

// A home is codex's home, used by several processes in a row.
type home struct {
	t     *testing.T
	codex string // its version
	dir   string
	work  string
	tmp   string
}

func newHome(t *testing.T, s *scriptedmodel.Server) *home {
	t.Helper()
	return newHomeIn(t, s, t.TempDir())
}

func newHomeIn(t *testing.T, s *scriptedmodel.Server, root string) *home {
	t.Helper()
	h := &home{t: t, codex: wire.TestedVersion, dir: filepath.Join(root, "codex-home"), work: filepath.Join(root, "work"), tmp: filepath.Join(root, "tmp")}
	// codex puts helper programs into its home only if the home is not below the folder for
	// temporary files.
	for _, d := range []string{h.dir, h.work, h.tmp} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	config := scriptedmodel.ConfigTOML(s.BaseURL(), "a-token")
	if err := os.WriteFile(filepath.Join(h.dir, "config.toml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	return h
}

func binary(t *testing.T) string { return binaryOf(t, wire.TestedVersion) }

// binaryOf finds the codex that `make tools` or `make versions` installed.
func binaryOf(t *testing.T, version string) string {
	t.Helper()
	if version == wire.TestedVersion {
		return realparts.CodexBinary(t)
	}
	return filepath.Join(realparts.CodexVersion(t, version), "bin", "codex")
}

// A process is a real app-server whose output is kept.
type process struct {
	*journal
	cmd   *exec.Cmd
	stdin io.WriteCloser
	sent  *journal // everything that was written to it
	done  chan struct{}
}

func (h *home) start() *process {
	t := h.t
	t.Helper()
	args := []string{"app-server"}
	if h.codex == wire.TestedVersion { // older versions do not know all keys of the config
		args = append(args, "--strict-config")
	}
	cmd := exec.Command(binaryOf(t, h.codex), args...)
	cmd.Env = []string{"CODEX_HOME=" + h.dir, "HOME=" + h.tmp, "TMPDIR=" + h.tmp, "PATH=" + os.Getenv("PATH")}
	cmd.Dir = h.work
	var stderr strings.Builder
	cmd.Stderr = &stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	p := &process{journal: newJournal(), cmd: cmd, stdin: stdin, sent: newJournal(), done: make(chan struct{})}
	cmd.Stdout = p.journal
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.done)
		_ = cmd.Wait() // it was killed, as a rule
		p.end()
	}()
	t.Cleanup(func() {
		p.kill()
		if t.Failed() {
			t.Logf("codex said on stderr:\n%s", stderr.String())
			if name := os.Getenv("FAIRLEAD_KEEP_JOURNAL"); name != "" {
				_ = os.WriteFile(name, p.bytes(), 0o600) // for a person who looks into a failure
			}
		}
	})
	return p
}

// kill sends SIGKILL and returns when the process is gone.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // it may be gone already
	<-p.done
}

func (p *process) Write([]byte) (int, error) { panic("write to the process through wire") }

func (p *process) wire(offset int64) *tap {
	return p.attach(offset, io.MultiWriter(p.sent, p.stdin))
}

// A keeper is a Sink that keeps everything.
type keeper struct {
	mu       sync.Mutex
	entries  []protocol.Entry
	requests []protocol.Request
	deltas   []protocol.Delta
	changed  chan struct{}
}

func newKeeper() *keeper { return &keeper{changed: make(chan struct{}, 1)} }

func (k *keeper) note() {
	select {
	case k.changed <- struct{}{}:
	default:
	}
}

func (k *keeper) Entry(e protocol.Entry) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	defer k.note()
	k.entries = append(k.entries, e)
	return nil
}

func (k *keeper) Request(r protocol.Request) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.requests = append(k.requests, r)
	return nil
}

func (k *keeper) Delta(d protocol.Delta) {
	k.mu.Lock()
	defer k.mu.Unlock()
	defer k.note()
	k.deltas = append(k.deltas, d)
}

func (k *keeper) text(types ...protocol.EntryType) []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	var all []string
	for _, e := range k.entries {
		if slices.Contains(types, e.Type) {
			all = append(all, e.Text)
		}
	}
	return all
}

func (k *keeper) await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	late := time.After(patience)
	for {
		k.mu.Lock()
		yes := ok()
		k.mu.Unlock()
		if yes {
			return
		}
		select {
		case <-k.changed:
		case <-time.After(5 * time.Millisecond): // ok may check something outside the sink
		case <-late:
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

// A talk does what the workflow does: it runs one pump after another and passes on the
// state.
type talk struct {
	t     *testing.T
	h     *home
	p     *process
	sink  *keeper
	state PumpState
	spec  ThreadSpec
	pumps int
	opt   Options
	limit Limits
}

func newTalkWith(t *testing.T, s *scriptedmodel.Server, version string) *talk {
	h := newHome(t, s)
	h.codex = version
	return talkAt(t, h)
}

func talkAt(t *testing.T, h *home) *talk {
	return &talk{
		t: t, h: h, p: h.start(), sink: newKeeper(),
		state: PumpState{Cursor: protocol.Cursor{Incarnation: 1}},
		spec:  ThreadSpec{CWD: h.work, Sandbox: "workspace-write", ApprovalPolicy: "on-request", Model: functions, Mark: "a-session"},
	}
}

func (k *talk) input(sends ...Send) PumpInput {
	k.pumps++
	return PumpInput{
		Session: "test", State: k.state, Thread: k.spec, Resume: k.state.ThreadID != "",
		Sends: sends, Prefix: "g1.p" + string(rune('0'+k.pumps)), Limits: k.limit,
	}
}

func (k *talk) run(ctx context.Context, in PumpInput) PumpResult {
	k.t.Helper()
	ctx, stop := context.WithTimeout(ctx, patience)
	defer stop()
	opt := k.opt
	if testing.Verbose() {
		opt.Log = slog.New(slog.NewTextHandler(k.t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	r, err := Run(ctx, k.p.wire(in.From()), in, k.sink, opt)
	if err != nil {
		k.t.Fatal(err)
	}
	k.state = r.State
	return r
}

// pump runs a pump that must return for the given reason.
func (k *talk) pump(want PumpReason, sends ...Send) PumpResult {
	k.t.Helper()
	r := k.run(context.Background(), k.input(sends...))
	if r.Reason != want {
		k.t.Fatalf("the pump returned for %s, want %s; problem %+v, deliveries %+v, turn %+v", r.Reason, want, r.Problem, r.Deliveries, r.Turn)
	}
	return r
}

func (k *talk) restart() {
	k.p.kill()
	k.p = k.h.start()
	k.state.Cursor = protocol.Cursor{Incarnation: k.state.Cursor.Incarnation + 1}
	k.state.Rewind = 0
}

func turn(n int, id, text string) Send { return Send{ID: id, Kind: SendTurn, Turn: n, Text: text} }

func decide(id string, r protocol.Request, o protocol.Outcome) Send {
	return Send{ID: id, Kind: SendDecision, RPC: r.RPC, Incarnation: r.Incarnation, RequestKind: r.Kind, Method: r.Method, Outcome: o}
}

func delivered(t *testing.T, r PumpResult, id string) protocol.DeliveryState {
	t.Helper()
	for _, d := range r.Deliveries {
		if d.ID == id {
			return d.State
		}
	}
	t.Fatalf("no delivery of %s in %+v", id, r.Deliveries)
	return ""
}
