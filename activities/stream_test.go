package activities

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"fairlead.dev/fairlead/activities/folder"
	"fairlead.dev/fairlead/activities/places"
	"fairlead.dev/fairlead/activities/pumps"
	"fairlead.dev/fairlead/activities/records"
	"fairlead.dev/fairlead/activities/site"
	"fairlead.dev/fairlead/conversation"
	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/internal/lab/scriptedmodel"
	"fairlead.dev/fairlead/internal/lab/standin"
	"fairlead.dev/fairlead/internal/protocol"
)

// standInCodex returns a program that stands in for codex and does in a turn what the
// message says. The tests build it only once.
func standInCodex(t *testing.T) string {
	t.Helper()
	stand.once.Do(func() {
		stand.dir = filepath.Join(ready.dir, "standin")
		stand.err = standin.Pack(context.Background(), "..", stand.dir)
	})
	if stand.err != nil {
		t.Fatal(stand.err)
	}
	return filepath.Join(stand.dir, "bin", "codex")
}

var stand struct {
	once sync.Once
	dir  string
	err  error
}

func standIn(t *testing.T, id string) *talk {
	t.Helper()
	k := handMade(t, id, scriptedmodel.Serve(t, `rules: []`))
	k.layout.Codex = standInCodex(t)
	return k
}

// beside makes another session on the same worker and host.
func (k *talk) beside(id string) *talk {
	k.t.Helper()
	n := &talk{bed: k.bed, claim: protocol.Claim{Session: id, Host: k.spec, Generation: 1}}
	n.layout = folder.LayoutOf(k.layout.Root, id)
	n.layout.Codex = k.layout.Codex
	n.makeFolders(1)
	k.t.Cleanup(n.kill)
	return n
}

func TestLineOf20MBPasses(t *testing.T) {
	k := standIn(t, "line")
	k.start()
	out := k.pump(conversation.TurnEnded, k.message("line 20MB\nsay 3"))
	var longest int
	for _, e := range readAll(t, k.store, "line", 1) {
		if e.Status == "warning" {
			t.Errorf("skipped: %s", e.Text)
		}
		longest = max(longest, len(e.Text))
	}
	if longest < 19_000_000 || out.Pump.Turn.Status != "completed" || !out.Pump.Turn.FinalTruncated {
		t.Errorf("the longest entry is of %d bytes, turn %s", longest, out.Pump.Turn.Status)
	}
}

func TestLineAboveTheBoundIsReportedAndSkipped(t *testing.T) {
	k := standIn(t, "over")
	k.set.site.MaxLine = 1 << 20
	k.start()
	out := k.pump(conversation.TurnEnded, k.message("line 3MB\nlongask 2MB\nnoise\nsay 3"))
	if out.Pump.Turn.Status != "completed" || len(out.Pump.Requests) != 0 {
		t.Errorf("turn %+v", out.Pump.Turn)
	}
	skipped, last := 0, protocol.Entry{}
	for _, e := range readAll(t, k.store, "over", 1) {
		if strings.Contains(e.Text, "was skipped, the bound is 1048576") {
			skipped++
		}
		if e.Type == protocol.EntryAssistant {
			last = e
		}
	}
	if skipped < 2 || last.Text == "" {
		t.Errorf("%d lines are said to be skipped, the last message is %q", skipped, last.Text)
	}
	out = k.pump(conversation.TurnEnded, k.message("say 2"))
	if out.Pump.Turn.Status != "completed" {
		t.Errorf("the session did not go on: %+v", out.Pump.Turn)
	}
}

// A counter is a Live that only counts bytes.
type counter struct{ bytes atomic.Int64 }

func (c *counter) Publish(_ string, ev records.LiveEvent) { c.bytes.Add(int64(len(ev.Data))) }

func peak(do func()) (most uint64) {
	stop, joined := make(chan struct{}), make(chan struct{})
	var m runtime.MemStats
	look := func() {
		runtime.GC()
		runtime.ReadMemStats(&m)
		most = max(most, m.HeapAlloc)
	}
	go func() {
		defer close(joined)
		tick := time.NewTicker(40 * time.Millisecond)
		defer tick.Stop()
		for {
			look()
			select {
			case <-tick.C:
			case <-stop:
				return
			}
		}
	}()
	do()
	close(stop)
	<-joined
	return most
}

func TestBurstDoesNotGrowTheWorker(t *testing.T) {
	k := standIn(t, "burst")
	k.set.site.Live = &counter{}
	k.start()
	k.pump(conversation.TurnEnded, k.message("burst 2MB"))
	short := peak(func() { k.pump(conversation.TurnEnded, k.message("burst 10MB")) })
	long := peak(func() { k.pump(conversation.TurnEnded, k.message("burst 100MB")) })
	t.Logf("heap at most %d KiB in a stream of 10 MB, %d KiB in one of 100 MB", short>>10, long>>10)
	if long > short+short/2 {
		t.Errorf("a stream ten times as long takes %d bytes of memory, %d before", long, short)
	}
	if k.state.Cursor.Offset < 100_000_000 {
		t.Errorf("only %d bytes were read", k.state.Cursor.Offset)
	}
}

