package hosttest

import (
	"bufio"
	"context"
	"crypto/ed25519"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/crypto/ssh"

	"fairlead.dev/fairlead/hostexec"
)

// Options say what kind of host an SSHD is.
type Options struct {
	// Name is the host's name in its Spec; empty means one of its own.
	Name string
	// NewUser makes a throwaway user (we must be root), who is removed again.
	// Otherwise the host serves the current user.
	NewUser bool
	// Shell is the login shell of the new user; empty means /bin/bash.
	Shell string
	// RC holds files of the new user's home, by name: ".bashrc".
	RC map[string]string
	// Root becomes the Spec's Root.
	Root string
	// Config holds lines of sshd_config; they take the place of ours.
	Config []string
	// Behind puts the host at the far end of a line; nil means loopback.
	Behind *DelayLine
	// Nice is the priority of all that runs on the host, as nice(1) has it:
	// more is less. It keeps a crowded host from starving who tests it.
	Nice int
	// Program is the sshd; empty means /usr/sbin/sshd.
	Program string
}

// An SSHD is a real sshd on a loopback port, with host key, user key and
// configuration of its own. Its methods are not safe for concurrent use.
type SSHD struct {
	// Dir holds its keys, configuration and log.
	Dir string
	// Home is the home folder of the user it serves.
	Home string

	opts    Options
	port    int
	user    *testUser // nil when it serves the current user
	login   string
	hostKey ssh.PublicKey

	guard *exec.Cmd      // ends the listener when we are gone
	alive io.WriteCloser // the guard's standard input
	pid   int            // of the listener

	orphans map[int]string // serve connections that a former listener accepted; by pid, their start times
}

// NewSSHD starts an sshd that keeps its files in dir. Close ends it and
// removes what it made outside of dir.
func NewSSHD(ctx context.Context, dir string, opts Options) (*SSHD, error) {
	if opts.Program == "" {
		opts.Program = "/usr/sbin/sshd"
	}
	if _, err := os.Stat(opts.Program); err != nil {
		return nil, fmt.Errorf("%w: run `make tools`", err)
	}
	s := &SSHD{Dir: dir, opts: opts}
	if err := s.prepare(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("sshd: %w", err), s.Close())
	}
	// The port is free now, but somebody may be faster than sshd.
	var err error
	for range 5 {
		if s.port, err = freePort(); err != nil {
			break
		}
		if err = s.Start(ctx); err == nil {
			return s, nil
		}
	}
	return nil, errors.Join(fmt.Errorf("sshd: %w", err), s.Close())
}

func (s *SSHD) prepare(ctx context.Context) error {
	if err := os.MkdirAll(s.Dir, 0o755); err != nil {
		return err
	}
	if s.opts.NewUser {
		u, err := newTestUser(ctx, s.opts.Shell, s.opts.RC)
		if err != nil {
			return err
		}
		s.user, s.login, s.Home = u, u.name, u.home
	} else {
		u, err := user.Current()
		if err != nil {
			return err
		}
		// A home of its own: nobody's rc files slow tests down or break them
		// (seen: one that waits a minute for a lock), and nothing is left in
		// the home of whoever runs the tests.
		s.login, s.Home = u.Username, s.path("home")
		if err := os.MkdirAll(s.Home, 0o755); err != nil {
			return err
		}
	}
	hostKey, err := writeKey(s.path("host_ed25519"))
	if err != nil {
		return err
	}
	s.hostKey = hostKey
	userKey, err := writeKey(s.path("id_ed25519"))
	if err != nil {
		return err
	}
	if err := os.WriteFile(s.authorizedKeys(), ssh.MarshalAuthorizedKey(userKey), 0o644); err != nil {
		return err
	}
	if os.Geteuid() == 0 {
		return os.MkdirAll("/run/sshd", 0o755)
	}
	return nil
}

// authorizedKeys is in the home of a new user, who may not be able to reach Dir.
func (s *SSHD) authorizedKeys() string {
	if s.user != nil {
		return filepath.Join(s.Home, ".fl-authorized-keys")
	}
	return s.path("authorized_keys")
}

func (s *SSHD) path(name string) string { return filepath.Join(s.Dir, name) }

// Identity is the private key that the host lets in.
func (s *SSHD) Identity() string { return s.path("id_ed25519") }

// User is the login name that the host serves.
func (s *SSHD) User() string { return s.login }

// Address is host:port.
func (s *SSHD) Address() string { return net.JoinHostPort(s.ip(), strconv.Itoa(s.port)) }

func (s *SSHD) ip() string {
	if s.opts.Behind != nil {
		return s.opts.Behind.Far()
	}
	return "127.0.0.1"
}

// HostKey is the host's key as "type base64".
func (s *SSHD) HostKey() string {
	return strings.TrimSpace(string(ssh.MarshalAuthorizedKey(s.hostKey)))
}

// Spec returns how to reach the host, its key pinned.
func (s *SSHD) Spec() hostexec.Spec {
	name := s.opts.Name
	if name == "" {
		name = "sshd-" + strconv.Itoa(s.port)
	}
	return hostexec.Spec{
		Name: name, Address: s.ip(), Port: s.port, User: s.login,
		Identity: s.Identity(), HostKeys: []string{s.HostKey()}, Root: s.opts.Root,
	}
}

// SetConfig changes the lines of Options.Config; they count from the next Start.
func (s *SSHD) SetConfig(lines ...string) { s.opts.Config = lines }

