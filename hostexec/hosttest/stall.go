package hosttest

import (
	"io"
	"net"
	"sync"
)

// A Stall forwards TCP connections to an address and can hold back the data. Both ends
// notice nothing, but their bytes arrive later or never.
type Stall struct {
	listener net.Listener
	to       string
	joined   sync.WaitGroup

	mu    sync.Mutex
	held  chan struct{}         // guarded by mu: closed while bytes may pass
	conns map[net.Conn]struct{} // guarded by mu
	over  bool                  // guarded by mu
}

// NewStall listens on a loopback port until Close.
func NewStall(to string) (*Stall, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &Stall{listener: l, to: to, held: make(chan struct{}), conns: make(map[net.Conn]struct{})}
	close(s.held)
	s.joined.Go(s.accept)
	return s, nil
}

// Port returns the port on which it listens.
func (s *Stall) Port() int { return s.listener.Addr().(*net.TCPAddr).Port }

// Hold holds back all bytes from now on, until Release.
func (s *Stall) Hold() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held = make(chan struct{})
}

// Release forwards the bytes that were held back, in order.
func (s *Stall) Release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.held)
}

// Close closes the listener and every connection.
func (s *Stall) Close() error {
	err := s.listener.Close()
	s.mu.Lock()
	s.over = true
	for c := range s.conns {
		c.Close()
	}
	select {
	case <-s.held:
	default:
		close(s.held)
	}
	s.mu.Unlock()
	s.joined.Wait()
	return err
}

func (s *Stall) accept() {
	for {
		in, err := s.listener.Accept()
		if err != nil {
			return
		}
		out, err := net.Dial("tcp", s.to)
		if err != nil {
			in.Close()
			continue
		}
		if !s.keep(in) || !s.keep(out) {
			in.Close()
			out.Close()
			return
		}
		s.joined.Go(func() { s.carry(out, in) })
		s.joined.Go(func() { s.carry(in, out) })
	}
}

func (s *Stall) keep(c net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.over {
		s.conns[c] = struct{}{}
	}
	return !s.over
}

func (s *Stall) carry(to, from net.Conn) {
	defer to.Close()
	defer from.Close()
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		s.mu.Lock()
		held := s.held
		s.mu.Unlock()
		<-held
		if n > 0 {
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			if err != io.EOF {
				return
			}
			if tcp, ok := to.(*net.TCPConn); ok {
				tcp.CloseWrite()
			}
			return
		}
	}
}
