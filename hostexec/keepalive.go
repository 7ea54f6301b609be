package hostexec

import "time"

// keepalive is the global request that asks for a sign of life. sshd itself answers it.
const keepalive = "keepalive@openssh.com"

// signs counts the signs of life that a link has seen of its peer.
type signs struct {
	heard   uint64 // reads that brought something
	arrived uint64 // packets with data, including those that arrived ahead of a lost one
	acked   uint64 // bytes that the peer's kernel acknowledged
	queued  bool   // whether bytes still wait to be sent in our kernel
}

// signs returns the signs of life that were seen until now.
func (l *link) signs() (now signs) {
	if tcp, ok := l.Conn.(*tcpConn); ok {
		now = tcp.signs()
	}
	now.heard = l.heard.Load()
	return now
}

// liveSince reports whether the peer gave a sign of life between before and s. Any byte
// that arrived counts, because on a slow line the answer to our question may be queued
// behind data for minutes. A byte that the peer acknowledged counts only while bytes are
// queued here, because the question may be among them. After that an acknowledgement proves
// nothing: a kernel also acknowledges for a process that has stopped.
func (s signs) liveSince(before signs) bool {
	return s.heard != before.heard || s.arrived != before.arrived || s.queued && s.acked != before.acked
}

// keepAlive asks the peer for a sign of life every keepaliveEvery, and closes the
// connection if none arrives within keepaliveWait. So a silent peer is given up within 25
// s, while TCP alone would need minutes. A command whose end was not seen fails with
// ErrOutcomeUnknown.
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

// answers asks the peer for a sign of life and waits for the answer. It reports false if no
// sign of life comes for the duration wait.
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

// ask sends the keepalive request. The returned channel receives nil when the peer
// answers, or an error when the connection ends.
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

// waitsForNothing reports whether a link that gave no sign of life since before has to be
// given up. A link through a jump host may only be delayed, because the connection to the
// jump host carries data for others. So waitsForNothing first asks the jump host and waits
// until it answers or its own keepAlive ends the connection.
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
