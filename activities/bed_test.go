package activities

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"fairlead.dev/fairlead/activities/codexpkg"
	"fairlead.dev/fairlead/activities/folder"
	"fairlead.dev/fairlead/activities/hosts"
	"fairlead.dev/fairlead/activities/inquiry"
	"fairlead.dev/fairlead/activities/internal/kit"
	"fairlead.dev/fairlead/activities/places"
	"fairlead.dev/fairlead/activities/pumps"
	"fairlead.dev/fairlead/activities/site"
	"fairlead.dev/fairlead/conversation"
	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/internal/lab/scriptedmodel"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/internal/realparts"
	"fairlead.dev/fairlead/internal/store"
)

// patience is the time after which a test that hangs fails. No assertion depends on it.
const patience = 5 * time.Minute

// codexDir returns the folder of the pinned codex that `make tools` downloads.
func codexDir(t testing.TB) string {
	t.Helper()
	return realparts.Codex(t)
}

// A bed has a worker's activities on real parts, and one host.
type bed struct {
	t     *testing.T
	set   *Set
	store *store.Store
	live  *recorder
	pool  *hostexec.Pool
	spec  protocol.HostSpec
}

func newBed(t *testing.T, spec protocol.HostSpec) *bed {
	t.Helper()
	b := &bed{t: t, store: newStore(t), live: &recorder{}, spec: spec}
	log := slog.New(slog.NewTextHandler(testLog{t}, &slog.HandlerOptions{Level: slog.LevelWarn}))
	b.pool = hostexec.NewPool(hostexec.PoolOptions{Logger: log})
	t.Cleanup(func() {
		if err := b.pool.Close(); err != nil {
			t.Errorf("close the pool: %v", err)
		}
	})
	b.set = New(site.Deps{
		Pool: b.pool, Store: b.store, Live: b.live, Codex: codexpkg.NewCodexSource(codexDir(t)),
		APIAddress: "unix:///worker.sock", Logger: log,
	})
	b.asked(nil)
	return b
}

// asked makes the sessions in Temporal answer as in say. Sessions that are not in say
// do not run.
func (b *bed) asked(say map[string]inquiry.SessionNow) {
	b.set.site.AskLeft = func(context.Context) ([]inquiry.LeftThere, error) { return nil, nil }
	b.set.site.AskSession = func(_ context.Context, session string) (inquiry.SessionNow, error) { return say[session], nil }
}

// another returns a second worker with connections of its own.
func (b *bed) another() *bed {
	c := *b
	c.pool = hostexec.NewPool(hostexec.PoolOptions{})
	b.t.Cleanup(func() { c.pool.Close() })
	deps := b.set.site.Deps
	deps.Pool, deps.Chunks, c.live = c.pool, nil, &recorder{}
	deps.Live = c.live
	c.set = New(deps)
	return &c
}

func (b *bed) host() hostexec.Host {
	b.t.Helper()
	h, err := b.pool.Host(b.spec)
	if err != nil {
		b.t.Fatal(err)
	}
	return h
}

type testLog struct{ t *testing.T }

func (l testLog) Write(p []byte) (int, error) {
	l.t.Logf("%s", p)
	return len(p), nil
}

// A talk is a session. Its methods do what its workflow would do.
type talk struct {
	*bed
	claim       protocol.Claim
	layout      protocol.Layout
	seed        *protocol.SeedRef
	permissions string
	credentials string
	incarnation int
	state       conversation.PumpState
	resume      bool
	turn        int
}

// makeFolders makes the session's folders, marked with a generation.
func (k *talk) makeFolders(generation int64) {
	k.t.Helper()
	made, err := places.MakeFolders(k.t.Context(), k.host(), k.layout, folder.FolderMark{Generation: generation}, folder.FenceOf(k.next(), k.layout.Dir, 1))
	if err != nil {
		k.t.Fatal(err)
	}
	k.layout = made
}

// handMade makes a session's folders on this machine by hand. Its codex talks to a
// scripted model.
func handMade(t *testing.T, id string, model *scriptedmodel.Server) *talk {
	t.Helper()
	return handMadeOn(t, id, model, protocol.HostSpec{Name: protocol.LocalHost})
}

