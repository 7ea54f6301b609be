package hostexec

import "time"

// ShortenTimings makes a pool close idle connections and notice dead peers
// sooner. Call it before the first Host.
func (p *Pool) ShortenTimings(idle, keepalive time.Duration) {
	p.timings = timings{idleControl: idle, idleBulk: idle, idleSurplus: idle, keepaliveEvery: keepalive, keepaliveWait: keepalive}
}

// ShortenSurplus makes a pool close unused connections beyond a host's first
// sooner. Call it before the first Host.
func (p *Pool) ShortenSurplus(idle time.Duration) { p.idleSurplus = idle }

// Connections returns how many connections of each kind a host has.
func Connections(h Host) (controls, bulks int) {
	count := func(g *connGroup) int {
		g.mu.Lock()
		defer g.mu.Unlock()
		return len(g.conns)
	}
	s := h.(*sshHost)
	return count(s.groups[control]), count(s.groups[bulk])
}

// EverythingIsFar makes a pool compress trees on their way from wherever.
// Call it before the first Host.
func (p *Pool) EverythingIsFar() { p.farAway = 0 }
