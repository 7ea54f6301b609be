package egress

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// A rig is a proxy whose targets are listeners of this machine. Each address of the name service stands
// for the listener, whatever it is.
type rig struct {
	*testing.T
	proxy  *Proxy
	server *httptest.Server

	mu      sync.Mutex
	names   map[string][]string
	asked   int
	dialled []string
	seen    []Outcome
	news    chan struct{} // closed and replaced with each outcome
}

func newRig(t *testing.T, target net.Listener, change func(*Options)) *rig {
	t.Helper()
	g := &rig{T: t, names: map[string][]string{}, news: make(chan struct{})}
	o := Options{
		Permits: func(host string, port uint16) bool { return port == 443 && host != "other.example.com" },
		Record: func(o Outcome) {
			g.mu.Lock()
			defer g.mu.Unlock()
			g.seen = append(g.seen, o)
			close(g.news)
			g.news = make(chan struct{})
		},
		Resolve: func(_ context.Context, host string) (all []netip.Addr, err error) {
			g.mu.Lock()
			defer g.mu.Unlock()
			g.asked++
			for _, a := range g.names[host] {
				all = append(all, netip.MustParseAddr(a))
			}
			return all, nil
		},
		Dial: func(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
			g.mu.Lock()
			g.dialled = append(g.dialled, to.String())
			g.mu.Unlock()
			if target == nil {
				return nil, errors.New("nobody answers")
			}
			return (&net.Dialer{}).DialContext(ctx, "tcp", target.Addr().String())
		},
		own: func() []netip.Addr { return []netip.Addr{netip.MustParseAddr("93.184.215.99")} },
	}
	if change != nil {
		change(&o)
	}
	g.proxy = New(o)
	g.server = httptest.NewServer(g.proxy)
	t.Cleanup(g.server.Close)
	t.Cleanup(g.proxy.Close)
	return g
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// say sends a request as it is, and returns the connection, a reader of it and the answer's status.
func (g *rig) say(text string) (*net.TCPConn, *bufio.Reader, int, string) {
	g.Helper()
	c, err := net.Dial("tcp", g.server.Listener.Addr().String())
	if err != nil {
		g.Fatal(err)
	}
	g.Cleanup(func() { c.Close() })
	if _, err := io.WriteString(c, text); err != nil {
		g.Fatal(err)
	}
	in := bufio.NewReader(c)
	res, err := http.ReadResponse(in, &http.Request{Method: http.MethodConnect})
	if err != nil {
		g.Fatal(err)
	}
	body := ""
	if res.StatusCode != http.StatusOK {
		all, _ := io.ReadAll(in) // the connection ends
		body = string(all)
	}
	return c.(*net.TCPConn), in, res.StatusCode, body
}

func (g *rig) connect(target string) (*net.TCPConn, *bufio.Reader, int, string) {
	g.Helper()
	return g.say("CONNECT " + target + " HTTP/1.1\r\nHost: " + target + "\r\n\r\n")
}

// last waits for an outcome of a kind, and returns it.
func (g *rig) last(kind Kind) Outcome {
	g.Helper()
	patience := time.After(time.Minute)
	for {
		g.mu.Lock()
		seen, news := slices.Clone(g.seen), g.news
		g.mu.Unlock()
		if i := slices.IndexFunc(seen, func(o Outcome) bool { return o.Kind == kind }); i >= 0 {
			return seen[i]
		}
		select {
		case <-news:
		case <-patience:
			g.Fatalf("no outcome is %s: %+v", kind, seen)
		}
	}
}

func TestAConnectionIsCarriedUntilBothDirectionsEnd(t *testing.T) {
	t.Parallel()
	l := listen(t)
	g := newRig(t, l, nil)
	g.names["git.example.com"] = []string{"93.184.215.14"}
	// What is sent with the request belongs to the target, too.
	c, in, status, _ := g.say("CONNECT Git.Example.com.:443 HTTP/1.1\r\nHost: Git.Example.com.:443\r\n\r\nearly ")
	if status != http.StatusOK {
		t.Fatal(status)
	}
	far, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer far.Close()
	io.WriteString(c, "and late")
	c.CloseWrite()
	got, err := io.ReadAll(far) // ends: the program has ended its direction
	if err != nil || string(got) != "early and late" {
		t.Fatalf("%q, %v", got, err)
	}
	if n := g.proxy.Busy(); n != 1 {
		t.Errorf("%d connections are open", n)
	}
	io.WriteString(far, "the answer") // the other direction goes on
	far.Close()
	if got, err := io.ReadAll(in); err != nil || string(got) != "the answer" {
		t.Fatalf("%q, %v", got, err)
	}
	if o := g.last(KindDone); o.Host != "git.example.com" || o.Port != 443 || o.Sent != 14 || o.Received != 10 || o.Kind.Refused() {
		t.Errorf("%+v", o)
	}
	if o := g.seen[0]; o.Kind != KindOpen {
		t.Errorf("the beginning is not on record: %+v", o)
	}
}

func TestOnlyWhatIsListedIsReached(t *testing.T) {
	t.Parallel()
	g := newRig(t, nil, nil)
	for target, kind := range map[string]Kind{
		"other.example.com:443": KindNotListed, "git.example.com:22": KindNotListed,
		"93.184.215.14:443": KindRequest, "[2606:2800::1]:443": KindRequest, "2130706433:443": KindRequest, "127.1:443": KindRequest,
		"git.example.com:0": KindRequest, "git.example.com:443x": KindRequest, "a_b%41.com:443": KindRequest,
	} {
		g.mu.Lock()
		g.seen = nil
		g.mu.Unlock()
		_, _, status, text := g.connect(target)
		if status == http.StatusBadRequest && kind == KindRequest {
			continue // net/http has refused it
		}
		if o := g.last(kind); status < 400 || o.Message == "" || !strings.Contains(text, o.Message) || !o.Kind.Refused() {
			t.Errorf("%s: %d %s, %+v", target, status, text, o)
		}
	}
	if g.asked > 0 || len(g.dialled) > 0 {
		t.Errorf("a name server was asked %d times, and %v were dialled", g.asked, g.dialled)
	}
}

func TestOtherMethodsAreRefused(t *testing.T) {
	t.Parallel()
	g := newRig(t, nil, nil)
	for _, line := range []string{"GET http://git.example.com:443/", "POST http://git.example.com:443/", "OPTIONS http://git.example.com:443/"} {
		_, _, status, text := g.say(line + " HTTP/1.1\r\nHost: git.example.com\r\nContent-Length: 0\r\n\r\n")
		if status != http.StatusMethodNotAllowed || !strings.Contains(text, "CONNECT alone") {
			t.Errorf("%s: %d %s", line, status, text)
		}
	}
}

func TestAddressesThatAreNotPublicAreNotDialled(t *testing.T) {
	t.Parallel()
	g := newRig(t, nil, func(o *Options) { o.Private = prefixes("10.1.0.0/16", "fd00:1::/32") })
	for _, a := range []string{
		"127.0.0.1", "127.9.9.9", "0.0.0.0", "10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1", "169.254.169.254", "100.64.0.1", "100.100.100.200", "192.0.0.192",
		"198.18.0.1", "224.0.0.1", "239.1.1.1", "240.0.0.1", "255.255.255.255", "168.63.129.16", "192.0.2.1", "203.0.113.9",
		"::", "::1", "fe80::1", "fe80::1%eth0", "fc00::1", "fd00:ec2::254", "ff02::1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::127.0.0.1", "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe",
		"2002:7f00:1::1", "2001::1", "2001:db8::1", "fec0::1",
		"93.184.215.99", "::ffff:93.184.215.99", // this machine's
	} {
		if p := g.proxy.mayDial(netip.MustParseAddr(a)); p {
			t.Errorf("%s may be dialled", a)
		}
		g.names["git.example.com"] = []string{a}
		if _, no := g.proxy.dial(t.Context(), "git.example.com", 443); no == nil || no.kind != KindAddress {
			t.Errorf("%s: %+v", a, no)
		}
	}
	if len(g.dialled) > 0 {
		t.Errorf("%v were dialled", g.dialled)
	}
	for _, a := range []string{"93.184.215.14", "10.1.2.3", "::ffff:10.1.2.3", "fd00:1::5", "2606:2800:21f::1", "64:ff9b::5db8:d70e", "172.32.0.1", "100.128.0.1", "11.0.0.1"} {
		if !g.proxy.mayDial(netip.MustParseAddr(a)) {
			t.Errorf("%s may not be dialled", a)
		}
	}
}

// A name server may answer a second question with an address of the worker's network.
func TestANameIsResolvedOnce(t *testing.T) {
	t.Parallel()
	l := listen(t)
	g := newRig(t, l, nil)
	g.names["git.example.com"] = []string{"127.0.0.1", "93.184.215.14", "10.0.0.1"}
	if _, _, status, _ := g.connect("git.example.com:443"); status != http.StatusOK {
		t.Fatal(status)
	}
	if g.asked != 1 || len(g.dialled) != 1 || g.dialled[0] != "93.184.215.14:443" {
		t.Errorf("asked %d times, dialled %v", g.asked, g.dialled)
	}
}

func TestTheNextAddressIsTried(t *testing.T) {
	t.Parallel()
	g := newRig(t, nil, nil)
	g.names["git.example.com"] = []string{"93.184.215.14", "2606:2800:21f::1"}
	_, _, status, text := g.connect("git.example.com:443")
	if o := g.last(KindUnreached); status != http.StatusBadGateway || !strings.Contains(text, "nobody answers") || o.Kind.Refused() || len(g.dialled) != 2 {
		t.Errorf("%d %s, dialled %v", status, text, g.dialled)
	}
	_, _, status, text = g.connect("nowhere.example.com:443")
	if status != http.StatusBadGateway || !strings.Contains(text, "no address") {
		t.Errorf("%d %s", status, text)
	}
}

func TestStrangersAreRefusedBeforeTheirRequestIsRead(t *testing.T) {
	t.Parallel()
	g := newRig(t, nil, func(o *Options) {
		o.Callers = func(_ context.Context, from []string) (errs []error) {
			for _, address := range from {
				_, _, err := net.SplitHostPort(address)
				if err == nil {
					err = fmt.Errorf("%w: it is of user 1001", ErrStranger)
				}
				errs = append(errs, err)
			}
			return errs
		}
	})
	_, _, status, text := g.connect("git.example.com:443")
	if o := g.last(KindStranger); status != http.StatusForbidden || !strings.Contains(text, "1001") || o.Host != "" || g.asked > 0 {
		t.Errorf("%d %s, %+v", status, text, o)
	}
}

// Strangers wait to be checked, and then a program of the session connects. It waits for the questions
// that are under way and for one more, however many strangers there are.
func TestStrangersDoNotKeepTheSessionsProgramsWaiting(t *testing.T) {
	t.Parallel()
	const strangers = 60
	var (
		mu        sync.Mutex
		mine      string
		questions int
		ahead     = make(chan struct{}) // closed once the program of the session waits
	)
	g := newRig(t, listen(t), func(o *Options) {
		o.Callers = func(_ context.Context, from []string) []error {
			mu.Lock()
			questions++
			mu.Unlock()
			<-ahead
			mu.Lock()
			defer mu.Unlock()
			errs := make([]error, len(from))
			for i, address := range from {
				if address != mine {
					errs[i] = ErrStranger
				}
			}
			return errs
		}
	})
	g.names["git.example.com"] = []string{"93.184.215.14"}
	await := func(under, n int) {
		for {
			g.proxy.checker.mu.Lock()
			waiting := len(g.proxy.checker.waiting)
			g.proxy.checker.mu.Unlock()
			mu.Lock()
			asked := questions
			mu.Unlock()
			if asked == under && waiting == n {
				return
			}
			time.Sleep(time.Millisecond)
		}
	}
	for n := range strangers {
		c, err := net.Dial("tcp", g.server.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		io.WriteString(c, "CONNECT git.example.com:443 HTTP/1.1\r\nHost: git.example.com:443\r\n\r\n")
		// The first questions have one connection each.
		await(min(n+1, questionsAtOnce), max(0, n+1-questionsAtOnce))
	}
	c, err := net.Dial("tcp", g.server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	mu.Lock()
	mine = c.LocalAddr().String()
	mu.Unlock()
	io.WriteString(c, "CONNECT git.example.com:443 HTTP/1.1\r\nHost: git.example.com:443\r\n\r\n")
	await(questionsAtOnce, strangers-questionsAtOnce+1)
	close(ahead)
	res, err := http.ReadResponse(bufio.NewReader(c), &http.Request{Method: http.MethodConnect})
	if err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("%+v, %v", res, err)
	}
	mu.Lock()
	defer mu.Unlock()
	if questions > questionsAtOnce+1 {
		t.Errorf("it waited for %d questions", questions)
	}
}

// A stranger who goes away leaves nothing that must be checked, and the host is not called a stranger if it
// does not answer.
func TestAConnectionThatCannotBeCheckedIsRefusedAndSaysSo(t *testing.T) {
	t.Parallel()
	asked := make(chan int, 8)
	answer := make(chan struct{})
	g := newRig(t, nil, func(o *Options) {
		o.Callers = func(ctx context.Context, from []string) []error {
			asked <- len(from)
			select {
			case <-answer:
			case <-ctx.Done():
			}
			return []error{errors.New("the host does not answer")} // for each further one, none
		}
	})
	var gone []net.Conn
	for range questionsAtOnce {
		c, err := net.Dial("tcp", g.server.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		io.WriteString(c, "CONNECT git.example.com:443 HTTP/1.1\r\nHost: git.example.com:443\r\n\r\n")
		<-asked
		gone = append(gone, c)
	}
	left, err := net.Dial("tcp", g.server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	io.WriteString(left, "CONNECT git.example.com:443 HTTP/1.1\r\nHost: git.example.com:443\r\n\r\n")
	waiting := func() int {
		g.proxy.checker.mu.Lock()
		defer g.proxy.checker.mu.Unlock()
		return len(g.proxy.checker.waiting)
	}
	for waiting() == 0 {
		time.Sleep(time.Millisecond)
	}
	left.Close()
	if o := g.last(KindUnchecked); o.Message == "" || !o.Kind.Refused() {
		t.Errorf("%+v", o)
	}
	if n := waiting(); n != 0 {
		t.Errorf("%d connections that are gone wait", n)
	}
	close(answer)
	for _, c := range gone {
		res, err := http.ReadResponse(bufio.NewReader(c), &http.Request{Method: http.MethodConnect})
		if err != nil || res.StatusCode != http.StatusServiceUnavailable {
			t.Errorf("%+v, %v", res, err)
		}
	}
}

func TestConnectionsAreBounded(t *testing.T) {
	t.Parallel()
	l := listen(t)
	g := newRig(t, l, func(o *Options) { o.Limits.Conns = 2 })
	g.names["git.example.com"] = []string{"93.184.215.14"}
	first, _, _, _ := g.connect("git.example.com:443")
	g.connect("git.example.com:443")
	if _, _, status, text := g.connect("git.example.com:443"); status != http.StatusServiceUnavailable || !strings.Contains(text, "2 connections") {
		t.Errorf("%d %s", status, text)
	}
	first.SetLinger(0)
	first.Close() // with a reset
	g.last(KindDone)
	for {
		if _, _, status, _ := g.connect("git.example.com:443"); status == http.StatusOK {
			break
		}
	}
}

func TestASilentConnectionEnds(t *testing.T) {
	t.Parallel()
	l := listen(t)
	g := newRig(t, l, func(o *Options) { o.Limits.Idle = 20 * time.Millisecond })
	g.names["git.example.com"] = []string{"93.184.215.14"}
	_, in, status, _ := g.connect("git.example.com:443")
	if status != http.StatusOK {
		t.Fatal(status)
	}
	io.ReadAll(in)
	if o := g.last(KindIdle); o.Host == "" || !o.Kind.Cut() || !strings.Contains(o.Message, "carried nothing for 20ms") {
		t.Errorf("%+v", o)
	}
}

func TestCloseEndsConnections(t *testing.T) {
	t.Parallel()
	l := listen(t)
	g := newRig(t, l, nil)
	g.names["git.example.com"] = []string{"93.184.215.14"}
	_, in, status, _ := g.connect("git.example.com:443")
	if status != http.StatusOK {
		t.Fatal(status)
	}
	g.proxy.Close()
	io.ReadAll(in)
	if o := g.last(KindClosed); !o.Kind.Cut() || !strings.Contains(o.Message, "was closed") {
		t.Errorf("%+v", o)
	}
	if n := g.proxy.Busy(); n != 0 {
		t.Errorf("%d connections are open", n)
	}
	if _, _, status, _ := g.connect("git.example.com:443"); status != http.StatusServiceUnavailable {
		t.Errorf("a closed proxy answers %d", status)
	}
}

// An end of a connection that fails is told from the loss of the way to the host.
func TestALostWayToTheHostIsToldFromAnEndThatFails(t *testing.T) {
	t.Parallel()
	lost, reset := errors.New("the way is lost"), errors.New("the connection was reset")
	for _, of := range []struct {
		near, far error
		want      Kind
	}{{near: lost, want: KindLost}, {near: reset, want: KindDone}, {far: lost, want: KindDone}} {
		near, far := newFailing(of.near), newFailing(of.far)
		p := New(Options{Lost: func(err error) bool { return errors.Is(err, lost) }})
		var o Outcome
		p.carry(near, near, far, &o)
		p.Close()
		if o.Kind != of.want || (o.Message != "") != o.Kind.Cut() {
			t.Errorf("near %v, far %v: %+v", of.near, of.far, o)
		}
	}
}

// A failing connection takes all that is written. A read fails, or waits for the end.
type failing struct {
	net.Conn
	err  error
	once sync.Once
	done chan struct{}
}

func newFailing(err error) *failing { return &failing{err: err, done: make(chan struct{})} }

func (f *failing) Read([]byte) (int, error) {
	if f.err != nil {
		return 0, f.err
	}
	<-f.done
	return 0, net.ErrClosed
}
func (f *failing) Write(p []byte) (int, error) { return len(p), nil }
func (f *failing) SetDeadline(time.Time) error { return nil }
func (f *failing) Close() error {
	f.once.Do(func() { close(f.done) })
	return nil
}
