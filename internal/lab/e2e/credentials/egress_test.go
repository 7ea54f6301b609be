package credentials

import (
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"fairlead.dev/fairlead/hostexec/hosttest"
	"fairlead.dev/fairlead/internal/lab/e2e"
	"fairlead.dev/fairlead/internal/protocol"
)

// clonable is the listener that the workers let sessions reach.
var clonable net.Listener

func portOf(a net.Addr) string {
	_, port, err := net.SplitHostPort(a.String())
	if err != nil {
		panic(err)
	}
	return port
}

// gitServer serves a repository with one file at clonable.
func gitServer(t *testing.T, text string) {
	t.Helper()
	dir := t.TempDir()
	for _, words := range [][]string{
		{"git", "init", "-q", "work"},
		{"sh", "-c", `printf %s "$1" > work/file`, "sh", text},
		{"git", "-C", "work", "add", "file"},
		{"git", "-C", "work", "-c", "user.name=t", "-c", "user.email=t@example.com", "commit", "-q", "-m", "one"},
		{"git", "clone", "-q", "--bare", "work", "repo.git"},
		{"git", "-C", "repo.git", "update-server-info"},
	} {
		cmd := exec.CommandContext(e2e.Within(t), words[0], words[1:]...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %v: %s", words, err, out)
		}
	}
	s := httptest.NewUnstartedServer(http.FileServer(http.Dir(dir)))
	s.Listener.Close()
	s.Listener = clonable
	s.StartTLS()
	t.Cleanup(s.Close)
}

// The host reaches nothing. A command clones a repository through the worker. It does not reach another
// port, and neither another process of its user nor another user has its way out.
func TestCommandsReachWhatIsListedFromAHostWithoutAWayOut(t *testing.T) {
	const id, text = "way-out", "it came by way of the worker"
	gitServer(t, text)
	keyed(t, "keyed-out")
	z := newZone(t)
	sshd, root := keylessHost(t, "keyless-out", hosttest.Options{Behind: z.line})
	z.shut(sshd)
	sent := z.datagrams()
	listed := portOf(clonable.Addr())
	model, err := url.Parse(e2e.Lab.Model.URL())
	if err != nil {
		t.Fatal(err)
	}
	other := model.Port()
	start := []string{"session", "start", "--host", "keyless-out", "--seed", "keyed-out", "--credentials", "gateway", "--network", "on", "--id", id}
	if r := e2e.Exits(t, 2, append(start[:len(start)-4:len(start)-4], "--id", id, "--egress", "localhost:"+listed)...); !strings.Contains(r.Stderr, "--network on") {
		t.Errorf("without a network: %v", r)
	}
	e2e.OK(t, append(start, "--egress", "localhost:"+listed)...)
	ended(t, id)
	e2e.Send(t, id, "clone by way of the worker, port "+listed+", not "+other)
	if _, err := e2e.Lab.Model.AwaitWaiting(e2e.Within(t), "way-out"); err != nil {
		t.Fatal(err)
	}
	work := filepath.Join(root, "sessions", id, "room", "work")
	if got, err := os.ReadFile(filepath.Join(work, "there", "file")); err != nil || string(got) != text {
		t.Errorf("the command cloned %q: %v", got, err)
	}
	if _, err := os.Stat(filepath.Join(work, "over.txt")); err != nil {
		t.Error(err)
	}
	port := modelPort(t, root, id)
	curl := "curl -sS -k --noproxy '' -m 60 -x http://127.0.0.1:" + strconv.Itoa(port) + " https://localhost:" + listed + "/"
	for who, words := range map[string][]string{
		"another process":                  {"sh", "-c", curl},
		"another user":                     {"setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "sh", "-c", "cd /; " + curl},
		"another process, without CONNECT": {"sh", "-c", "curl -sS -f --noproxy '' -m 60 -x http://127.0.0.1:" + strconv.Itoa(port) + " http://localhost:" + listed + "/"},
	} {
		if out, err := z.run(words...); err == nil || !strings.Contains(out, "403") {
			t.Errorf("%s: %v: %s", who, err, out)
		}
	}
	e2e.Lab.Model.Release("way-out")
	if v := e2e.Ended(t, id, 1); v.Turn.Status != "completed" {
		t.Fatalf("turn %+v, error %+v", v.Turn, v.Error)
	}
	v := e2e.Show(t, id)
	if u := v.Egress; u == nil || u.Connections == 0 || u.Received < int64(len(text)) || u.Refused < 4 || len(u.Hosts) != 2 || u.Hosts[0].Host != "localhost" || u.Hosts[1].Refused == 0 {
		t.Errorf("on record is %+v", u)
	}
	if out := e2e.OK(t, "session", "show", id); !strings.Contains(out, "localhost:"+listed) || !strings.Contains(out, "refused") {
		t.Errorf("shown is %s", out)
	}
	e2e.Until(t, "the strangers to be on record", func() (bool, error) {
		return strings.Contains(e2e.OK(t, "audit", "list", "--session", id), "egress.ask"), nil
	})
	if n := z.datagrams(); n != sent {
		t.Errorf("the host sent %d packets of UDP, such as questions to a name server", n-sent)
	}
	e2e.OK(t, "session", "close", id)
	if z.listens(port) {
		t.Errorf("somebody listens at port %d after the close", port)
	}

	// What the workers do not permit is refused before anything of the session is on the host.
	e2e.OK(t, append(start[:len(start)-1:len(start)-1], "way-out-2", "--egress", "localhost:"+other)...)
	e2e.Until(t, "way-out-2 to be refused", func() (bool, error) { return e2e.Show(t, "way-out-2").State == protocol.Failed, nil })
	if v := e2e.Show(t, "way-out-2"); v.Error == nil || v.Error.Kind != protocol.ErrTypeBounds {
		t.Errorf("refused with %+v", v.Error)
	}
}
