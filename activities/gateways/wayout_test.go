package gateways

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"fairlead.dev/fairlead/activities/site"
	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/hostexec/hosttest"
	"fairlead.dev/fairlead/internal/audit"
	"fairlead.dev/fairlead/internal/egress/rule"
	"fairlead.dev/fairlead/internal/gateway"
)

// A program of the session has a connection when the Gate closes, after the last report of a pump. A
// stranger asked before.
func TestStrangersAndWhatIsCutAfterTheLastReportAreOnRecord(t *testing.T) {
	t.Parallel()
	sshd := hosttest.StartSSHD(t, hosttest.Options{})
	pool := hostexec.NewPool(hostexec.PoolOptions{})
	defer pool.Close()
	h, err := pool.Host(sshd.Spec())
	if err != nil {
		t.Fatal(err)
	}
	target, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer target.Close()
	_, to, err := net.SplitHostPort(target.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	allowed := "localhost:" + to
	rules, err := rule.ParseAll([]string{allowed})
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var said []audit.Record
	record := func(r audit.Record) {
		mu.Lock()
		defer mu.Unlock()
		said = append(said, r)
	}
	dir := filepath.Join(sshd.Home, "sessions", "s1")
	g := &Gate{host: h, key: lingering{session: "s1"}, tokens: &gateway.Tokens{}, end: func() {},
		site: site.NewSite(site.Deps{Stranger: record, Unreported: record, Egress: site.Egress{Allow: rules, Private: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}})}
	g.strangers, g.outsiders = strangersOf(h.Name())
	if g.egress, err = g.newEgress([]string{allowed}, dir); err != nil {
		t.Fatal(err)
	}
	if g.gateway, err = gateway.New(gateway.Options{Proxy: g.egress, Upstreams: []gateway.Upstream{{Name: "one", BaseURL: "http://127.0.0.1:9"}}, Tokens: g.tokens}); err != nil {
		t.Fatal(err)
	}
	fence := hostexec.Fence{Dir: dir, Epoch: hostexec.Epoch{Generation: 1, Attempt: 1}}
	if g.forward, err = pool.OpenForward(t.Context(), h, hostexec.ForwardSpec{Name: "model", Fence: fence}); err != nil {
		t.Fatal(err)
	}
	g.key.port = g.forward.Port()
	g.joined.Go(func() { _ = g.gateway.Serve(g.forward) }) // which Close ends

	request := fmt.Sprintf("CONNECT %s HTTP/1.1\r\nHost: %[1]s\r\n\r\n", allowed)
	port := fmt.Sprint(g.key.port)
	stranger, err := net.Dial("tcp", "127.0.0.1:"+port)
	if err != nil {
		t.Fatal(err)
	}
	defer stranger.Close()
	io.WriteString(stranger, request)
	if res, err := http.ReadResponse(bufio.NewReader(stranger), &http.Request{Method: http.MethodConnect}); err != nil || res.StatusCode != http.StatusForbidden {
		t.Fatalf("a stranger: %+v, %v", res, err)
	}
	// It connects once it is known as a program of the session.
	mine := exec.Command("bash", "-c", `read -r x; exec 3<>"/dev/tcp/127.0.0.1/$1"; printf %s "$2" >&3; IFS= read -r line <&3; echo "$line"; cat <&3`, "bash", port, request)
	in, err := mine.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := mine.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	mine.Stderr = os.Stderr
	if err := mine.Start(); err != nil {
		t.Fatal(err)
	}
	defer mine.Wait()
	begun(t, dir, "app-server-1", mine.Process.Pid, startOf(t, mine.Process.Pid))
	io.WriteString(in, "\n")
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || !strings.Contains(line, "200") {
		t.Fatalf("a program of the session: %q, %v", line, err)
	}
	if use := g.Carried(); use == nil || use.Connections != 1 || use.Refused != 1 || use.Cut != 0 {
		t.Errorf("reported: %+v", use)
	}
	g.Close()
	for told := 0; told < 2; { // that of the stranger is told aside
		mu.Lock()
		told = len(said)
		mu.Unlock()
		time.Sleep(time.Millisecond)
	}
	mu.Lock()
	defer mu.Unlock()
	verbs := map[string]string{}
	for _, r := range said {
		if r.Object != "session/s1" {
			t.Errorf("a record of %s", r.Object)
		}
		verbs[r.Verb+" "+r.Outcome] += r.Reason
	}
	if got := verbs[audit.EgressEnd+" "+audit.Accepted]; !strings.Contains(got, "1 cut") || !strings.Contains(got, allowed+": the session's way out was closed") {
		t.Errorf("what was cut: %q", got)
	}
	if got := verbs[audit.EgressAsk+" "+audit.Refused]; !strings.Contains(got, ": 1 since ") {
		t.Errorf("the stranger: %q", got)
	}
	if len(said) != 2 {
		t.Errorf("%d records: %+v", len(said), said)
	}
}
