package egress

import (
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// ends are the two ends of a connection.
type ends struct {
	near, far net.Conn
	moved     atomic.Int64 // when something was carried, as UnixNano
	lost      func(error) bool
	quit      chan struct{}
	once      sync.Once
	mu        sync.Mutex
	why       Kind // guarded by mu; empty if the ends closed by themselves
}

func newEnds(near, far net.Conn, idle time.Duration, lost func(error) bool) *ends {
	e := &ends{near: near, far: far, lost: lost, quit: make(chan struct{})}
	e.touch()
	go e.watch(idle)
	return e
}

func (e *ends) touch() { e.moved.Store(time.Now().UnixNano()) }

// watch cuts the connection once it has carried nothing for too long.
func (e *ends) watch(idle time.Duration) {
	t := time.NewTimer(idle)
	defer t.Stop()
	for {
		select {
		case <-e.quit:
			return
		case <-t.C:
		}
		left := idle - time.Since(time.Unix(0, e.moved.Load()))
		if left <= 0 {
			e.cut(KindIdle)
			return
		}
		t.Reset(left)
	}
}

// cut ends both directions.
func (e *ends) cut(why Kind) {
	e.mu.Lock()
	if e.why == "" {
		e.why = why
	}
	e.mu.Unlock()
	e.near.Close()
	e.far.Close()
}

func (e *ends) stop() { e.once.Do(func() { close(e.quit) }) }

func (e *ends) kind() Kind {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.why == "" {
		return KindDone
	}
	return e.why
}

// copy copies one direction. At its end, it closes to for writing. It returns the number of bytes that it
// copied. If a read or a write fails, it cuts both directions, because a half-close would hide the failure.
func (e *ends) copy(to net.Conn, from io.Reader) (n int64) {
	buf := make([]byte, 32<<10)
	for {
		got, err := from.Read(buf)
		if got > 0 {
			e.touch()
			if _, err := to.Write(buf[:got]); err != nil {
				e.fail(err, to == e.near)
				return n
			}
			e.touch()
			n += int64(got)
		}
		if err == nil {
			continue
		}
		half, ok := to.(interface{ CloseWrite() error })
		if err != io.EOF || !ok || half.CloseWrite() != nil {
			e.fail(err, to == e.far)
		}
		return n
	}
}

// fail ends both directions after an error of one end.
func (e *ends) fail(err error, near bool) {
	if near && e.lost(err) {
		e.cut(KindLost)
		return
	}
	e.cut(KindDone)
}
