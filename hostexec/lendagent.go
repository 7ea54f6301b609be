package hostexec

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/skeema/knownhosts"
	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"
	xknownhosts "golang.org/x/crypto/ssh/knownhosts"

	"fairlead.dev/fairlead/hostexec/internal/lentkey"
	"fairlead.dev/fairlead/hostexec/internal/script"
	"fairlead.dev/fairlead/internal/localsocket"
)

// Reasons not to lend an agent.
var (
	// ErrNoAgent means that the worker has no SSH agent, or that the host refuses agent
	// forwarding.
	ErrNoAgent = errors.New("no SSH agent can be lent")
	// ErrWhichKey means that the agent does not have exactly one key, or not the named one.
	ErrWhichKey = errors.New("the key to lend is not clear")
	// ErrWhichServer means that the key of the server to log in to is not known.
	ErrWhichServer = errors.New("the server's key is not known to the worker")
)

// AgentTerms say what a lent agent is for: logins with one key to one server.
type AgentTerms struct {
	// Key is the fingerprint of the key, SHA256:… If it is empty, the agent must have exactly
	// one key.
	Key string
	// Server is the server's address, host:port.
	Server string
	// User is whom the logins may name; empty means anybody.
	User string
	// KnownHosts are lines of known_hosts. If they do not name Server, the known_hosts files
	// of the worker's user and machine must.
	KnownHosts string
}

// A LentAgent is an agent on a host that signs logins with one key to one server, and does
// nothing else. On this machine (local) programs use the pool's agent itself, as every
// process of the worker's user can anyway.
type LentAgent struct {
	// Socket is the path of the agent's socket on the host.
	Socket string
	back   func()
	loan   *lentkey.Loan // nil on this machine
}

// Close ends the loan. It may be called more than once.
func (l *LentAgent) Close() { l.back() }

// Refused returns what the host asked the agent for and was refused, each reason once. It
// quotes what the host wrote.
func (l *LentAgent) Refused() []string {
	if l.loan == nil {
		return nil
	}
	return l.loan.Refused()
}

// LendAgent lends a key of the pool's agent to a host of the pool until ctx ends. It opens
// a connection of its own, because every command on a shared connection could use the
// agent.
func (p *Pool) LendAgent(ctx context.Context, h Host, terms AgentTerms) (*LentAgent, error) {
	fail := func(err error) (*LentAgent, error) {
		return nil, fmt.Errorf("lend %s the SSH agent: %w", h.Name(), SentBy(h, err))
	}
	if p.opts.Agent == "" {
		return fail(fmt.Errorf("%w: this worker has none (SSH_AUTH_SOCK)", ErrNoAgent))
	}
	remote, ok := h.(*sshHost)
	if !ok {
		return &LentAgent{Socket: p.opts.Agent, back: func() {}}, nil // h is this machine
	}
	loan, err := p.loan(terms, h.Name())
	if err != nil {
		return fail(err)
	}
	client, conn, err := remote.login(ctx, control)
	if err != nil {
		return fail(err)
	}
	l := &LentAgent{back: sync.OnceFunc(func() { client.Close(); conn.Close() }), loan: loan}
	stop := context.AfterFunc(ctx, l.back)
	if l.Socket, err = lend(ctx, client, loan); err != nil {
		stop()
		l.back()
		return fail(err)
	}
	return l, nil
}

func (p *Pool) loan(terms AgentTerms, host string) (*lentkey.Loan, error) {
	real := p.withAgent
	key, err := keyToLend(real, terms.Key)
	if err != nil {
		return nil, err
	}
	server, err := serverPins(terms.Server, terms.KnownHosts)
	if err != nil {
		return nil, err
	}
	return lentkey.New(lentkey.Terms{
		Key: key, Server: terms.Server, User: terms.User,
		Check: func(shown ssh.PublicKey) error {
			if server.check("", &net.TCPAddr{}, shown) == nil {
				return nil
			}
			return fmt.Errorf("it shows %s %s, known are %s", shown.Type(), ssh.FingerprintSHA256(shown), strings.Join(server.expected(), ", "))
		},
	}, real, func(why string) {
		p.opts.Logger.Warn("a lent SSH agent refused a request of a host", "host", host, "server", terms.Server, "why", why)
	}), nil
}

// withAgent connects to the pool's agent, which may ask a person.
func (p *Pool) withAgent(use func(agent.ExtendedAgent) error) error {
	conn, err := localsocket.DialAgent(context.Background(), p.opts.Agent)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(handshakeDeadline)); err != nil {
		return err
	}
	return use(agent.NewClient(conn))
}

