package credentials

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"fairlead.dev/fairlead/hostexec/hosttest"
	"fairlead.dev/fairlead/internal/lab"
	"fairlead.dev/fairlead/internal/lab/e2e"
	"fairlead.dev/fairlead/internal/lab/scriptedmodel"
	"fairlead.dev/fairlead/internal/protocol"
)

// keyed imports a seed with an API key of its own, and returns the key.
func keyed(t *testing.T, seed string) (key string) {
	t.Helper()
	b := make([]byte, 20)
	rand.Read(b)
	key = "sk-gateway-" + hex.EncodeToString(b)
	dir := t.TempDir()
	for name, text := range map[string]string{
		"auth.json":   `{"auth_mode":"apikey","OPENAI_API_KEY":"` + key + `"}`,
		"config.toml": scriptedmodel.LoginConfigTOML(e2e.Lab.Model.BaseURL()),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	e2e.OK(t, "seed", "import", seed, dir)
	return key
}

// keylessHost adds a host with codex, and returns its sshd and its root folder.
func keylessHost(t *testing.T, name string, o hosttest.Options) (*hosttest.SSHD, string) {
	t.Helper()
	o.Root = filepath.Join(e2e.Lab.Dir, name+"-root")
	sshd, err := e2e.Lab.AddHost(e2e.Within(t), name, o)
	if err != nil {
		t.Fatal(err)
	}
	e2e.OK(t, "host", "provision", name)
	return sshd, o.Root
}

// ended closes a session when the test ends.
func ended(t *testing.T, id string) {
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 15*time.Minute)
		defer cancel()
		var v protocol.SessionView
		if err := e2e.Lab.JSON(ctx, &v, "session", "show", id); err != nil || v.State == protocol.Closed || v.State == protocol.Failed {
			return
		}
		if r := e2e.Lab.Ctl(ctx, nil, "session", "close", id); r.Code != 0 {
			t.Errorf("close: %v", r)
		}
	})
}

// modelPort returns the port at which the codex of a session finds the model.
func modelPort(t *testing.T, root, id string) (port int) {
	t.Helper()
	mark, err := os.ReadFile(filepath.Join(root, "sessions", id, "generation"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(mark)) {
		if _, err := fmt.Sscanf(line, "gateway %d", &port); err == nil {
			return port
		}
	}
	t.Fatalf("session %s has no port for the model:\n%s", id, mark)
	return 0
}

// A zone is a network from which nothing but answers of sshd comes out.
type zone struct {
	*testing.T
	line *hosttest.DelayLine
}

func newZone(t *testing.T) *zone {
	t.Helper()
	line, err := hosttest.NewDelayLine(e2e.Within(t), 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := line.Close(); err != nil {
			t.Error(err)
		}
	})
	return &zone{t, line}
}

// run runs a program in the zone.
func (z *zone) run(words ...string) (string, error) {
	out, err := z.line.Command(e2e.Within(z.T), words[0], words[1:]...).CombinedOutput()
	return string(out), err
}

func (z *zone) must(words ...string) string {
	z.Helper()
	out, err := z.run(words...)
	if err != nil {
		z.Fatalf("%v: %v: %s", words, err, out)
	}
	return out
}

// shut lets only sshds answer. It proves it with a listener that could be reached before.
func (z *zone) shut(sshds ...*hosttest.SSHD) {
	z.Helper()
	l, err := net.Listen("tcp", net.JoinHostPort(z.line.Near(), "0"))
	if err != nil {
		z.Fatal(err)
	}
	defer l.Close()
	host, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		z.Fatal(err)
	}
	dial := []string{"bash", "-c", "exec 3<>/dev/tcp/" + host + "/" + port}
	z.must(dial...)
	for _, s := range sshds {
		_, port, err := net.SplitHostPort(s.Address())
		if err != nil {
			z.Fatal(err)
		}
		z.must("ip", "rule", "add", "pref", "100", "ipproto", "tcp", "sport", port, "lookup", "main")
	}
	// UDP to whatever address, such as a name server's, arrives in the zone and is counted.
	z.must("ip", "route", "add", "local", "0.0.0.0/0", "dev", "lo", "table", "53", "src", "127.0.0.1")
	z.must("ip", "rule", "add", "pref", "150", "ipproto", "udp", "lookup", "53")
	z.must("ip", "rule", "add", "pref", "200", "unreachable")
	if out, err := z.run(dial...); err == nil {
		z.Fatalf("a listener outside is reached: %s", out)
	}
	before := z.datagrams()
	if z.must("bash", "-c", "echo >/dev/udp/192.0.2.1/53"); z.datagrams() == before {
		z.Fatal("a question to a name server is not counted")
	}
}

