package hostexec_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"

	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/hostexec/hosttest"
	"fairlead.dev/fairlead/internal/realparts"
)

// A lending has a real agent with two keys, a host to which it is lent, and two servers
// that accept the first key.
type lending struct {
	t           *testing.T
	real        string // the real agent's socket
	pool        *hostexec.Pool
	host        *hosttest.SSHD
	allowed     *hosttest.SSHD
	elsewhere   *hosttest.SSHD
	fingerprint string // of the first key
	log         *lockedBuffer
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func newLending(t *testing.T) *lending {
	t.Helper()
	realparts.NotShort(t)
	l := &lending{t: t, real: filepath.Join(t.TempDir(), "agent"), log: &lockedBuffer{}}
	for _, s := range []**hosttest.SSHD{&l.host, &l.allowed, &l.elsewhere} {
		sshd, err := hosttest.NewSSHD(t.Context(), filepath.Join(t.TempDir(), "sshd"), hosttest.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { sshd.Close() })
		*s = sshd
	}
	pub, err := os.ReadFile(l.allowed.Dir + "/authorized_keys")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(l.elsewhere.Dir+"/authorized_keys", pub, 0o644); err != nil {
		t.Fatal(err)
	}
	key, _, _, _, err := ssh.ParseAuthorizedKey(pub)
	if err != nil {
		t.Fatal(err)
	}
	l.fingerprint = ssh.FingerprintSHA256(key)
	// The agent ends with the shell that starts it, which ends with this process.
	cmd := exec.Command("ssh-agent", "-a", l.real, "sh", "-c", "echo up; read -r x")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { in.Close(); _ = cmd.Wait() }) // its shell's status says nothing
	if n, err := out.Read(make([]byte, 16)); n == 0 {
		t.Fatalf("ssh-agent: %v", err)
	}
	for _, identity := range []string{l.allowed.Identity(), l.host.Identity()} {
		if out, err := l.with(l.real, "ssh-add", "-q", identity); err != nil {
			t.Fatalf("ssh-add: %v: %s", err, out)
		}
	}
	l.pool = hostexec.NewPool(hostexec.PoolOptions{Agent: l.real, Logger: slog.New(slog.NewTextHandler(l.log, nil))})
	t.Cleanup(func() { l.pool.Close() })
	return l
}

// with runs a program that uses the agent of a socket.
func (l *lending) with(socket string, argv ...string) (string, error) {
	cmd := exec.CommandContext(l.t.Context(), argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), "SSH_AUTH_SOCK="+socket)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// login logs in to a server with the real ssh.
func (l *lending) login(socket string, to *hosttest.SSHD, user string) (string, error) {
	l.t.Helper()
	_, port, _ := net.SplitHostPort(to.Address())
	known := filepath.Join(l.t.TempDir(), "known_hosts")
	if err := os.WriteFile(known, []byte(knownAs(to)), 0o600); err != nil {
		l.t.Fatal(err)
	}
	return l.with(socket, "ssh", "-F", "/dev/null", "-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=yes", "-o", "UserKnownHostsFile="+known,
		"-o", "IdentityFile=none", "-p", port, user+"@127.0.0.1", "echo arrived")
}

func knownAs(s *hosttest.SSHD) string {
	_, port, _ := net.SplitHostPort(s.Address())
	return fmt.Sprintf("[127.0.0.1]:%s %s\n", port, s.HostKey())
}

func (l *lending) terms() hostexec.AgentTerms {
	return hostexec.AgentTerms{Key: l.fingerprint, Server: l.allowed.Address(), User: l.allowed.User(), KnownHosts: knownAs(l.allowed)}
}

// lend lends the agent. The host is this machine, so programs here can use the socket.
func (l *lending) lend(terms hostexec.AgentTerms) (*hostexec.LentAgent, error) {
	h, err := l.pool.Host(l.host.Spec())
	if err != nil {
		l.t.Fatal(err)
	}
	lent, err := l.pool.LendAgent(l.t.Context(), h, terms)
	if err == nil {
		l.t.Cleanup(lent.Close)
	}
	return lent, err
}

