package hostexec

import "time"

// ShortenTimings makes a pool close idle connections and notice dead peers
// sooner. Call it before the first Host.
func (p *Pool) ShortenTimings(idle, keepalive time.Duration) {
	p.idleControl, p.idleBulk, p.idleSurplus = idle, idle, idle
	p.keepaliveEvery, p.keepaliveWait = keepalive, keepalive
	p.farAway = 0
}

// ShortenSurplus makes a pool close idle connections beyond keptConns sooner. Call it
// before the first Host.
func (p *Pool) ShortenSurplus(idle time.Duration) { p.idleSurplus = idle }

// SliceDials sets the time after which a dial leaves its lane. Call it before the first
// Host.
func (p *Pool) SliceDials(d time.Duration) { p.dialSlice = d }

// ForgetAfter sets the time after which the pool forgets a host that nobody uses. Call it
// before the first Host.
func (p *Pool) ForgetAfter(d time.Duration) { p.forgetAfter = d }

func (p *Pool) Kept() (hosts, addresses int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.servers.mu.Lock()
	defer p.servers.mu.Unlock()
	return len(p.hosts) + len(p.strays), len(p.servers.by)
}

func Connections(h Host) (controls, bulks int) {
	count := func(g *connGroup) int {
		g.mu.Lock()
		defer g.mu.Unlock()
		return len(g.conns)
	}
	s := h.(*sshHost)
	return count(s.groups[control]), count(s.groups[bulk])
}

// EverythingIsFar makes a pool compress all trees in transfer. Call it before the
// first Host.
func (p *Pool) EverythingIsFar() { p.farAway = 0 }
