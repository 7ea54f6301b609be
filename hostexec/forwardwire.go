package hostexec

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/crypto/ssh"

	"fairlead.dev/fairlead/hostexec/internal/script"
)

const loopback = "127.0.0.1"

// The messages of RFC 4254, section 7, and of OpenSSH's PROTOCOL, section 2.4.
type (
	listenTCP struct {
		Addr string
		Port uint32
	}
	listenReply   struct{ Port uint32 }
	listenUnix    struct{ Path string }
	openedFromTCP struct {
		Addr       string
		Port       uint32
		OriginAddr string
		OriginPort uint32
	}
)

// establish connects, ends the former holder and asks sshd for the port or the socket. It
// has the state changed.
func (f *Forward) establish(ctx context.Context) (*sshConn, error) {
	g := newConnGroup(f.host, control, f.host.pool.idleControl)
	if !f.hold(g) {
		return nil, unreachable(errHostClosed)
	}
	c, port, err := f.begin(ctx, g)
	if err != nil {
		f.drop(g)
		return nil, err
	}
	f.change(func(s *ForwardState) { s.Up, s.Err, s.Port, s.Times, f.conn = true, nil, port, s.Times+1, c })
	return c, nil
}

func (f *Forward) begin(ctx context.Context, g *connGroup) (*sshConn, int, error) {
	c, err := g.forward(ctx) // which keeps the connection open while it is idle
	if err != nil {
		return nil, 0, unreachable(err)
	}
	kind := "forwarded-tcpip"
	if f.spec.Socket != "" {
		kind = "forwarded-streamlocal@openssh.com"
	}
	opened := c.client.HandleChannelOpen(kind)
	if !f.host.tasks.Go(func() { f.take(c, opened) }) {
		return nil, 0, unreachable(errHostClosed)
	}
	if err := c.once(ctx, f.holding(f.held(), f.spec.Socket), nil); err != nil {
		return nil, 0, forwardError(err)
	}
	if f.spec.Socket != "" {
		return c, 0, c.listenUnix(ctx, f.spec.Socket)
	}
	port, err := c.listenTCP(ctx, f.State().Port)
	if err != nil {
		return nil, 0, err
	}
	return c, port, c.onLoopback(ctx, port)
}

// once runs a script on this very connection.
func (c *sshConn) once(ctx context.Context, cmd Command, out *[]byte) error {
	ch, err := c.group.session(ctx)
	if err != nil {
		return err
	}
	defer ch.Close()
	if ch.conn != c {
		return unreachable(errLost)
	}
	res, _, err := newShell(ch, false, &c.group.host.tasks).run(ctx, cmd)
	if errors.Is(err, errNotSent) {
		err = unreachable(err)
	}
	if out != nil {
		*out = res.Stdout
	}
	return err
}

// request makes a global request and waits for the answer.
func (c *sshConn) request(ctx context.Context, name string, payload any) (ok bool, reply []byte, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, reachDeadline, errTooLong)
	defer cancel()
	type answer struct {
		ok    bool
		reply []byte
		err   error
	}
	got := make(chan answer, 1)
	go func() { // no task of the host: it may never return on a dying connection
		ok, reply, err := c.client.SendRequest(name, true, ssh.Marshal(payload))
		got <- answer{ok, reply, err}
	}()
	select {
	case a := <-got:
		if a.err != nil {
			return false, nil, unreachable(a.err)
		}
		return a.ok, a.reply, nil
	case <-c.dead:
		return false, nil, unreachable(errLost)
	case <-ctx.Done():
		c.net.Close()
		return false, nil, unreachable(context.Cause(ctx))
	}
}

// listenTCP asks sshd to listen on a port of its loopback address, or on any if port is 0.
func (c *sshConn) listenTCP(ctx context.Context, port int) (int, error) {
	ok, reply, err := c.request(ctx, "tcpip-forward", listenTCP{loopback, uint32(port)})
	switch {
	case err != nil:
		return 0, err
	case ok && port != 0:
		return port, nil
	case ok:
		var chosen listenReply
		if err := ssh.Unmarshal(reply, &chosen); err != nil || chosen.Port == 0 || chosen.Port > 65535 {
			return 0, fmt.Errorf("%w: sshd did not say which port it chose", ErrUnsupported)
		}
		return int(chosen.Port), nil
	case port == 0:
		return 0, fmt.Errorf("%w: a port on its loopback address (%s)", ErrForwardRefused, hintRemote)
	}
	// sshd does not say why. If it gives another port, somebody has this one.
	other, err := c.listenTCP(ctx, 0)
	if err != nil {
		if errors.Is(err, ErrForwardRefused) {
			err = fmt.Errorf("%w: port %d on its loopback address, or somebody has that port (%s)", ErrForwardRefused, port, hintRemote)
		}
		return 0, err
	}
	if _, _, err := c.request(ctx, "cancel-tcpip-forward", listenTCP{loopback, uint32(other)}); err != nil {
		return 0, err
	}
	return 0, fmt.Errorf("%w: port %d on its loopback address; the forward waits until it is free", ErrPortTaken, port)
}