// keyToLend returns the agent's key with that fingerprint, or its only one.
func keyToLend(real lentkey.Agent, fingerprint string) (ssh.PublicKey, error) {
	var have []ssh.PublicKey
	err := real(func(a agent.ExtendedAgent) error {
		keys, err := a.List()
		for _, k := range keys {
			pub, err := ssh.ParsePublicKey(k.Blob)
			if err != nil {
				continue // a type that this program does not know
			}
			if cert, ok := pub.(*ssh.Certificate); ok {
				pub = cert.Key
			}
			if !slices.ContainsFunc(have, func(o ssh.PublicKey) bool { return samePublic(o, pub) }) {
				have = append(have, pub)
			}
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("%w: list the keys of the worker's agent: %w", ErrNoAgent, err)
	}
	var prints []string
	for _, k := range have {
		if f := ssh.FingerprintSHA256(k); f == fingerprint || fingerprint == "" && len(have) == 1 {
			return k, nil
		} else if len(prints) < 8 {
			prints = append(prints, f)
		}
	}
	switch {
	case len(have) == 0:
		return nil, fmt.Errorf("%w: the worker's agent has no key", ErrNoAgent)
	case fingerprint == "":
		return nil, fmt.Errorf("%w: the worker's agent has %d keys, and none is named; there is %s", ErrWhichKey, len(have), strings.Join(prints, ", "))
	}
	return nil, fmt.Errorf("%w: the worker's agent does not have %s; there is %s", ErrWhichKey, fingerprint, strings.Join(prints, ", "))
}

// workerKnownHosts are where this machine's own ssh looks.
var workerKnownHosts = []string{"~/.ssh/known_hosts", "/etc/ssh/ssh_known_hosts"}

// serverPins returns the pins of a server: those of lines or, if they do not name it, those
// of the first of this machine's files that does.
func serverPins(address, lines string) (*pins, error) {
	unreadable := ""
	look := func(file string) (*pins, error) {
		db, err := knownhosts.NewDB(file)
		if err != nil {
			return nil, err
		}
		p := &pins{address: address, db: db}
		if len(db.HostKeys(address)) == 0 {
			return nil, nil
		}
		return p, nil
	}
	if lines != "" {
		f, err := os.CreateTemp("", "fairlead-known-hosts-")
		if err != nil {
			return nil, err
		}
		defer os.Remove(f.Name())
		_, err = f.WriteString(lines)
		if err := errors.Join(err, f.Close()); err != nil {
			return nil, err
		}
		p, err := look(f.Name())
		if err != nil {
			return nil, fmt.Errorf("%w: read the given known hosts: %s", ErrWhichServer, strings.ReplaceAll(err.Error(), f.Name(), "line"))
		}
		if p != nil {
			return p, nil
		}
	}
	for _, file := range workerKnownHosts {
		p, err := look(expandHome(file))
		if p != nil {
			return p, nil
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			unreadable += "; " + file + " cannot be read: " + err.Error()
		}
	}
	return nil, fmt.Errorf("%w: no line for %s is in the known hosts that were given, nor in %s of the worker%s",
		ErrWhichServer, xknownhosts.Normalize(address), strings.Join(workerKnownHosts, " and "), unreadable)
}

// lendWait bounds the time until a host reports the socket's path; rc files run first.
const lendWait = startDeadline

// maxSocketPath exceeds the 108 bytes of a socket's path.
const maxSocketPath = 8 << 10

func lend(ctx context.Context, client *ssh.Client, loan *lentkey.Loan) (string, error) {
	channels := client.HandleChannelOpen("auth-agent@openssh.com")
	if channels == nil {
		return "", errors.New("this connection lends an agent already")
	}
	go serveLoan(channels, loan)
	session, err := client.NewSession()
	if err != nil {
		return "", unreachable(err)
	}
	// agent.RequestAgentForwarding returns the same error for a lost connection and for a
	// refusal.
	switch ok, err := session.SendRequest("auth-agent-req@openssh.com", true, nil); {
	case err != nil:
		return "", unreachable(err)
	case !ok:
		return "", fmt.Errorf("%w: the host's sshd refuses agent forwarding (AllowAgentForwarding)", ErrNoAgent)
	}
	in, err := session.StdinPipe()
	if err != nil {
		return "", err
	}
	out, err := session.StdoutPipe()
	if err != nil {
		return "", err
	}
	if err := session.Start(bootstrap); err != nil {
		return "", unreachable(err)
	}
	mark := script.NewMark()
	// cat keeps the session open.
	if _, err := io.WriteString(in, `printf '\n`+mark+` %s\n' "$SSH_AUTH_SOCK"; exec cat >/dev/null`+"\n"); err != nil {
		return "", unreachable(err)
	}
	late := time.AfterFunc(lendWait, func() { client.Close() })
	defer late.Stop()
	var noise []byte
	rest, err := skipPast(out, []byte("\n"+mark+" "), &noise)
	for err == nil && !strings.Contains(string(rest), "\n") {
		buf := make([]byte, 4<<10)
		var n int
		n, err = out.Read(buf)
		if rest = append(rest, buf[:n]...); len(rest) > maxSocketPath {
			return "", unreachable(fmt.Errorf("the host answered with more than %d bytes, expected the path of a socket", maxSocketPath))
		}
	}
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return "", unreachable(err)
	}
	where, _, _ := strings.Cut(string(rest), "\n")
	if !path.IsAbs(where) {
		return "", fmt.Errorf("%w: the host made no socket for the agent (check AllowAgentForwarding of its sshd)", ErrNoAgent)
	}
	return where, nil
}

// maxBorrowers bounds the programs of a host that use the agent at one time.
const maxBorrowers = 16

func serveLoan(channels <-chan ssh.NewChannel, loan *lentkey.Loan) {
	free := make(chan struct{}, maxBorrowers)
	for opened := range channels {
		select {
		case free <- struct{}{}:
		default:
			_ = opened.Reject(ssh.ResourceShortage, "too many programs use the agent") // or the connection is lost
			continue
		}
		go func() {
			defer func() { <-free }()
			channel, requests, err := opened.Accept()
			if err != nil {
				return // the connection is lost
			}
			defer channel.Close()
			go ssh.DiscardRequests(requests)
			_ = loan.Serve(channel) // what was refused is on record
		}()
	}
}