// datagrams returns how many packets of UDP, which DNS needs, the zone has sent, to itself
// too.
func (z *zone) datagrams() (n int) {
	z.Helper()
	var names []string
	for line := range strings.Lines(z.must("cat", "/proc/net/snmp")) {
		words := strings.Fields(line)
		if names == nil || names[0] != words[0] {
			names = words
			continue
		}
		for i, name := range names {
			if words[0]+name == "Udp:OutDatagrams" {
				var err error
				if n, err = strconv.Atoi(words[i]); err != nil {
					z.Fatal(err)
				}
			}
		}
		names = nil
	}
	return n
}

// listens reports whether a program of the zone listens at a port.
func (z *zone) listens(port int) bool {
	z.Helper()
	for line := range strings.Lines(z.must("cat", "/proc/net/tcp", "/proc/net/tcp6")) {
		if f := strings.Fields(line); len(f) > 3 && strings.HasSuffix(f[1], fmt.Sprintf(":%04X", port)) && f[3] == "0A" {
			return true
		}
	}
	return false
}

func inMemory(t *testing.T, pid int, text string) bool {
	t.Helper()
	found, err := lab.InMemory(pid, text)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// noKeyIn fails the test if codex of a session has the key in its memory. That the search
// finds what is there is proved with a text that codex does have.
func noKeyIn(t *testing.T, id, key, known string) {
	t.Helper()
	pids := e2e.Lab.CodexOf(id)
	if len(pids) == 0 {
		t.Fatalf("no codex of session %s runs", id)
	}
	found := false
	for _, pid := range pids {
		if inMemory(t, pid, key) {
			t.Errorf("codex (%d) has the key in its memory", pid)
		}
		found = found || inMemory(t, pid, known)
	}
	if !found {
		t.Errorf("%q is in the memory of no codex: the search finds nothing", known)
	}
}

// askedWith counts the answers of the model to requests with a key, and those to others of
// the same conversation.
func askedWith(t *testing.T, key, text string) (with, without int) {
	t.Helper()
	sum := sha256.Sum256([]byte(key))
	for _, r := range e2e.Lab.Model.Requests() {
		raw, err := json.Marshal(r.UserMessages)
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case !bytes.Contains(raw, []byte(text)):
		case r.TokenSHA256 == hex.EncodeToString(sum[:]):
			with++
		default:
			without++
		}
	}
	return with, without
}

// The hosts have no key and reach nothing: neither the provider nor a name server. A command, an
// approval, a snapshot and a move work all the same.
func TestASessionRunsOnHostsWithoutAKeyAndWithoutAWayOut(t *testing.T) {
	key := keyed(t, "keyed")
	z := newZone(t)
	sshd1, one := keylessHost(t, "keyless-1", hosttest.Options{Behind: z.line})
	sshd2, two := keylessHost(t, "keyless-2", hosttest.Options{Behind: z.line})
	z.shut(sshd1, sshd2)
	sent := z.datagrams()
	watch := lab.WatchProcesses(key)
	const id = "keyless"
	e2e.OK(t, "session", "start", "--host", "keyless-1", "--seed", "keyed", "--credentials", "gateway", "--id", id)
	ended(t, id)
	acc := e2e.Send(t, id, "need a command, says keyless")
	a := e2e.Open(t, id, 1)[0]
	port := modelPort(t, one, id)
	noKeyIn(t, id, key, "says keyless")
	e2e.OK(t, "approval", "accept", a.ID, "--digest", a.Digest)
	if v := e2e.Ended(t, id, 1); v.Turn.Status != "completed" {
		t.Fatalf("turn %+v of message %+v, error %+v", v.Turn, acc, v.Error)
	}
	if text, err := os.ReadFile(filepath.Join(one, "sessions", id, "room", "work", "ran.txt")); err != nil || string(text) != "it ran\n" {
		t.Errorf("the command wrote %q: %v", text, err)
	}
	home := filepath.Join(one, "sessions", id, "room", "codex-home")
	if _, err := os.Stat(filepath.Join(home, "auth.json")); !os.IsNotExist(err) {
		t.Errorf("auth.json is on the host (%v)", err)
	}
	token, err := os.ReadFile(filepath.Join(home, "model-token"))
	if err != nil || !strings.HasPrefix(string(token), "fl-") {
		t.Errorf("the token is %q: %v", token, err)
	}

	e2e.OK(t, "snapshot", "create", id)
	e2e.OK(t, "session", "park", id)
	e2e.Until(t, id+" to be parked", func() (bool, error) { return e2e.Show(t, id).State == protocol.Parked, nil })
	if z.listens(port) {
		t.Errorf("somebody listens at port %d of a host that the session has left", port)
	}
	e2e.OK(t, "session", "resume", id, "--host", "keyless-2")
	if v := e2e.Turn(t, id, "say that you moved, says keyless"); v.Status != "completed" {
		t.Fatalf("turn %+v, error %+v", v, v.Error)
	}
	noKeyIn(t, id, key, "says keyless")
	if v := e2e.Show(t, id); v.Gateway == nil || v.Gateway.Requests < 3 || v.Gateway.Failed != 0 || v.Gateway.Input == 0 || v.Gateway.Output == 0 {
		t.Errorf("the gateway did %+v", v.Gateway)
	}
	port = modelPort(t, two, id)
	e2e.OK(t, "session", "close", id)
	if z.listens(port) {
		t.Errorf("somebody listens at port %d after the close", port)
	}
	if now := z.datagrams(); now != sent {
		t.Errorf("the hosts sent %d packets of UDP, such as questions to a name server", now-sent)
	}
	if with, without := askedWith(t, key, "says keyless"); with < 3 || without > 0 {
		t.Errorf("the model was asked %d times with the key and %d times without", with, without)
	}
	if found, files, _, err := lab.FindSecret(key, one, two, e2e.Lab.State); err != nil || len(found) > 0 || files < 10 {
		t.Errorf("the key is in %v (%d files, %v)", found, files, err)
	}
	if seen, samples := watch.Stop(); len(seen) > 0 || samples == 0 {
		t.Errorf("the key was seen in %v (%d samples)", seen, samples)
	}
}