func TestALentAgentLogsInToItsServerAndDoesNothingElse(t *testing.T) {
	l := newLending(t)
	lent, err := l.lend(l.terms())
	if err != nil {
		t.Fatal(err)
	}
	refused := func(says string) {
		t.Helper()
		if got := strings.Join(lent.Refused(), "; "); !strings.Contains(got, says) {
			t.Errorf("refused: %s; want %s", got, says)
		}
		if !strings.Contains(l.log.String(), says) {
			t.Errorf("the log does not say %s: %s", says, l.log)
		}
	}
	if out, err := l.login(lent.Socket, l.allowed, l.allowed.User()); err != nil || !strings.Contains(out, "arrived") {
		t.Fatalf("log in to the allowed server: %v: %s", err, out)
	}
	if got := lent.Refused(); len(got) > 0 {
		t.Errorf("a login to the allowed server was refused something: %q", got)
	}
	if out, err := l.with(lent.Socket, "ssh-add", "-l"); err != nil || strings.Count(out, "\n") != 1 || !strings.Contains(out, l.fingerprint) {
		t.Errorf("it lists: %v: %s", err, out)
	}

	// The other server accepts the key, as the real agent shows.
	if out, err := l.login(l.real, l.elsewhere, l.elsewhere.User()); err != nil || !strings.Contains(out, "arrived") {
		t.Fatalf("log in elsewhere with the real agent: %v: %s", err, out)
	}
	if out, err := l.login(lent.Socket, l.elsewhere, l.elsewhere.User()); err == nil || strings.Contains(out, "arrived") {
		t.Errorf("logged in elsewhere with the lent agent: %s", out)
	}
	refused("another server than " + l.allowed.Address())

	file := filepath.Join(t.TempDir(), "decision")
	pub := file + ".pub"
	key, err := os.ReadFile(l.allowed.Dir + "/authorized_keys")
	if err := errors.Join(err, os.WriteFile(file, []byte("accept"), 0o600), os.WriteFile(pub, key, 0o600)); err != nil {
		t.Fatal(err)
	}
	sign := func(socket string) (string, error) {
		return l.with(socket, "ssh-keygen", "-Y", "sign", "-n", "file", "-f", pub, file)
	}
	if out, err := sign(l.real); err != nil {
		t.Fatalf("sign a file with the real agent: %v: %s", err, out)
	}
	if err := os.Remove(file + ".sig"); err != nil {
		t.Fatal(err)
	}
	if out, err := sign(lent.Socket); err == nil {
		t.Errorf("signed a file with the lent agent: %s", out)
	}
	refused("SSHSIG")

	for _, argv := range [][]string{{"ssh-add", "-q", l.elsewhere.Identity()}, {"ssh-add", "-D"}, {"ssh-add", "-d", l.allowed.Identity()}} {
		if out, err := l.with(lent.Socket, argv...); err == nil {
			t.Errorf("%q changed the agent: %s", argv, out)
		}
	}
	refused("cannot be changed")
	if out, err := l.with(l.real, "ssh-add", "-l"); err != nil || strings.Count(out, "\n") != 2 {
		t.Errorf("the real agent has: %v: %s", err, out)
	}

	// Other commands on the host do not have the agent, even while it is lent.
	h, err := l.pool.Host(l.host.Spec())
	if err != nil {
		t.Fatal(err)
	}
	res, err := h.Run(t.Context(), hostexec.Command{Script: `echo "${SSH_AUTH_SOCK-none}"`})
	if err != nil || string(res.Stdout) != "none\n" {
		t.Errorf("a command beside it: %q, %v", res.Stdout, err)
	}
	conn, err := net.Dial("unix", lent.Socket)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	there := agent.NewClient(conn)
	if keys, err := there.List(); err != nil || len(keys) != 1 {
		t.Errorf("before its end: %v, %v", keys, err)
	}
	lent.Close()
	if _, err := there.List(); err == nil {
		t.Error("it is lent on after its time")
	}
}

func TestALentAgentLogsInAsTheUserOfTheURLOnly(t *testing.T) {
	l := newLending(t)
	terms := l.terms()
	terms.User = "git"
	lent, err := l.lend(terms)
	if err != nil {
		t.Fatal(err)
	}
	if out, err := l.login(lent.Socket, l.allowed, l.allowed.User()); err == nil {
		t.Errorf("logged in as another user: %s", out)
	}
	if got := strings.Join(lent.Refused(), "; "); !strings.Contains(got, "not as \"git\"") {
		t.Errorf("refused: %s", got)
	}
}

func TestAnAgentIsNotLentUnlessKeyAndServerAreClear(t *testing.T) {
	l := newLending(t)
	// The known_hosts of whoever runs this test are not looked at.
	t.Setenv("HOME", t.TempDir())
	for name, c := range map[string]struct {
		change func(*hostexec.AgentTerms)
		want   error
		says   string
	}{
		"two keys":              {func(t *hostexec.AgentTerms) { t.Key = "" }, hostexec.ErrWhichKey, l.fingerprint},
		"a key that it has not": {func(t *hostexec.AgentTerms) { t.Key = "SHA256:x" }, hostexec.ErrWhichKey, l.fingerprint},
		"an unknown server":     {func(t *hostexec.AgentTerms) { t.KnownHosts = "" }, hostexec.ErrWhichServer, "~/.ssh/known_hosts"},
		"another server's line": {func(t *hostexec.AgentTerms) { t.KnownHosts = knownAs(l.elsewhere) }, hostexec.ErrWhichServer, "~/.ssh/known_hosts"},
		"lines of nothing":      {func(t *hostexec.AgentTerms) { t.KnownHosts = "x" }, hostexec.ErrWhichServer, "line:1"},
	} {
		terms := l.terms()
		c.change(&terms)
		if _, err := l.lend(terms); !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
	none := hostexec.NewPool(hostexec.PoolOptions{})
	defer none.Close()
	h, err := l.pool.Host(l.host.Spec())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := none.LendAgent(t.Context(), h, l.terms()); !errors.Is(err, hostexec.ErrNoAgent) {
		t.Errorf("a worker without an agent: %v", err)
	}
}

func TestTheOnlyKeyIsLentToAServerThatTheWorkerKnows(t *testing.T) {
	l := newLending(t)
	if out, err := l.with(l.real, "ssh-add", "-d", l.host.Identity()); err != nil {
		t.Fatalf("ssh-add: %v: %s", err, out)
	}
	home := t.TempDir()
	t.Setenv("HOME", home)
	if err := errors.Join(os.Mkdir(home+"/.ssh", 0o700), os.WriteFile(home+"/.ssh/known_hosts", []byte(knownAs(l.allowed)), 0o600)); err != nil {
		t.Fatal(err)
	}
	terms := l.terms()
	terms.Key, terms.User, terms.KnownHosts = "", "", ""
	lent, err := l.lend(terms)
	if err != nil {
		t.Fatal(err)
	}
	if out, err := l.login(lent.Socket, l.allowed, l.allowed.User()); err != nil || !strings.Contains(out, "arrived") {
		t.Errorf("log in: %v: %s; refused %q", err, out, lent.Refused())
	}
	if out, err := l.login(lent.Socket, l.elsewhere, l.elsewhere.User()); err == nil {
		t.Errorf("logged in elsewhere: %s", out)
	}
}
