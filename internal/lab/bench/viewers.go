package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"fairlead.dev/fairlead/internal/lab"

	"filippo.io/age"

	"fairlead.dev/fairlead/activities/inquiry"
	"fairlead.dev/fairlead/activities/records"
	"fairlead.dev/fairlead/internal/api"
	"fairlead.dev/fairlead/internal/httpapi"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/internal/store"
)

// serveViewed, in the environment, makes this program the worker that is viewed.
const serveViewed = "FAIRLEAD_BENCH_VIEWED"

// measureViewers has many programs follow sessions that stream, over the events of the HTTP API, as
// open pages of the console do. The worker is a process of its own, with the real API, hub and store;
// its sessions are stand-ins that publish words as pumps do, each with the time at which it was said.
func measureViewers(ctx context.Context, o *options) (err error) {
	dir, err := os.MkdirTemp("/var/tmp", "fairlead-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	self, err := os.Executable()
	if err != nil {
		return err
	}
	socket := filepath.Join(dir, "api.sock")
	var said bytes.Buffer
	worker := exec.CommandContext(ctx, self)
	worker.Env = append(os.Environ(), serveViewed+"="+fmt.Sprint(dir, ":", o.viewed))
	worker.Stderr = &said
	if err := worker.Start(); err != nil {
		return err
	}
	defer func() {
		_ = worker.Process.Signal(syscall.SIGTERM)
		_ = worker.Wait()
	}()
	for begin := time.Now(); ; {
		c, err := net.Dial("unix", socket)
		if err == nil {
			c.Close()
			break
		}
		if time.Since(begin) > time.Minute {
			return fmt.Errorf("the worker does not listen: %w\n%s", err, said.String())
		}
		time.Sleep(50 * time.Millisecond)
	}
	time.Sleep(3 * time.Second)
	before := lab.Resident(worker.Process.Pid)
	v := &viewers{}
	following, stop := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer stop()
	begin := time.Now()
	for i := range o.viewers {
		wg.Go(func() { v.follow(following, socket, fmt.Sprintf("s-%04d", i%o.viewed)) })
	}
	if err := v.until(ctx, o.viewers, 5*time.Minute); err != nil {
		return err
	}
	joined := time.Since(begin)
	v.reset()
	took := processorTime()
	select {
	case <-time.After(o.streamed):
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	used := processorTime().since(took)
	after := lab.Resident(worker.Process.Pid)
	v.mu.Lock()
	defer v.mu.Unlock()
	each := (after - before) / int64(o.viewers) >> 10
	verdict := func(ok bool) string {
		if ok {
			return "reached"
		}
		return "missed"
	}
	fmt.Printf("  programs that follow, and sessions             %d, %d with %d words a second each; for %v\n", o.viewers, o.viewed, streamRate, o.streamed)
	fmt.Printf("  until all had their first word                 %v\n", joined.Round(10*time.Millisecond))
	fmt.Printf("  words that came                                %d, %.0f%% of what was said; %d streams broke\n", v.words, 100*float64(v.words)/(float64(o.viewers*streamRate)*o.streamed.Seconds()), v.broken)
	fmt.Printf("  late by more than 1 s                          %d words, the most %v; goal 0: %s\n", v.late, v.most.Round(time.Millisecond), verdict(v.late == 0))
	fmt.Printf("  memory of the worker                           %s, %s before: %d KiB for each, goal ≤ 100 KiB: %s\n", mib(after), mib(before), each, verdict(each <= 100))
	fmt.Printf("  the machine                                    %s; load average %s\n", used, loadAverage())
	return nil
}

// viewers are those who follow.
type viewers struct {
	mu     sync.Mutex
	heard  int // that have heard a word
	words  int
	late   int
	most   time.Duration
	broken int
	why    error
}

func (v *viewers) follow(ctx context.Context, socket, id string) {
	c := &http.Client{Transport: &http.Transport{DisableCompression: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", socket)
	}}}
	defer c.CloseIdleConnections()
	err := v.read(ctx, c, id)
	if ctx.Err() == nil {
		v.mu.Lock()
		defer v.mu.Unlock()
		v.broken++
		v.why = err
	}
}

func (v *viewers) read(ctx context.Context, c *http.Client, id string) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://worker/v1/sessions/"+id+"/events", nil)
	if err != nil {
		return err
	}
	resp, err := c.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return errors.New(resp.Status)
	}
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(make([]byte, 4<<10), 4<<20)
	first, delta := true, false
	for lines.Scan() {
		data, is := strings.CutPrefix(lines.Text(), "data: ")
		if !is {
			delta = lines.Text() == "event: delta" || delta && lines.Text() != ""
			continue
		}
		if !delta {
			continue
		}
		var d struct{ Text string }
		if json.Unmarshal([]byte(data), &d) == nil {
			v.take(d.Text, time.Now(), first)
			first = false
		}
	}
	return lines.Err()
}