func TestATurnOfTheModelGatewaySurvivesTheDeathOfItsWorker(t *testing.T) {
	keyed(t, "keyed-kill")
	keylessHost(t, "keyless-3", hosttest.Options{})
	const id = "keyless-kill"
	e2e.OK(t, "session", "start", "--host", "keyless-3", "--seed", "keyed-kill", "--credentials", "gateway", "--id", id)
	ended(t, id)
	e2e.Send(t, id, "count in the middle of gate gateway-kill")
	if _, err := e2e.Lab.Model.AwaitWaiting(e2e.Within(t), "gateway-kill"); err != nil {
		t.Fatal(err)
	}
	pid := e2e.WorkerPID(t)
	e2e.Kill(t, pid)
	e2e.Lab.Model.Release("gateway-kill")
	e2e.Back(t, pid)
	v := e2e.Ended(t, id, 1)
	if v.Turn.Status != "completed" {
		t.Fatalf("turn %+v, error %+v", v.Turn, v.Error)
	}
	saidOnce(t, id, "one two three four")
}

func TestAHostThatForbidsForwardsIsRefusedBeforeTheSessionBegins(t *testing.T) {
	keyed(t, "keyed-forbid")
	_, root := keylessHost(t, "keyless-4", hosttest.Options{Config: []string{"AllowTcpForwarding no"}})
	const id = "keyless-forbid"
	e2e.OK(t, "session", "start", "--host", "keyless-4", "--seed", "keyed-forbid", "--credentials", "gateway", "--id", id)
	ended(t, id)
	e2e.Send(t, id, "never, says forbidden")
	var v protocol.SessionView
	e2e.Until(t, "the refusal", func() (bool, error) {
		v = e2e.Show(t, id)
		return v.Error != nil, nil
	})
	if v.Error.Kind != protocol.ErrTypeUnfit || !strings.Contains(v.Error.Message, "AllowTcpForwarding") || v.ThreadID != "" {
		t.Errorf("session %s, thread %q, error %+v", v.State, v.ThreadID, v.Error)
	}
	for _, name := range []string{"room", "proc", "prepared", "codex-home"} {
		if _, err := os.Lstat(filepath.Join(root, "sessions", id, name)); !os.IsNotExist(err) {
			t.Errorf("%s is on the host (%v)", name, err)
		}
	}
}

func TestOnlyASeedWithAKeyCanBeUsedByTheModelGateway(t *testing.T) {
	login(t, "keyless-login")
	r := e2e.Exits(t, 2, "session", "start", "--host", "web-1", "--seed", "keyless-login", "--id", "no-gateway", "--credentials", "gateway")
	if !strings.Contains(r.Stderr, "of kind chatgpt") || !strings.Contains(r.Stderr, "--credentials gateway") {
		t.Errorf("it said %q", r.Stderr)
	}
	e2e.Exits(t, 3, "session", "show", "no-gateway")
}

