package tunnel

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A bench is a client and a server, whose far end a test chooses.
type bench struct {
	*testing.T
	client *Client
	dials  atomic.Int64
	mu     sync.Mutex
	conns  []net.Conn // of the client to the server
	uses   chan Use   // of each server that has ended
	served sync.WaitGroup
}

// pair returns the ends of a TCP connection, which have CloseWrite.
func pair(t *testing.T) (a, b net.Conn) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	got := make(chan net.Conn, 1)
	go func() {
		c, err := ln.Accept()
		if err != nil {
			t.Error(err)
		}
		got <- c
	}()
	if a, err = net.Dial("tcp", ln.Addr().String()); err != nil {
		t.Fatal(err)
	}
	return a, <-got
}

func explain(err error) *Failure { return &Failure{Kind: "test", Message: "explained: " + err.Error()} }

func newBench(t *testing.T, o Options) *bench {
	t.Helper()
	b := &bench{T: t, uses: make(chan Use, 100)}
	o.Explain = explain
	ctx, cancel := context.WithCancel(context.Background())
	b.client = NewClient(func(context.Context) (net.Conn, error) {
		near, far := pair(t)
		b.dials.Add(1)
		b.mu.Lock()
		b.conns = append(b.conns, near)
		b.mu.Unlock()
		b.served.Go(func() { b.uses <- Serve(ctx, far, o) })
		return near, nil
	})
	t.Cleanup(func() {
		b.client.Close()
		cancel()
		b.served.Wait()
	})
	return b
}

// open returns the local program's end of a carried connection, and what Carry returns.
func (b *bench) open() (net.Conn, <-chan error) {
	b.Helper()
	app, local := pair(b.T)
	b.Cleanup(func() { app.Close() })
	end := make(chan error, 1)
	b.served.Go(func() { end <- b.client.Carry(context.Background(), local) })
	return app, end
}

// listen returns a Dial to a listener that serves each connection.
func listen(t *testing.T, serve func(*net.TCPConn)) func(context.Context) (net.Conn, error) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			all.Go(func() {
				defer c.Close()
				serve(c.(*net.TCPConn))
			})
		}
	})
	t.Cleanup(func() {
		ln.Close()
		all.Wait()
	})
	return func(ctx context.Context) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", ln.Addr().String())
	}
}

func echo(c *net.TCPConn) {
	_, _ = io.Copy(c, c)
	_ = c.CloseWrite()
}

func TestFiftyConnectionsCarryTheirOwnBytesUnchanged(t *testing.T) {
	b := newBench(t, Options{Dial: listen(t, echo)})
	var all sync.WaitGroup
	for i := range 50 {
		app, end := b.open()
		all.Go(func() {
			text := make([]byte, 100_000+i)
			r := rand.New(rand.NewPCG(1, uint64(i)))
			for j := range text {
				text[j] = byte(r.Uint32())
			}
			go func() {
				_, _ = app.Write(text)
				_ = app.(*net.TCPConn).CloseWrite()
			}()
			back, err := io.ReadAll(app)
			if err != nil || !bytes.Equal(back, text) {
				t.Errorf("connection %d: %d of %d bytes came back, %v", i, len(back), len(text), err)
			}
			if err := <-end; err != nil {
				t.Errorf("connection %d: %v", i, err)
			}
		})
	}
	all.Wait()
	if n := b.dials.Load(); n != 1 {
		t.Errorf("%d connections to the server, expected 1", n)
	}
	b.client.Close()
	use := <-b.uses
	if want := int64(50*100_000 + 49*50/2); use.Conns != 50 || use.Failed != 0 || use.Sent != want || use.Received != want {
		t.Errorf("used %+v", use)
	}
}

// A program may end one direction and go on with the other, on either side.
func TestEachDirectionEndsApart(t *testing.T) {
	for _, first := range []string{"near", "far"} {
		t.Run(first, func(t *testing.T) {
			b := newBench(t, Options{Dial: listen(t, func(c *net.TCPConn) {
				if first == "far" {
					_, _ = io.WriteString(c, "far")
					_ = c.CloseWrite()
				}
				all, err := io.ReadAll(c)
				if err != nil || string(all) != "near" {
					t.Errorf("the far end has %q, %v", all, err)
				}
				if first == "near" {
					_, _ = io.WriteString(c, "far")
				}
			})})
			app, end := b.open()
			if first == "far" {
				all, err := io.ReadAll(app)
				if err != nil || string(all) != "far" {
					t.Errorf("the near end has %q, %v", all, err)
				}
			}
			if _, err := io.WriteString(app, "near"); err != nil {
				t.Error(err)
			}
			_ = app.(*net.TCPConn).CloseWrite()
			if first == "near" {
				all, err := io.ReadAll(app)
				if err != nil || string(all) != "far" {
					t.Errorf("the near end has %q, %v", all, err)
				}
			}
			if err := <-end; err != nil {
				t.Error(err)
			}
		})
	}
}

