package tunnel

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

const connectPath = "/connect"

// A Client carries connections to a server of tunnels. It is safe for concurrent use.
type Client struct {
	transport *http.Transport
	turn      chan attempt // holds the last one
}

// An attempt to connect to the server.
type attempt struct {
	conn *http.ClientConn // nil if there is none
	err  error
	at   time.Time // when it failed
}

// NewClient returns a client. dial makes the connection to the server, at first and whenever it
// was lost.
func NewClient(dial func(context.Context) (net.Conn, error)) *Client {
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	c := &Client{turn: make(chan attempt, 1), transport: &http.Transport{
		Protocols: &protocols, DisableCompression: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) },
		HTTP2: &http.HTTP2Config{MaxReceiveBufferPerStream: clientStream,
			SendPingTimeout: pingEvery, PingTimeout: pingWait},
	}}
	c.turn <- attempt{}
	return c
}

// Connect connects to the server, unless that is done.
func (c *Client) Connect(ctx context.Context) error {
	_, err := c.conn(ctx)
	return err
}

// conn returns the connection to the server, and makes it if need be. Who waits for an attempt
// that fails gets its error, and makes none of its own.
func (c *Client) conn(ctx context.Context) (*http.ClientConn, error) {
	began := time.Now()
	var last attempt
	select {
	case last = <-c.turn:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	defer func() { c.turn <- last }()
	switch {
	case last.conn != nil && last.conn.Err() == nil:
		return last.conn, nil
	case last.conn != nil:
		last.conn.Close()
	case last.err != nil && last.at.After(began) && ctx.Err() == nil:
		return nil, last.err
	}
	cc, err := c.transport.NewClientConn(ctx, "http", "tunnel:80")
	if last = (attempt{err: err, at: time.Now()}); err == nil {
		last = attempt{conn: cc}
	}
	return cc, err
}

// Close ends the connection to the server, and with it all that it carries.
func (c *Client) Close() error {
	last := <-c.turn
	c.turn <- attempt{}
	if last.conn == nil {
		return nil
	}
	return last.conn.Close()
}

// Carry carries a connection until both directions have ended, and closes it. It returns a
// *Failure if the far end cannot be reached or was lost, and an error of the client's dial if
// the server cannot be reached. That the local program has gone is no error.
func (c *Client) Carry(ctx context.Context, local net.Conn) error {
	defer local.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(ctx, func() { local.Close() })()
	for try := 1; ; try++ {
		cc, err := c.conn(ctx)
		if err != nil {
			return err
		}
		body := &localBody{from: local}
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://tunnel"+connectPath, body)
		if err != nil {
			return err
		}
		req.ContentLength = -1
		resp, err := cc.RoundTrip(req)
		switch {
		case err == nil:
			return receive(resp, local, body)
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case body.failed.Load():
			return nil
		case body.read.Load() || try >= 3:
			return lost(err)
		}
		// The server never saw the request: the connection to it was already lost.
	}
}

// ErrLost means that the connection to the server was lost.
var ErrLost = errors.New("the connection to the worker was lost")

func lost(err error) error { return fmt.Errorf("%w: %w", ErrLost, err) }

func receive(resp *http.Response, local net.Conn, body *localBody) error {
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		text, err := io.ReadAll(io.LimitReader(resp.Body, maxFailure))
		if err != nil {
			return lost(err)
		}
		return failureOf(text)
	}
	from := newFrames(resp.Body)
	buf := make([]byte, maxPiece)
	for {
		data, err := from.next(buf)
		var failure *Failure
		switch {
		case err == nil:
			if _, err := local.Write(data); err != nil {
				return nil // the local program has gone
			}
			continue
		case err == io.EOF:
			if half, ok := local.(interface{ CloseWrite() error }); ok {
				_ = half.CloseWrite() // or the local program has gone
			}
			// The server ends its answer when it has all that the local program sends.
			_, err = io.Copy(io.Discard, resp.Body)
			if err == nil || body.failed.Load() {
				return nil
			}
		case errors.As(err, &failure):
			return failure
		case body.failed.Load():
			return nil
		}
		return lost(err)
	}
}

// A localBody is what a local program sends.
type localBody struct {
	from                 net.Conn
	read, failed, closed atomic.Bool
}

func (b *localBody) Read(p []byte) (int, error) {
	b.read.Store(true)
	n, err := b.from.Read(p)
	if err != nil && err != io.EOF && !b.closed.Load() {
		b.failed.Store(true)
	}
	return n, err
}

// Close ends a read. The program may still be sent something.
func (b *localBody) Close() error {
	b.closed.Store(true)
	return b.from.SetReadDeadline(time.Unix(1, 0))
}
