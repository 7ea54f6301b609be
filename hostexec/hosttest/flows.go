package hosttest

import "encoding/binary"

// A flow is one direction of a TCP connection: both addresses and both ports in
// the format of its packets.
type flow [12]byte

func (f flow) back() (b flow) {
	copy(b[0:4], f[4:8])
	copy(b[4:8], f[0:4])
	copy(b[8:10], f[10:12])
	copy(b[10:12], f[8:10])
	return b
}

// flows are the TCP connections over a DelayLine.
type flows struct {
	acks map[flow]uint32 // the last acknowledgement number of the sender
	from map[flow]int    // the end that sends
	dead map[flow]bool   // connections that were reset, so that no packet passes any more
}

const (
	tcpFIN = 1 << iota
	tcpSYN
	tcpRST
	_
	tcpACK
)

// parseTCP returns the flow, the acknowledgement number and the flags of a
// packet.
func parseTCP(p []byte) (f flow, ack uint32, flags byte, ok bool) {
	if len(p) < 20 || p[0]>>4 != 4 || p[9] != 6 {
		return f, 0, 0, false
	}
	tcp := p[min(len(p), int(p[0]&15)*4):]
	if len(tcp) < 20 {
		return f, 0, 0, false
	}
	copy(f[0:8], p[12:20])
	copy(f[8:12], tcp[0:4])
	return f, binary.BigEndian.Uint32(tcp[8:12]), tcp[13], true
}

// see records a packet that an end sent. If the packet's connection is dead, the caller
// must drop the packet and send answer.
func (t *flows) see(end int, p []byte) (answer []byte, dead bool) {
	f, ack, flags, ok := parseTCP(p)
	if !ok {
		return nil, false
	}
	if t.acks == nil {
		t.acks, t.from, t.dead = make(map[flow]uint32), make(map[flow]int), make(map[flow]bool)
	}
	if flags&tcpSYN != 0 && flags&tcpACK == 0 {
		delete(t.dead, f) // a new connection uses the same ports
		delete(t.dead, f.back())
	}
	if t.dead[f] {
		if flags&tcpRST == 0 && flags&tcpACK != 0 {
			answer = resetPacket(f.back(), ack)
		}
		return answer, true
	}
	if flags&tcpRST != 0 {
		delete(t.acks, f)
		delete(t.acks, f.back())
		return nil, false
	}
	if flags&tcpACK != 0 {
		t.acks[f], t.from[f] = ack, end
	}
	return nil, false
}

// isCut reports whether a packet under way belongs to a dead connection.
func (t *flows) isCut(p []byte) bool {
	f, _, _, ok := parseTCP(p)
	return ok && t.dead[f]
}

// A reset is a packet with RST for an end.
type reset struct {
	end   int
	bytes []byte
}

// cut marks every connection as dead and returns the resets for both ends of each.
func (t *flows) cut() (connections int, resets []reset) {
	for f, ack := range t.acks {
		if !t.dead[f.back()] {
			connections++
		}
		t.dead[f] = true
		t.dead[f.back()] = true
		// The reset goes to the sender of ack, with the sequence number that the sender
		// expects.
		resets = append(resets, reset{t.from[f], resetPacket(f.back(), ack)})
	}
	t.acks = make(map[flow]uint32)
	return connections, resets
}

// resetPacket returns an RST packet with the given sequence number.
func resetPacket(f flow, seq uint32) []byte {
	p := make([]byte, 40)
	p[0], p[8], p[9] = 0x45, 64, 6
	binary.BigEndian.PutUint16(p[2:], 40)
	copy(p[12:20], f[0:8])
	tcp := p[20:]
	copy(tcp[0:4], f[8:12])
	binary.BigEndian.PutUint32(tcp[4:], seq)
	tcp[12], tcp[13] = 5<<4, tcpRST
	binary.BigEndian.PutUint16(p[10:], checksum(0, p[:20]))
	pseudo := uint32(6 + 20)
	for i := 12; i < 20; i += 2 {
		pseudo += uint32(binary.BigEndian.Uint16(p[i:]))
	}
	binary.BigEndian.PutUint16(tcp[16:], checksum(pseudo, tcp))
	return p
}

func checksum(sum uint32, b []byte) uint16 {
	for i := 0; i+1 < len(b); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(b[i:]))
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return ^uint16(sum)
}