func TestAFailureIsTold(t *testing.T) {
	b := newBench(t, Options{Dial: func(context.Context) (net.Conn, error) {
		return nil, errors.New(strings.Repeat("nobody there ", 1000))
	}})
	app, end := b.open()
	if got, err := io.ReadAll(app); err != nil || len(got) != 0 {
		t.Errorf("%q, %v", got, err)
	}
	var f *Failure
	if err := <-end; !errors.As(err, &f) || f.Kind != "test" || !strings.HasPrefix(f.Message, "explained: nobody there") || len(f.Message) > 600 {
		t.Errorf("got %v", err)
	}
}

// lossy breaks when it is told to, as a connection through an SSH channel does.
type lossy struct {
	net.Conn
	broken chan struct{}
}

func (l *lossy) Read(p []byte) (int, error) {
	<-l.broken
	return 0, errors.New("the SSH connection was lost")
}

func TestALostConnectionEndsWithAWordAndLaterOnesWork(t *testing.T) {
	dial := listen(t, echo)
	broken := make(chan struct{})
	var first atomic.Bool
	b := newBench(t, Options{Dial: func(ctx context.Context) (net.Conn, error) {
		c, err := dial(ctx)
		if err == nil && first.CompareAndSwap(false, true) {
			c = &lossy{c, broken}
		}
		return c, err
	}})
	app, end := b.open()
	if _, err := io.WriteString(app, "hello"); err != nil {
		t.Fatal(err)
	}
	close(broken)
	if _, err := io.ReadAll(app); err != nil {
		t.Log(err) // a reset is as good as an end
	}
	var f *Failure
	if err := <-end; !errors.As(err, &f) || f.Message != "explained: the SSH connection was lost" {
		t.Errorf("got %v", err)
	}
	roundTrip(b)
}

// roundTrip sends a word to an echo and has it back.
func roundTrip(b *bench) {
	b.Helper()
	app, end := b.open()
	if _, err := io.WriteString(app, "again"); err != nil {
		b.Error(err)
	}
	_ = app.(*net.TCPConn).CloseWrite()
	if got, err := io.ReadAll(app); err != nil || string(got) != "again" {
		b.Errorf("%q, %v", got, err)
	}
	if err := <-end; err != nil {
		b.Error(err)
	}
}

