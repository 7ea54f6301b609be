package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/metrics"
	"runtime/pprof"
	"time"

	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/hostexec/hosttest"
	"fairlead.dev/fairlead/internal/gateway"
)

// gateBody is about what codex sends in the middle of a conversation.
const gateBody = 60 << 10

// measureGateway asks a provider through the gateways of sessions on a host, and directly
// from that host.
func measureGateway(ctx context.Context, o *options) error {
	if o.profile != "" {
		runtime.MemProfileRate = 4 << 10
	}
	for _, way := range []time.Duration{0, 25 * time.Millisecond} {
		if err := gateLatency(ctx, o, way); err != nil {
			return err
		}
	}
	return gateCrowd(ctx, o)
}

// A gated host has gateways of sessions, which ask one provider.
type gated struct {
	dir      string
	pool     *hostexec.Pool
	sshd     *hosttest.SSHD
	host     hostexec.Host
	base     string
	forwards []*hostexec.Forward
	asks     []gateAsk
	stop     []func() error
}

func newGated(ctx context.Context, line *hosttest.DelayLine) (g *gated, err error) {
	g = &gated{}
	defer func() {
		if err != nil {
			err = errors.Join(err, g.Close())
		}
	}()
	if g.dir, err = os.MkdirTemp("/var/tmp", "fairlead-bench-"); err != nil {
		return g, err
	}
	listen := "127.0.0.1:0"
	opts := hosttest.Options{Root: filepath.Join(g.dir, "root")}
	if line != nil {
		opts.Behind, listen = line, net.JoinHostPort(line.Near(), "0")
	}
	base, stop, err := provider(ctx, listen)
	if err != nil {
		return g, err
	}
	g.base = base
	g.stop = append(g.stop, stop)
	if g.sshd, err = hosttest.NewSSHD(ctx, g.dir, opts); err != nil {
		return g, err
	}
	g.pool = hostexec.NewPool(hostexec.PoolOptions{Logger: slog.New(slog.DiscardHandler)})
	g.host, err = g.pool.Host(g.sshd.Spec())
	return g, err
}

// open opens the gateway of one more session.
func (g *gated) open(ctx context.Context) error {
	name := fmt.Sprintf("s%d", len(g.forwards))
	tokens := &gateway.Tokens{}
	gate, err := gateway.New(gateway.Options{Tokens: tokens, Upstreams: []gateway.Upstream{{Name: "bench", BaseURL: g.base, Key: "sk-bench-0123456789abcdef"}}})
	if err != nil {
		return err
	}
	f, err := g.pool.OpenForward(ctx, g.host, hostexec.ForwardSpec{Name: "model",
		Fence: hostexec.Fence{Dir: filepath.Join(g.dir, "sessions", name), Epoch: hostexec.Epoch{Generation: 1}}})
	if err != nil {
		return err
	}
	go func() { _ = gate.Serve(f) }() // until the forward ends
	g.forwards = append(g.forwards, f)
	g.asks = append(g.asks, gateAsk{URL: fmt.Sprintf("http://127.0.0.1:%d/v1", f.Port()), Token: tokens.Issue(time.Now(), 0)})
	return nil
}

func (g *gated) Close() error {
	var errs []error
	if g.pool != nil {
		errs = append(errs, g.pool.Close())
	}
	if g.sshd != nil {
		errs = append(errs, g.sshd.Close())
	}
	for _, stop := range g.stop {
		errs = append(errs, stop())
	}
	return errors.Join(append(errs, os.RemoveAll(g.dir))...)
}

// gateLatency asks by turns through a gateway and directly, over a line that takes way in
// each direction.
func gateLatency(ctx context.Context, o *options, way time.Duration) (err error) {
	var line *hosttest.DelayLine
	var there func(context.Context, string, ...string) *exec.Cmd
	where := "loopback"
	if way > 0 {
		if line, err = hosttest.NewDelayLine(ctx, way); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, line.Close()) }()
		there, where = line.Command, fmt.Sprintf("a line of %v", 2*way)
	}
	g, err := newGated(ctx, line)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, g.Close()) }()
	if err := g.open(ctx); err != nil {
		return err
	}
	var ours, plain gateSeen
	for round := range 6 {
		for _, k := range []struct {
			to  *gateSeen
			ask gateAsk
		}{{&ours, g.asks[0]}, {&plain, gateAsk{URL: g.base}}} {
			seen, err := ask(ctx, gateTask{Asks: []gateAsk{k.ask}, Times: o.asked, Events: 40, Pause: 5 * time.Millisecond, Body: gateBody}, there)
			if err != nil {
				return fmt.Errorf("ask %s: %w", k.ask.URL, err)
			}
			if round > 0 { // the first one is the warm-up
				k.to.First, k.to.Late = append(k.to.First, seen.First[1:]...), append(k.to.Late, seen.Late...)
			}
		}
	}
	fmt.Printf(" %s, n %d:\n", where, len(ours.First))
	beside := func(what string, ours, plain series, goal time.Duration) {
		more := ours.at(.5) - plain.at(.5)
		verdict := "reached"
		if more > goal {
			verdict = "missed"
		}
		fmt.Printf("  %-28s ours %v  directly %v  more %v, goal ≤ %v: %s\n", what, ours, plain, more.Round(time.Microsecond), goal, verdict)
	}
	beside("to the first event", ours.First, plain.First, 2*way+5*time.Millisecond)
	beside("each event", ours.Late, plain.Late, time.Millisecond)
	return nil
}

