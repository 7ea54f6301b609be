package hosttest

import (
	"context"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
)

// A WireMeter counts the bytes of all packets to and from a TCP server, including headers.
// The server is on loopback or at either end of a DelayLine.
type WireMeter struct {
	chain string
	undo  func() error
}

// MeterPort starts a WireMeter. The kernel counts the bytes, so this process spends no time
// on it. It needs iptables and root. The counter is removed by Close or when this process
// ends.
func MeterPort(ctx context.Context, port int) (*WireMeter, error) {
	chain := "FLWIRE" + strconv.Itoa(port)
	// A packet on loopback is both sent and received by this machine, but must count only
	// once.
	undo, err := guarded(ctx, `
rules() {
	iptables -w 60 "$1" OUTPUT -p tcp --dport "$2" -j "$3" &&
		iptables -w 60 "$1" INPUT -p tcp --sport "$2" -j "$3" &&
		iptables -w 60 "$1" INPUT ! -i lo -p tcp --dport "$2" -j "$3" &&
		iptables -w 60 "$1" OUTPUT ! -o lo -p tcp --sport "$2" -j "$3"
}
away() { rules -D "$1" "$2"; iptables -w 60 -F "$2"; iptables -w 60 -X "$2"; }
iptables -w 60 -N "$2" && iptables -w 60 -A "$2" -j RETURN && rules -I "$1" "$2" || { away "$1" "$2"; exit 1; }
echo done
read -r x
away "$1" "$2"`, strconv.Itoa(port), chain)
	if err != nil {
		return nil, fmt.Errorf("count the bytes of port %d (needs iptables and root): %w", port, err)
	}
	return &WireMeter{chain, undo}, nil
}

// Bytes returns the count so far.
func (m *WireMeter) Bytes(ctx context.Context) (int64, error) {
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", `PATH=$PATH:/usr/sbin:/sbin; exec iptables -w 60 -nvxL "$1"`, "sh", m.chain)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return 0, fmt.Errorf("iptables: %w: %s", err, out)
	}
	for line := range strings.Lines(string(out)) {
		if f := strings.Fields(line); len(f) > 2 && f[2] == "RETURN" {
			return strconv.ParseInt(f[1], 10, 64)
		}
	}
	return 0, fmt.Errorf("iptables lists no counter of ours: %s", out)
}

// Close removes the counter.
func (m *WireMeter) Close() error { return m.undo() }
