package api

import (
	"context"
	"errors"
	"net"
	"net/http"
	"os"

	"fairlead.dev/fairlead/internal/localsocket"
)

// A peer is who is at the other end of a connection to a loopback port, or why this is not known.
type peer struct {
	uid int
	err error
}

type peerKey struct{}

// peerCounts reports whether nothing but the caller's user says who may make requests. A unix
// socket has judged its peer already.
func (s *Server) peerCounts() bool {
	return !s.local && s.opts.Token == "" && s.opts.Authority == nil
}

func (s *Server) withPeer(ctx context.Context, conn net.Conn) context.Context {
	if !s.peerCounts() {
		return ctx
	}
	uid, err := localsocket.LoopbackPeer(conn)
	return context.WithValue(ctx, peerKey{}, peer{uid, err})
}

// peerRefused says why a request of another user of this machine is not answered. Every user
// can connect to a loopback port.
func (s *Server) peerRefused(r *http.Request) *Error {
	if !s.peerCounts() {
		return nil
	}
	p, ok := r.Context().Value(peerKey{}).(peer)
	if !ok {
		p.err = errors.New("its connection is not known")
	}
	switch {
	case p.err != nil:
		s.log.Warn("api request refused, because its user is not known", "err", p.err)
		return problem(http.StatusForbidden, ErrForbidden, "this worker's API has no token, so it answers only uid %d and root, and cannot find out who asks: %v", os.Geteuid(), p.err).hinted("set api.token_file in the worker's config, or let api.listen be a unix socket")
	case !localsocket.Trusted(p.uid):
		return problem(http.StatusForbidden, ErrForbidden, "this worker's API has no token, so it answers only uid %d and root, and uid %d asks", os.Geteuid(), p.uid).hinted("run as that user, or set api.token_file in the worker's config and yours")
	}
	return nil
}