// gateCrowd streams through the gateways of many sessions of one worker.
func gateCrowd(ctx context.Context, o *options) (err error) {
	before := memoryNow()
	g, err := newGated(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, g.Close()) }()
	for range o.streams {
		if err := g.open(ctx); err != nil {
			return err
		}
	}
	// The buffers of an SSH connection grow with the first request.
	if _, err := ask(ctx, gateTask{Asks: g.asks, Crowd: true, Events: 1, Body: gateBody}, nil); err != nil {
		return err
	}
	open := memoryNow()
	events := int(o.streamed/time.Second) * streamRate
	type result struct {
		seen gateSeen
		err  error
	}
	done := make(chan result, 1)
	cpu := processorTime()
	begin := time.Now()
	go func() {
		seen, err := ask(ctx, gateTask{Asks: g.asks, Crowd: true, Events: events, Pause: time.Second / streamRate, Body: gateBody}, nil)
		done <- result{seen, err}
	}()
	select { // all of them stream
	case r := <-done:
		return errors.Join(errors.New("the streams ended early"), r.err)
	case <-time.After(time.Duration(o.streams)*10*time.Millisecond + o.streamed/2):
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	streaming := memoryNow()
	if err := heapProfile(o.profile); err != nil {
		return err
	}
	took := processorTime().since(cpu)
	r := <-done
	if r.err != nil {
		return r.err
	}
	late := 0
	for _, d := range r.seen.Late {
		if d > time.Second {
			late++
		}
	}
	n := int64(o.streams)
	fmt.Printf(" %d streams, each of a session of its own, %d events a second each, for %v:\n", n, streamRate, time.Since(begin).Round(time.Second))
	fmt.Printf("  late by more than 1 s                          %d of %d, goal 0; p50 %v p99 %v max %v\n", late, len(r.seen.Late),
		r.seen.Late.at(.5).Round(time.Millisecond), r.seen.Late.at(.99).Round(time.Millisecond), r.seen.Late.at(1).Round(time.Millisecond))
	stream, forward := streaming.minus(open, n), open.minus(before, n)
	verdict := "reached"
	if stream.held() > 64 {
		verdict = "missed"
	}
	fmt.Printf("  memory that a stream holds                     %d KiB (objects %d, stacks %d), goal ≤ 64: %s; with what waits for collection while all of them stream %d KiB\n",
		stream.held(), stream.live, stream.stacks, verdict, stream.heap+stream.stacks)
	fmt.Printf("  a session's open forward and SSH connection    %d KiB (objects %d, stacks %d)\n", forward.held(), forward.live, forward.stacks)
	fmt.Printf("  the machine                                    %s\n", took)
	return nil
}

// heapProfile writes a profile of this program's memory into a folder, if there is one.
func heapProfile(dir string) error {
	if dir == "" {
		return nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	f, err := os.Create(filepath.Join(dir, "gateway-heap.pprof"))
	if err != nil {
		return err
	}
	return errors.Join(pprof.WriteHeapProfile(f), f.Close())
}

// A memory says what this program uses: objects that are reachable, stacks, and the heap with all
// that waits to be collected, of which a loaded machine has more. The provider and those who ask are
// other processes.
type memory struct{ live, stacks, heap int64 }

func (m memory) held() int64 { return m.live + m.stacks }

// minus returns what each of n is more, in KiB.
func (m memory) minus(before memory, n int64) memory {
	return memory{(m.live - before.live) / n >> 10, (m.stacks - before.stacks) / n >> 10, (m.heap - before.heap) / n >> 10}
}

func memoryNow() memory {
	runtime.GC()
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}} // as the collection found it
	metrics.Read(live)
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return memory{int64(live[0].Value.Uint64()), int64(m.StackInuse), int64(m.HeapInuse)}
}