func TestBurstDoesNotStarveOtherSessions(t *testing.T) {
	loud := standIn(t, "loud")
	loud.set.site.Live = &counter{}
	loud.start()
	calm := loud.beside("calm")
	calm.start()
	calm.pump(conversation.TurnEnded, calm.message("say 2"))
	var beats atomic.Int64
	a := pumps.Attempt{N: 1, Beat: func(b pumps.PumpBeat) { beats.Store(b.Offset) }}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	// The output does not end before it is interrupted.
	done := loud.pumpBeside(ctx, loud.bed, loud.input(loud.message("burst 100000MB")), a)
	live := loud.set.site.Live.(*counter)
	await(t, "the burst", func() bool { return live.bytes.Load() > 5<<20 })
	for range 10 {
		before := live.bytes.Load()
		calm.pump(conversation.TurnEnded, calm.message("say 20"))
		await(t, "more of the burst", func() bool { return live.bytes.Load() > before+1<<20 })
	}
	stop()
	got := <-done
	if got.err != nil {
		t.Fatal(got.err)
	}
	loud.took(got.out, conversation.PumpCancelled)
	// The program writes faster than the pump reads, and can still be stopped.
	send := conversation.Send{ID: "i", Kind: conversation.SendInterrupt}
	for {
		in := loud.input(send)
		out, err := pumps.RunPump(t.Context(), loud.set.Pump.Site, in, quiet(1))
		if err != nil {
			t.Fatal(err)
		}
		loud.state = out.Pump.State
		if out.Pump.Reason == conversation.TurnEnded {
			if out.Pump.Turn.Status != "interrupted" {
				t.Errorf("turn %+v", out.Pump.Turn)
			}
			return
		}
		send.Uncertain = true
		if out.Pump.Reason != conversation.Bound || out.Pump.State.Cursor.Offset <= in.Pump.State.Cursor.Offset {
			t.Fatalf("the pump returned for %s at %+v", out.Pump.Reason, out.Pump.State.Cursor)
		}
	}
}

// allocated returns how much of a file the file system has allocated, and the file's
// size.
func allocated(t *testing.T, name string) (blocks, size int64) {
	t.Helper()
	fi, err := os.Stat(name)
	if err != nil {
		t.Fatal(err)
	}
	st := fi.Sys().(*syscall.Stat_t)
	return st.Blocks * 512, st.Size
}

func TestJournalOfManyTurnsStaysShort(t *testing.T) {
	k := standIn(t, "months")
	k.set.site.Live = &counter{}
	k.start()
	name := filepath.Join(folder.ServerDir(k.layout, 1), "out.log")
	const turns, perTurn = 250, 240_000
	var most int64
	for n := range turns {
		out := k.pump(conversation.TurnEnded, k.message(fmt.Sprintf("line %dB", perTurn)))
		if out.Pump.Turn.Status != "completed" || out.Pump.State.Untrimmable {
			t.Fatalf("turn %d: %+v, %+v", n, out.Pump.Turn, out.Pump.State)
		}
		blocks, _ := allocated(t, name)
		most = max(most, blocks)
	}
	_, size := allocated(t, name)
	t.Logf("%d turns, a journal of %d KiB, of which at most %d KiB were kept", turns, size>>10, most>>10)
	if size < turns*perTurn || most > pumps.TrimStep+1<<20 {
		t.Errorf("a journal of %d bytes took %d", size, most)
	}
	// An attempt at an earlier pump finds no journal below Trimmed, and must not need
	// it.
	if k.state.Trimmed == 0 || k.state.Trimmed > k.state.Rewind {
		t.Errorf("trimmed below %d, the next pump begins at %d", k.state.Trimmed, k.state.Rewind)
	}
}

func TestFoldersOfFormerProcessesAreRemoved(t *testing.T) {
	k := standIn(t, "former")
	stop := func() {
		t.Helper()
		if _, err := places.StopServer(t.Context(), k.set.Place.Site, places.StopServerInput{Claim: k.next(), Layout: k.layout, Incarnation: k.incarnation}, 1); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 4 {
		k.start()
		k.pump(conversation.TurnEnded, k.message("say 2"))
		k.resume = true
		if i < 3 {
			stop()
		}
	}
	there, err := os.ReadDir(filepath.Join(k.layout.Dir, "proc"))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range there {
		names = append(names, e.Name())
	}
	if got := strings.Join(names, " "); got != "app-server.3 app-server.4" {
		t.Errorf("left: %s", got)
	}
}

// noHoles is a pool of hosts that cannot punch holes into files.
type noHoles struct{ site.HostPool }

func (p noHoles) Host(spec protocol.HostSpec) (hostexec.Host, error) {
	h, err := p.HostPool.Host(spec)
	return plainHost{h}, err
}

type plainHost struct{ hostexec.Host }

func (h plainHost) Run(ctx context.Context, c hostexec.Command) (hostexec.Result, error) {
	if strings.Contains(c.Script, "fairlead-trimmed") {
		return hostexec.Result{}, fmt.Errorf("%w: fallocate -p", hostexec.ErrUnsupported)
	}
	return h.Host.Run(ctx, c)
}

func TestHostThatCannotTrimIsRemembered(t *testing.T) {
	k := standIn(t, "nohole")
	k.set.site.Pool = noHoles{k.pool}
	k.start()
	if out := k.pump(conversation.TurnEnded, k.message("line 5MB")); out.Pump.State.Untrimmable {
		t.Error("there was nothing to trim yet")
	}
	out := k.pump(conversation.TurnEnded, k.message("say 2"))
	if st := out.Pump.State; !st.Untrimmable || st.Trimmed != 0 || out.Pump.Turn.Status != "completed" {
		t.Errorf("state %+v, turn %+v", st, out.Pump.Turn)
	}
}