// take takes the words of a delta. The first one may have all that was said before.
func (v *viewers) take(text string, now time.Time, first bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if first {
		v.heard++
		return
	}
	for word := range strings.FieldsSeq(text) {
		at, err := strconv.ParseInt(word, 10, 64)
		if err != nil {
			continue
		}
		v.words++
		lag := now.Sub(time.UnixMicro(at))
		if v.most = max(v.most, lag); lag > time.Second {
			v.late++
		}
	}
}

func (v *viewers) reset() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.words, v.late, v.most, v.broken = 0, 0, 0, 0
}

// until waits until so many have heard a word.
func (v *viewers) until(ctx context.Context, n int, most time.Duration) error {
	begin := time.Now()
	for {
		v.mu.Lock()
		heard, broken, why := v.heard, v.broken, v.why
		v.mu.Unlock()
		switch {
		case heard >= n:
			return nil
		case time.Since(begin) > most:
			return fmt.Errorf("%d of %d have heard a word after %v; %d streams broke (the last: %v)", heard, n, most, broken, why)
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("%d of %d follow: %w", heard, n, context.Cause(ctx))
		}
	}
}

// beViewed is the worker that is viewed.
func beViewed(spec string) error {
	dir, count, _ := strings.Cut(spec, ":")
	n, err := strconv.Atoi(count)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	id, err := age.GenerateX25519Identity()
	if err != nil {
		return err
	}
	blobs, err := store.Open(ctx, store.Options{URL: "file://" + filepath.Join(dir, "store"), Recipients: []age.Recipient{id.Recipient()}, Identities: []age.Identity{id}})
	if err != nil {
		return err
	}
	defer blobs.Close()
	log := slog.New(slog.DiscardHandler)
	hub := api.NewHub(log)
	server, err := api.Serve(api.Options{Listen: "unix://" + filepath.Join(dir, "api.sock"), Store: blobs, Hub: hub, Sessions: running{}, Logger: log,
		Status:   func() api.Status { return api.Status{} },
		Programs: func(r *api.Records) api.Programs { return httpapi.New(nobody{}, r) }})
	if err != nil {
		return err
	}
	defer server.Close()
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { say(ctx, hub, records.SessionTopic(fmt.Sprintf("s-%04d", i))) })
	}
	wg.Wait()
	return nil
}

// say publishes words at the rate of streams, as the pump of a session does.
func say(ctx context.Context, hub *api.Hub, topic string) {
	publish := func(kind string, v any) {
		raw, err := json.Marshal(v)
		if err == nil {
			hub.Publish(topic, records.LiveEvent{Kind: kind, Data: raw})
		}
	}
	publish(records.LiveState, protocol.SessionLive{Attached: true})
	at := int64(0)
	tick := time.NewTicker(time.Second / streamRate)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		word := fmt.Sprint(time.Now().UnixMicro(), " ")
		publish(records.LiveDelta, protocol.Delta{Item: "i1", Type: protocol.EntryAssistant, Turn: 1, At: at, Text: word})
		at += int64(len(word))
	}
}

// running are sessions that run.
type running struct{}

func (running) Running(context.Context, string) (bool, error) { return true, nil }

func (running) Now(context.Context, string) (inquiry.SessionNow, error) {
	return inquiry.SessionNow{Runs: true}, nil
}

// nobody commands nothing.
type nobody struct{ httpapi.Backend }