func TestARevokedKeyEndsTheTurnAndMakesTheSeedSuspect(t *testing.T) {
	keyed(t, "keyed-revoked")
	keylessHost(t, "keyless-5", hosttest.Options{})
	const id = "keyless-revoked"
	e2e.OK(t, "session", "start", "--host", "keyless-5", "--seed", "keyed-revoked", "--credentials", "gateway", "--id", id)
	ended(t, id)
	e2e.Send(t, id, "the key is revoked after a command")
	v := e2e.Ended(t, id, 1)
	turns := turnsOf(t, id)
	if v.Turn.Status != "failed" || len(turns) != 1 || turns[0].Error == nil || turns[0].Error.Kind != protocol.EndAuth {
		t.Fatalf("turn %+v, all %+v", v.Turn, turns)
	}
	if strings.Contains(fmt.Sprintf("%+v", turns[0].Error), "sk-gateway-") {
		t.Errorf("the error has the key: %+v", turns[0].Error)
	}
	e2e.Until(t, "the seed to be suspect", func() (bool, error) { return seedShown(t, "keyed-revoked").Health == "suspect", nil })
	if v := e2e.Show(t, id); v.Gateway == nil || v.Gateway.LastKind != "auth" || v.Gateway.Failed != 1 {
		t.Errorf("the gateway did %+v", v.Gateway)
	}
}

// The seed's default counts for a session that does not say it, and for a fork. The session's own
// word counts before it, unless a bound forbids that.
func TestASessionUsesTheModelGatewayByTheDefaultOfItsSeed(t *testing.T) {
	key := keyed(t, "keyed-default")
	_, root := keylessHost(t, "keyless-default", hosttest.Options{})
	e2e.OK(t, "seed", "set", "keyed-default", "--credentials", "gateway")
	const id, text = "keyless-unsaid", "say hello, says unsaid"
	r := e2e.Lab.Ctl(e2e.Within(t), nil, "session", "start", "--host", "keyless-default", "--seed", "keyed-default", "--id", id)
	if r.Code != 0 || !strings.Contains(r.Stderr, "gateway, the default of seed keyed-default") {
		t.Fatalf("the start says %v", r)
	}
	ended(t, id)
	if v := e2e.Turn(t, id, text); v.Status != "completed" {
		t.Fatalf("turn %+v, error %+v", v, v.Error)
	}
	v := e2e.Show(t, id)
	if v.Options["credentials"] != protocol.CredentialsGateway || v.Options["credentials_by"] != protocol.BySeed || v.Gateway == nil || v.Gateway.Requests == 0 {
		t.Errorf("options %v, gateway %+v", v.Options, v.Gateway)
	}
	if _, err := os.Stat(filepath.Join(root, "sessions", id, "room", "codex-home", "auth.json")); !os.IsNotExist(err) {
		t.Errorf("auth.json is on the host (%v)", err)
	}
	if found, _, _, err := lab.FindSecret(key, root); err != nil || len(found) > 0 {
		t.Errorf("the key is in %v (%v)", found, err)
	}
	e2e.OK(t, "session", "fork", id, "--id", "keyless-unsaid-fork")
	ended(t, "keyless-unsaid-fork")
	if v := e2e.Turn(t, "keyless-unsaid-fork", text); v.Status != "completed" {
		t.Fatalf("turn of the fork %+v, error %+v", v, v.Error)
	}
	if v := e2e.Show(t, "keyless-unsaid-fork"); v.Options["credentials"] != protocol.CredentialsGateway || v.Gateway == nil {
		t.Errorf("options of the fork %v, gateway %+v", v.Options, v.Gateway)
	}

	start := func(id string) {
		e2e.OK(t, "session", "start", "--host", "keyless-default", "--seed", "keyed-default", "--credentials", "planted", "--id", id)
		ended(t, id)
	}
	start("keyless-says-planted")
	if v := e2e.Turn(t, "keyless-says-planted", text); v.Status != "completed" {
		t.Fatalf("turn %+v, error %+v", v, v.Error)
	}
	if v := e2e.Show(t, "keyless-says-planted"); v.Options["credentials"] != protocol.CredentialsPlanted || v.Gateway != nil {
		t.Errorf("options %v, gateway %+v", v.Options, v.Gateway)
	}
	e2e.OK(t, "session", "close", "keyless-says-planted")
	e2e.OK(t, "seed", "set", "keyed-default", "--allow-credentials", "gateway")
	start("keyless-may-not")
	e2e.Until(t, "the refusal", func() (bool, error) {
		v = e2e.Show(t, "keyless-may-not")
		return v.Error != nil, nil
	})
	if v.Error.Kind != protocol.ErrTypeBounds || !strings.Contains(v.Error.Message, "--credentials planted") {
		t.Errorf("session %s, error %+v", v.State, v.Error)
	}
}