func TestAnotherConnectionToTheServerIsMadeAfterALoss(t *testing.T) {
	b := newBench(t, Options{Dial: listen(t, echo)})
	app, end := b.open()
	if _, err := io.WriteString(app, "x"); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(app, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	b.mu.Lock()
	b.conns[0].Close()
	b.mu.Unlock()
	if err := <-end; !errors.Is(err, ErrLost) {
		t.Errorf("got %v", err)
	}
	roundTrip(b)
	if n := b.dials.Load(); n != 2 {
		t.Errorf("%d connections to the server, expected 2", n)
	}
}

func TestAnIdleConnectionIsEnded(t *testing.T) {
	b := newBench(t, Options{Dial: listen(t, echo), Idle: 50 * time.Millisecond})
	app, end := b.open()
	if _, err := io.ReadAll(app); err != nil {
		t.Log(err)
	}
	var f *Failure
	if err := <-end; !errors.As(err, &f) || !strings.Contains(f.Message, ErrIdle.Error()) {
		t.Errorf("got %v", err)
	}
}

// The program that connects may go away at any time. The far end sees it.
func TestAProgramThatGoesAwayEndsItsConnection(t *testing.T) {
	gone := make(chan error, 1)
	b := newBench(t, Options{Dial: listen(t, func(c *net.TCPConn) {
		for {
			if _, err := c.Write(make([]byte, 1000)); err != nil {
				gone <- err
				return
			}
		}
	})})
	app, end := b.open()
	if _, err := io.ReadFull(app, make([]byte, 10_000)); err != nil {
		t.Fatal(err)
	}
	_ = app.(*net.TCPConn).SetLinger(0)
	app.Close()
	if err := <-end; err != nil {
		t.Error(err)
	}
	<-gone
}

// Connections whose data nobody reads hold up no other, whichever direction they stall in and
// however many they are.
func TestStalledConnectionsDelayNobodyElse(t *testing.T) {
	for _, direction := range []string{"to the far end", "from the far end"} {
		t.Run(direction, func(t *testing.T) {
			const stalled = MaxConns - 1
			quick, gone := listen(t, echo), make(chan struct{})
			var n atomic.Int64
			full, dialed := make(chan struct{}, stalled), make(chan struct{}, stalled)
			b := newBench(t, Options{Dial: func(ctx context.Context) (net.Conn, error) {
				if n.Add(1) > stalled {
					return quick(ctx)
				}
				dialed <- struct{}{}
				if direction == "to the far end" {
					return &silent{gone: gone}, nil
				}
				return &silent{gone: gone, endless: true, count: counter{need: clientStream, full: full}}, nil
			}})
			t.Cleanup(sync.OnceFunc(func() { close(gone) }))
			var programs []net.Conn
			for range stalled {
				near, local := net.Pipe()
				programs = append(programs, near)
				b.served.Go(func() { _ = b.client.Carry(t.Context(), local) }) // which ends when the test does
				if direction == "to the far end" {
					b.served.Go(func() {
						count := counter{need: serverStream, full: full}
						for {
							m, err := near.Write(make([]byte, 8<<10))
							if count.add(m); err != nil {
								return
							}
						}
					})
				}
			}
			for range stalled {
				<-dialed
			}
			for i := range stalled {
				select {
				case <-full:
				case <-time.After(2 * time.Minute): // else a failure would take all the time of the tests
					t.Fatalf("%d connections of %d have filled what they have of the tunnel", i, stalled)
				}
			}
			for range 3 {
				roundTrip(b)
			}
			for _, near := range programs {
				near.Close()
			}
		})
	}
}

// A counter says once that it has counted what it needs.
type counter struct {
	need, n int
	full    chan<- struct{}
}

func (c *counter) add(n int) {
	before := c.n
	if c.n += n; c.full != nil && before < c.need && c.n >= c.need {
		c.full <- struct{}{}
	}
}

// A silent far end takes nothing. It sends nothing either, unless it is endless.
type silent struct {
	net.Conn
	gone    <-chan struct{}
	endless bool
	count   counter
}

func (s *silent) Read(p []byte) (int, error) {
	if !s.endless {
		<-s.gone
		return 0, io.EOF
	}
	select {
	case <-s.gone:
		return 0, io.EOF
	default:
	}
	s.count.add(len(p))
	return len(p), nil
}

func (s *silent) Write([]byte) (int, error) {
	<-s.gone
	return 0, net.ErrClosed
}

func (s *silent) CloseWrite() error { return nil }
func (s *silent) Close() error      { return nil }

func TestATunnelWithoutConnectionsIsEndedAndTheNextOneOpensAnother(t *testing.T) {
	dial := listen(t, echo)
	var n atomic.Int64
	uses := make(chan Use, 2)
	var served sync.WaitGroup
	client := NewClient(func(context.Context) (net.Conn, error) {
		near, far := pair(t)
		o := Options{Dial: dial, Explain: explain}
		if n.Add(1) == 1 {
			o.Unused = time.Millisecond
		}
		served.Go(func() { uses <- Serve(context.Background(), far, o) })
		return near, nil
	})
	t.Cleanup(served.Wait)
	t.Cleanup(func() { client.Close() })
	if err := client.Connect(t.Context()); err != nil {
		t.Fatal(err)
	}
	if use := <-uses; use != (Use{}) {
		t.Errorf("used %+v", use)
	}
	for n.Load() < 2 { // until the client knows that the first one has ended
		if err := client.Connect(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Millisecond)
	}
	roundTrip(&bench{T: t, client: client})
}

// Whoever opens a tunnel and says nothing holds no place.
func TestAPeerThatDoesNotBeginIsGivenUp(t *testing.T) {
	near, far := pair(t)
	defer near.Close()
	asked := &deadlines{Conn: far}
	done := make(chan Use, 1)
	go func() { done <- Serve(t.Context(), asked, Options{Explain: explain}) }()
	<-done
}

// A deadlines is a connection whose first read deadline comes at once.
type deadlines struct{ net.Conn }

func (d *deadlines) SetReadDeadline(at time.Time) error {
	if !at.IsZero() {
		at = time.Unix(1, 0)
	}
	return d.Conn.SetReadDeadline(at)
}

func FuzzFrames(f *testing.F) {
	f.Add([]byte("d\x00\x03abce\x00\x00"))
	f.Add([]byte("x\x00\x02{}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		r := newFrames(bytes.NewReader(data))
		var got int
		for range len(data) + 1 {
			piece, err := r.next(make([]byte, 16))
			got += len(piece)
			if err != nil {
				return
			}
		}
		t.Fatalf("%d bytes of data of %d bytes, and no end", got, len(data))
	})
}
