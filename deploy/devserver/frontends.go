package main

import (
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"

	"go.temporal.io/server/common/log"
	"go.temporal.io/server/common/log/tag"
)

const maxFrontends = 8

// A balancer hands each connection to the next of several frontends, as a balancer of TCP
// connections before a cluster does.
type balancer struct {
	listener net.Listener
	to       []string
	next     atomic.Uint64
	logger   log.Logger
	wg       sync.WaitGroup

	mu     sync.Mutex
	open   map[net.Conn]bool
	closed bool
}

func startBalancer(address string, to []string, logger log.Logger) (*balancer, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	b := &balancer{listener: l, to: to, logger: logger, open: map[net.Conn]bool{}}
	b.wg.Go(b.serve)
	return b, nil
}

func (b *balancer) serve() {
	for {
		c, err := b.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			b.logger.Warn("a connection was not accepted", tag.Error(err))
			continue
		}
		b.wg.Go(func() { b.pass(c) })
	}
}

// pass copies both ways until one of them ends.
func (b *balancer) pass(c net.Conn) {
	defer c.Close()
	if !b.keep(c, true) {
		return
	}
	defer b.keep(c, false)
	up, err := net.Dial("tcp", b.to[b.next.Add(1)%uint64(len(b.to))])
	if err != nil {
		b.logger.Warn("a frontend does not answer", tag.Error(err))
		return
	}
	defer up.Close()
	done := make(chan struct{}, 2)
	for _, way := range [][2]net.Conn{{c, up}, {up, c}} {
		go func() {
			_, _ = io.Copy(way[0], way[1]) // it ends with either connection
			done <- struct{}{}
		}()
	}
	<-done
	c.Close()
	up.Close()
	<-done
}

// keep remembers an open connection, or forgets it. It returns false if the balancer is closed.
func (b *balancer) keep(c net.Conn, open bool) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if open && !b.closed {
		b.open[c] = true
	} else {
		delete(b.open, c)
	}
	return !b.closed
}

func (b *balancer) stop() {
	if b == nil {
		return
	}
	b.listener.Close()
	b.mu.Lock()
	b.closed = true
	for c := range b.open {
		c.Close()
	}
	b.mu.Unlock()
	b.wg.Wait()
}