func (c *sshConn) listenUnix(ctx context.Context, socket string) error {
	ok, _, err := c.request(ctx, "streamlocal-forward@openssh.com", listenUnix{socket})
	if err == nil && !ok {
		err = fmt.Errorf("%w: a socket at %s (%s)", ErrForwardRefused, socket, hintSocket)
	}
	return err
}

const (
	hintRemote = "allow it in sshd_config: AllowTcpForwarding yes or remote, PermitListen any or localhost:*, DisableForwarding no; and no restrict or no-port-forwarding in authorized_keys"
	hintSocket = "allow it in sshd_config: AllowStreamLocalForwarding yes or remote, AllowTcpForwarding yes or remote, DisableForwarding no; and no restrict or no-port-forwarding in authorized_keys"
	hintLocal  = "allow it in sshd_config: AllowTcpForwarding yes or local, PermitOpen any, DisableForwarding no; and no restrict or no-port-forwarding in authorized_keys"
	hintOpen   = "set GatewayPorts no or clientspecified in sshd_config"
)

// whereScript prints the addresses on which somebody listens at port $1, as the kernel
// writes them, each on a line.
const whereScript = `p=$(printf %04X "$1") && sed -n "s/^ *[0-9]*: \([0-9A-F]*\):$p [0-9A-F]*:0000 0A .*/\1/p" /proc/net/tcp /proc/net/tcp6 2>/dev/null; :`

// onLoopback refuses a port on which sshd listens for other machines: with GatewayPorts yes
// it does so whatever it is asked for.
func (c *sshConn) onLoopback(ctx context.Context, port int) error {
	var out []byte
	if err := c.once(ctx, Command{Script: whereScript, Args: []string{strconv.Itoa(port)}}, &out); err != nil {
		return err
	}
	if slices.ContainsFunc(strings.Fields(string(out)), func(a string) bool { return strings.Trim(a, "0") == "" }) {
		return fmt.Errorf("%w: port %d (%s)", ErrForwardOpen, port, hintOpen)
	}
	return nil
}

// take accepts what sshd reports until the connection ends.
func (f *Forward) take(c *sshConn, opened <-chan ssh.NewChannel) {
	for n := range opened {
		var from net.Addr = &net.UnixAddr{Net: "unix"}
		if f.spec.Socket == "" {
			var m openedFromTCP
			if err := ssh.Unmarshal(n.ExtraData(), &m); err != nil || m.OriginPort > 65535 {
				_ = n.Reject(ssh.ConnectionFailed, "the message is malformed") // or the connection is lost
				continue
			}
			from = &net.TCPAddr{IP: net.ParseIP(m.OriginAddr), Port: int(m.OriginPort)}
		}
		select {
		case f.free <- struct{}{}:
		default:
			_ = n.Reject(ssh.ResourceShortage, "too many connections")
			f.host.pool.opts.Logger.Warn("a forward has too many connections", "host", f.host.name, "forward", f.spec.Name, "most", f.spec.MaxConns)
			continue
		}
		ch, reqs, err := n.Accept()
		if err != nil {
			<-f.free
			continue // the connection is lost
		}
		// The place is free once both sides have closed: sshd keeps a channel while a
		// program on the host does not read what is left.
		closed := make(chan struct{})
		go func() {
			ssh.DiscardRequests(reqs)
			<-closed
			<-f.free
		}()
		conn := newChannelConn(c, ch, f.Addr(), from, func() { close(closed) })
		if conn == nil {
			close(closed)
			return
		}
		f.incoming <- conn // has a place for each
		f.refuseWaiting()
	}
}

// forwardFailure tells why a channel to an address of the host was not opened.
func forwardFailure(err error, what string) error {
	var rejected *ssh.OpenChannelError
	if !errors.As(err, &rejected) {
		return unreachable(err)
	}
	if rejected.Reason == ssh.Prohibited {
		return fmt.Errorf("%w: a connection to %s (%s)", ErrForwardRefused, what, hintLocal)
	}
	return fmt.Errorf("%w: nobody answers at %s of the host%s", ErrNotAnswered, what, script.FirstLine([]byte(rejected.Message)))
}