func (s *SSHD) config() string {
	lines := append([]string{}, s.opts.Config...)
	for _, line := range []string{
		"ListenAddress " + s.ip(),
		"Port " + strconv.Itoa(s.port),
		"HostKey " + s.path("host_ed25519"),
		"PidFile none",
		"AuthorizedKeysFile " + s.authorizedKeys(),
		"UsePAM no",
		"StrictModes no",
		"PermitRootLogin yes",
		"PasswordAuthentication no",
		"KbdInteractiveAuthentication no",
		"UseDNS no",
		"PrintMotd no",
		"MaxStartups 200",
		"LogLevel VERBOSE",
		"Subsystem sftp internal-sftp",
		fmt.Sprintf("SetEnv HOME=%q", s.Home),
	} {
		word, _, _ := strings.Cut(line, " ")
		given := func(l string) bool { return strings.HasPrefix(l, word+" ") }
		// Host keys add up; of most others the first wins, but not of all.
		if word == "HostKey" || !slices.ContainsFunc(s.opts.Config, given) {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "\n") + "\n"
}

// Start starts a listener that was stopped, on the same port.
func (s *SSHD) Start(ctx context.Context) error {
	if s.guard != nil {
		return errors.New("sshd is running")
	}
	if err := os.WriteFile(s.path("sshd_config"), []byte(s.config()), 0o644); err != nil {
		return err
	}
	// The guard's input ends when we do, however we do; then the listener goes too.
	words := []string{s.opts.Program, "-D", "-f", s.path("sshd_config"), "-E", s.path("sshd.log")}
	if s.opts.Nice != 0 {
		words = append([]string{"nice", "-n", strconv.Itoa(s.opts.Nice)}, words...)
	}
	if s.opts.Behind != nil {
		words = s.opts.Behind.there(words...)
	}
	guard := exec.Command("/bin/sh", append([]string{"-c", `"$@" </dev/null >/dev/null 2>&1 & echo $!; read -r x; kill $!; wait`, "sh"}, words...)...)
	stdin, err := guard.StdinPipe()
	if err != nil {
		return err
	}
	stdout, err := guard.StdoutPipe()
	if err != nil {
		return err
	}
	if err := guard.Start(); err != nil {
		return err
	}
	s.guard, s.alive = guard, stdin
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err == nil {
		s.pid, err = strconv.Atoi(strings.TrimSpace(line))
	}
	if err == nil {
		err = s.awaitListener(ctx)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("%w\n%s", err, s.Log()), s.Stop())
	}
	return nil
}

// awaitListener waits until our sshd, and not another program, has the port.
func (s *SSHD) awaitListener(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, 20*time.Second, errors.New("sshd did not begin to listen"))
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		if _, ok := processes()[s.pid]; !ok {
			return errors.New("sshd ended")
		}
		if c, err := net.Dial("tcp", s.Address()); err == nil {
			c.Close()
			if isSSHD(s.pid) {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
}

// KillSessions kills the sshd processes that serve connections, as a crash
// would, and returns how many it killed. The listener and the users' processes stay.
func (s *SSHD) KillSessions() int {
	n := 0
	for _, p := range s.sessions() {
		if kill(p) {
			n++
		}
	}
	return n
}

// FreezeSessions stops the sshd processes that serve connections, so that
// their peers hear nothing any more, as from a machine without a network.
func (s *SSHD) FreezeSessions() int {
	n := 0
	for _, p := range s.sessions() {
		if syscall.Kill(p, syscall.SIGSTOP) == nil {
			n++
		}
	}
	return n
}

// Stop kills the listener and every session.
func (s *SSHD) Stop() error {
	if s.guard == nil {
		return nil
	}
	if s.pid > 0 {
		// The listener stands still meanwhile, so that it has no more children.
		syscall.Kill(s.pid, syscall.SIGSTOP)
		for s.KillSessions() > 0 {
			time.Sleep(2 * time.Millisecond) // a killed process leaves in its own time
		}
		kill(s.pid)
	}
	s.alive.Close()
	s.guard.Wait() // its status is that of a listener that was killed
	s.guard, s.pid = nil, 0
	return nil
}

// Restart stops the host and starts it again on the same port.
func (s *SSHD) Restart(ctx context.Context) error { return errors.Join(s.Stop(), s.Start(ctx)) }

// Log returns what sshd logged.
func (s *SSHD) Log() string {
	b, _ := os.ReadFile(s.path("sshd.log"))
	return string(b)
}

// Close stops the host, and removes its user with all that runs and lies there.
func (s *SSHD) Close() error {
	err := s.Stop()
	if s.user != nil {
		err = errors.Join(err, s.user.remove())
		s.user = nil
	}
	return err
}

// writeKey makes a private key file and returns its public key.
func writeKey(path string) (ssh.PublicKey, error) {
	pub, priv, err := ed25519.GenerateKey(nil)
	if err != nil {
		return nil, err
	}
	block, err := ssh.MarshalPrivateKey(priv, "")
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
		return nil, err
	}
	return ssh.NewPublicKey(pub)
}

// handedOut keeps two hosts of one test binary off the same port.
var handedOut sync.Map

func freePort() (int, error) {
	for range 50 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return 0, err
		}
		port := l.Addr().(*net.TCPAddr).Port
		l.Close()
		if _, taken := handedOut.LoadOrStore(port, true); !taken {
			return port, nil
		}
	}
	return 0, errors.New("no free port")
}