// handMadeOn is handMade for another host that is this machine.
func handMadeOn(t *testing.T, id string, model *scriptedmodel.Server, spec protocol.HostSpec) *talk {
	t.Helper()
	root := filepath.Join(t.TempDir(), "root")
	spec.Root = root
	b := newBed(t, spec)
	k := &talk{bed: b, claim: protocol.Claim{Session: id, Host: b.spec, Generation: 1}}
	k.layout = folder.LayoutOf(root, id)
	k.layout.Codex = filepath.Join(codexDir(t), "bin", "codex")
	k.makeFolders(1)
	config := scriptedmodel.ConfigTOML(model.BaseURL(), "a-token")
	if err := os.WriteFile(filepath.Join(k.layout.CodexHome, "config.toml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(k.kill)
	return k
}

func (k *talk) kill() {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	k.claim.Pump++
	_, err := places.StopServer(ctx, k.set.Place.Site, places.StopServerInput{Claim: k.claim, Layout: k.layout, Incarnation: k.incarnation}, 99)
	if kit.IsRootMissing(err) { // the test has removed the whole root folder
		_, err = hosts.GiveUpRoot(ctx, k.host(), k.layout, k.claim, 99)
	}
	if err != nil {
		k.t.Errorf("stop codex: %v", err)
	}
}

func (k *talk) next() protocol.Claim {
	k.claim.Pump++
	return k.claim
}

func (k *talk) start() {
	k.t.Helper()
	k.incarnation++
	k.state.Cursor = protocol.Cursor{Incarnation: k.incarnation}
	k.state.Rewind, k.state.Open, k.state.TurnID = 0, nil, ""
	_, err := places.StartServer(k.t.Context(), k.set.Place.Site, places.StartServerInput{Claim: k.next(), Layout: k.layout, Incarnation: k.incarnation}, 1)
	if err != nil {
		k.t.Fatalf("start codex: %v", err)
	}
}

func (k *talk) input(sends ...conversation.Send) pumps.RunPumpInput {
	sandbox := "danger-full-access"
	if k.permissions != "" {
		sandbox = "workspace-write"
	}
	c := k.next()
	return pumps.RunPumpInput{
		Claim: c, Layout: k.layout, Seed: k.seed, Credentials: k.credentials,
		Pump: conversation.PumpInput{
			Session: c.Session, State: k.state, Resume: k.resume, Sends: sends,
			Thread: conversation.ThreadSpec{CWD: k.layout.WorkDir, Sandbox: sandbox, Permissions: k.permissions,
				ApprovalPolicy: "on-request", Model: "gpt-5.5", Mark: folder.Mark(c.Session, k.layout)},
			Prefix: fmt.Sprintf("g%d.p%d", c.Generation, c.Pump),
		},
	}
}

func (k *talk) message(text string) conversation.Send {
	k.turn++
	return conversation.Send{ID: fmt.Sprintf("m-%d", k.turn), Kind: conversation.SendTurn, Text: text, Turn: k.turn}
}

// quiet returns an attempt whose heartbeats go nowhere.
func quiet(n int32) pumps.Attempt {
	return pumps.Attempt{N: n, Beat: func(pumps.PumpBeat) {}}
}

// pump runs a pump that must return with the reason want.
func (k *talk) pump(want conversation.PumpReason, sends ...conversation.Send) pumps.RunPumpResult {
	k.t.Helper()
	ctx, cancel := context.WithTimeout(k.t.Context(), patience)
	defer cancel()
	out, err := pumps.RunPump(ctx, k.set.Pump.Site, k.input(sends...), quiet(1))
	if err != nil {
		k.t.Fatalf("pump: %v", err)
	}
	k.took(out, want)
	return out
}

func (k *talk) took(out pumps.RunPumpResult, want conversation.PumpReason) {
	k.t.Helper()
	if out.Pump.Reason != want {
		k.t.Fatalf("the pump returned for %s, want %s: %+v, process %+v", out.Pump.Reason, want, out.Pump.Problem, out.Process)
	}
	k.state = out.Pump.State
	if out.Pump.Turn != nil {
		k.resume = true
	}
}
