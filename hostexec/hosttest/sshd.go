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
	"syscall"
	"time"

	"golang.org/x/crypto/ssh"

	"fairlead.dev/fairlead/internal/protocol"
)

// Options are the options of an SSHD.
type Options struct {
	// Name is the host's name in its Spec; empty means a generated one.
	Name string
	// NewUser creates a temporary user (this process must be root). Otherwise
	// the host serves the current user.
	NewUser bool
	// Shell is the login shell of the new user; empty means /bin/bash.
	Shell string
	// RC holds files for the new user's home, by name, such as ".bashrc".
	RC map[string]string
	// Root is the Spec's Root.
	Root string
	// Config holds lines of sshd_config. They override the default lines.
	Config []string
	// Behind puts the host at the far end of a line; nil means loopback.
	Behind *DelayLine
	// Nice is the nice value of all processes on the host. With it, a host with many
	// processes does not slow down the test itself.
	Nice int
	// Program is the sshd; empty means /usr/sbin/sshd.
	Program string
}

// An SSHD is a real sshd on a loopback port, with its own host key, user key
// and configuration. Its methods are not safe for concurrent use.
type SSHD struct {
	// Dir contains its keys, configuration and log.
	Dir string
	// Home is the home folder of the user it serves.
	Home string

	opts    Options
	port    int
	held    *Port     // holds port until Close
	user    *testUser // nil if it serves the current user
	login   string
	hostKey ssh.PublicKey

	guard *exec.Cmd      // ends the listener when this process is gone
	alive io.WriteCloser // the guard's standard input
	pid   int            // pid of the listener

	orphans map[int]string // processes of a former listener that serve connections: start times by pid
}

// NewSSHD starts an sshd that keeps its files in dir. Close stops the sshd and removes
// files and users that it created outside of dir.
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
	// The port is free now, but another program may take it before sshd does.
	var err error
	for range 5 {
		if s.held, err = TakePort(); err != nil {
			break
		}
		s.port = s.held.Number
		if err = s.Start(ctx); err == nil {
			return s, nil
		}
		err = errors.Join(err, s.releasePort())
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
		// The home is a separate folder, so that rc files of the user who runs the tests
		// cannot slow tests down or break them (one such file waited a minute for a lock),
		// and no file is left in that user's home.
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

// authorizedKeys returns the path of the authorized keys. For a new user, they are in the
// user's home, because that user may be unable to access Dir.
func (s *SSHD) authorizedKeys() string {
	if s.user != nil {
		return filepath.Join(s.Home, ".fl-authorized-keys")
	}
	return s.path("authorized_keys")
}

func (s *SSHD) path(name string) string { return filepath.Join(s.Dir, name) }

// Identity returns the path of the private key that the host accepts.
func (s *SSHD) Identity() string { return s.path("id_ed25519") }

// User returns the login name that the host serves.
func (s *SSHD) User() string { return s.login }

// Address returns host:port.
func (s *SSHD) Address() string { return net.JoinHostPort(s.ip(), strconv.Itoa(s.port)) }

func (s *SSHD) ip() string {
	if s.opts.Behind != nil {
		return s.opts.Behind.Far()
	}
	return "127.0.0.1"
}

// HostKey returns the host's key as "type base64".
func (s *SSHD) HostKey() string {
	return strings.TrimSpace(string(ssh.MarshalAuthorizedKey(s.hostKey)))
}

// Spec returns the host's Spec with its key pinned.
func (s *SSHD) Spec() protocol.HostSpec {
	name := s.opts.Name
	if name == "" {
		name = "sshd-" + strconv.Itoa(s.port)
	}
	return protocol.HostSpec{
		Name: name, Address: s.ip(), Port: s.port, User: s.login,
		Identity: s.Identity(), HostKeys: []string{s.HostKey()}, Root: s.opts.Root,
	}
}

// SetConfig changes the lines of Options.Config. They take effect at the next Start.
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
		// Lines with host keys add up. For most other options the first line wins, but not
		// for all.
		if word == "HostKey" || !slices.ContainsFunc(s.opts.Config, given) {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "\n") + "\n"
}

// Start starts a stopped listener on the same port.
func (s *SSHD) Start(ctx context.Context) error {
	if s.guard != nil {
		return errors.New("sshd is running")
	}
	if err := os.WriteFile(s.path("sshd_config"), []byte(s.config()), 0o644); err != nil {
		return err
	}
	// The guard's input ends when this process ends in any way. Then the guard ends the
	// listener too.
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

// awaitListener waits until this sshd, and not another program, has the port.
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

// KillSessions kills the sshd processes that serve connections, as a crash would, and
// returns their number. The listener and the users' processes stay.
func (s *SSHD) KillSessions() int {
	n := 0
	for _, p := range s.sessions() {
		if kill(p) {
			n++
		}
	}
	return n
}

// FreezeSessions stops the sshd processes that serve connections, and returns their number.
// Their peers then get no answers, as from a machine without a network.
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
		// Stop the listener first, so that it starts no more children.
		syscall.Kill(s.pid, syscall.SIGSTOP)
		for s.KillSessions() > 0 {
			time.Sleep(2 * time.Millisecond) // a killed process takes a moment to exit
		}
		kill(s.pid)
	}
	s.alive.Close()
	s.guard.Wait() // the status is that of the killed listener
	s.guard, s.pid = nil, 0
	return nil
}

// Restart stops the host and starts it again on the same port.
func (s *SSHD) Restart(ctx context.Context) error { return errors.Join(s.Stop(), s.Start(ctx)) }

// Log returns the log of sshd.
func (s *SSHD) Log() string {
	b, _ := os.ReadFile(s.path("sshd.log"))
	return string(b)
}

// Close stops the host and removes its user with all the user's processes and
// files.
func (s *SSHD) Close() error {
	err := errors.Join(s.Stop(), s.releasePort())
	if s.user != nil {
		err = errors.Join(err, s.user.remove())
		s.user = nil
	}
	return err
}

func (s *SSHD) releasePort() error {
	if s.held == nil {
		return nil
	}
	p := s.held
	s.held = nil
	return p.Release()
}

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
