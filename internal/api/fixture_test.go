package api

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"filippo.io/age"
	"go.uber.org/goleak"

	"fairlead.dev/fairlead/activities/inquiry"
	"fairlead.dev/fairlead/activities/records"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/internal/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// openStore opens a store in a fresh folder.
func openStore(t *testing.T) *store.Store {
	t.Helper()
	id, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	st, err := store.Open(t.Context(), store.Options{
		URL:        "file://" + filepath.Join(t.TempDir(), "store"),
		Recipients: []age.Recipient{id.Recipient()},
		Identities: []age.Identity{id},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { st.Close() })
	return st
}

// sessions is a Sessions whose answers the test sets.
type sessions struct {
	closed atomic.Bool
	none   atomic.Bool
	now    sync.Map // by session; an error means that the session does not answer
}

func (s *sessions) Now(_ context.Context, session string) (inquiry.SessionNow, error) {
	switch now, _ := s.now.Load(session); now := now.(type) {
	case inquiry.SessionNow:
		return now, nil
	case error:
		return inquiry.SessionNow{}, now
	}
	return inquiry.SessionNow{Runs: !s.closed.Load() && !s.none.Load()}, nil
}

func (s *sessions) Running(context.Context, string) (bool, error) {
	if s.none.Load() {
		return false, ErrNoSession
	}
	return !s.closed.Load(), nil
}

// A bench is a server with its parts.
type bench struct {
	*testing.T
	hub      *Hub
	store    *store.Store
	sessions *sessions
	desk     *seedDesk
	server   *Server
}

// A seedDesk is a Seeds that permits the export of one generation, or refuses, and records
// who asked.
type seedDesk struct {
	sync.Mutex
	view  protocol.SeedView
	err   error
	asked []protocol.ExportSeed
}

func (d *seedDesk) Export(_ context.Context, _ string, in protocol.ExportSeed) (protocol.SeedView, error) {
	d.Lock()
	defer d.Unlock()
	d.asked = append(d.asked, in)
	return d.view, d.err
}

func (d *seedDesk) set(view protocol.SeedView, err error) {
	d.Lock()
	defer d.Unlock()
	d.view, d.err, d.asked = view, err, nil
}

func (d *seedDesk) who() []protocol.ExportSeed {
	d.Lock()
	defer d.Unlock()
	return d.asked
}

// serve starts a server on a unix socket; change may alter its options.
func serve(t *testing.T, change func(*Options)) *bench {
	t.Helper()
	b := &bench{T: t, hub: NewHub(nil), store: openStore(t), sessions: &sessions{}, desk: &seedDesk{err: problem(http.StatusNotFound, ErrNotFound, "there is no such seed")}}
	opts := Options{
		Listen: "unix://" + filepath.Join(t.TempDir(), "api.sock"),
		Store:  b.store, Hub: b.hub, Sessions: b.sessions, Seeds: b.desk,
		Status: func() Status {
			return Status{Identity: "w", PID: 7, Ready: true, Store: StoreInfo{URL: "file:///where-the-store-is"}}
		},
	}
	if change != nil {
		change(&opts)
	}
	srv, err := Serve(opts)
	if err != nil {
		t.Fatal(err)
	}
	b.server = srv
	t.Cleanup(func() {
		if err := srv.Close(); err != nil {
			t.Errorf("close the server: %v", err)
		}
	})
	return b
}

// client makes a client for an endpoint. If endpoint is empty, it is the server's own.
func (b *bench) client(endpoint string) *Client {
	b.Helper()
	if endpoint == "" {
		endpoint = b.server.Address()
	}
	c, err := NewClient(endpoint, ClientOptions{Patience: 20 * time.Second})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { c.Close() })
	return c
}

func entry(seq int64, id, text string) protocol.Entry {
	return protocol.Entry{Seq: seq, ID: id, Item: "of-" + id, Type: protocol.EntryAssistant, Turn: 1, Text: text, At: time.Unix(seq, 0).UTC()}
}

// keep puts entries into the store as one segment of a pump.
func (b *bench) keep(session string, generation, pump int, entries ...protocol.Entry) {
	b.Helper()
	var buf bytes.Buffer
	for _, e := range entries {
		data, err := json.Marshal(e)
		if err != nil {
			b.Fatal(err)
		}
		buf.Write(append(data, '\n'))
	}
	key := fmt.Sprintf("transcripts/%s/%012d-%d.%d.0", session, entries[0].Seq, generation, pump)
	if err := b.store.Create(context.Background(), key, buf.Bytes()); err != nil {
		b.Error(err)
	}
}

// show publishes a value as the activities do.
func (b *bench) show(topic, kind string, seq int64, v any) {
	b.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		b.Fatal(err)
	}
	b.hub.Publish(topic, records.LiveEvent{Kind: kind, Seq: seq, Data: data})
}

func (b *bench) showEntry(session string, e protocol.Entry) {
	b.show(records.SessionTopic(session), records.LiveEntry, e.Seq, e)
}

func (b *bench) showDelta(session, item string, at int64, text string) {
	b.show(records.SessionTopic(session), records.LiveDelta, 0,
		protocol.Delta{Item: "of-" + item, Type: protocol.EntryAssistant, Turn: 1, At: at, Text: text})
}

func (b *bench) attached(session string, yes bool) {
	b.show(records.SessionTopic(session), records.LiveState, 0, protocol.SessionLive{Attached: yes})
}

// wait polls until ok returns true, or fails the test.
func wait(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(5 * time.Minute); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain: %s", what)
		}
	}
}

// rough starts a proxy that cuts every connection after a random number of bytes. It
// returns the endpoint to connect to.
func rough(t *testing.T, endpoint string, seed uint64) string {
	t.Helper()
	return roughly(t, endpoint, seed, 20000)
}

func roughly(t *testing.T, endpoint string, seed uint64, most int64) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	path := endpoint[len("unix://"):]
	var wg sync.WaitGroup
	ctx, cancel := context.WithCancel(context.Background())
	rnd := rand.New(rand.NewPCG(seed, 1))
	wg.Go(func() {
		for {
			in, err := ln.Accept()
			if err != nil {
				return
			}
			limit := rnd.Int64N(most)
			wg.Go(func() {
				defer in.Close()
				out, err := net.Dial("unix", path)
				if err != nil {
					return
				}
				defer out.Close()
				stop := context.AfterFunc(ctx, func() { in.Close(); out.Close() })
				defer stop()
				wg.Go(func() { _, _ = io.Copy(out, in) })      // ends when either is closed
				_, _ = io.Copy(in, io.LimitReader(out, limit)) // and then the connection is cut
			})
		}
	})
	t.Cleanup(func() {
		cancel()
		ln.Close()
		wg.Wait()
	})
	return "http://" + ln.Addr().String()
}
