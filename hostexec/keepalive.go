package hostexec

import "time"

// keepalive is the global request that asks for a sign of life.
const keepalive = "keepalive@openssh.com"

type signs struct {
	heard   uint64 // reads that brought something
	arrived uint64 // packets with data, including those that arrived ahead of a lost one
	acked   uint64 // bytes that the peer's kernel acknowledged
	queued  bool   // whether bytes wait to be sent in our kernel
}

func (l *link) signs() (now signs) {
	if tcp, ok := l.Conn.(*tcpConn); ok {
		now = tcp.signs()
	}
	now.heard = l.heard.Load()
	return now
}

// liveSince reports whether the peer gave a sign of life between before and s. Any byte
// that arrived counts: on a slow line the answer to the keepalive may be queued behind data
// for minutes. An acknowledged byte counts only while bytes are queued here, because the
// keepalive may be among them. Otherwise it proves nothing: a kernel also acknowledges for
// a stopped process.
func (s signs) liveSince(before signs) bool {
	return s.heard != before.heard || s.arrived != before.arrived || s.queued && s.acked != before.acked
}

// keepAlive asks the peer for a sign of life every keepaliveEvery, and closes the
// connection if none arrives within keepaliveWait. So a silent peer is given up within 25
// s; TCP alone needs minutes.
func (c *sshConn) keepAlive() {
	pool := c.group.host.pool
	tick := time.NewTicker(pool.keepaliveEvery)
	defer tick.Stop()
	for {
		select {
		case <-c.dead:
			return
		case <-tick.C:
		}
		if !c.answers(pool.keepaliveWait) {
			c.net.Close()
		}
	}
}

func (c *sshConn) answers(wait time.Duration) bool {
	before := c.net.signs()
	answered := c.ask()
	patience := time.NewTicker(wait)
	defer patience.Stop()
	for {
		select {
		case <-c.dead:
			return false
		case err := <-answered:
			return err == nil
		case <-patience.C:
		}
		now := c.net.signs()
		if !now.liveSince(before) && c.net.waitsForNothing(before) {
			return false
		}
		before = now
	}
}

// ask sends the keepalive request. The channel receives nil when the peer answers, or an
// error.
func (c *sshConn) ask() <-chan error {
	answered := make(chan error, 1)
	asks := c.group.host.tasks.Go(func() {
		_, _, err := c.client.SendRequest(keepalive, true, nil)
		answered <- err
	})
	if !asks {
		answered <- errHostClosed
	}
	return answered
}

// waitsForNothing reports whether a link without a sign of life since before must be given
// up. A link through a jump host may only be delayed by data for others, so the jump host
// is asked first.
func (l *link) waitsForNothing(before signs) bool {
	forward, ok := l.Conn.(*forwardConn)
	if !ok {
		return true
	}
	select {
	case err := <-forward.via.ask():
		return err != nil || !l.signs().liveSince(before)
	case <-forward.via.dead:
		return true
	}
}
