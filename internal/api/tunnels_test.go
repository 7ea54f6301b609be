package api

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/internal/access"
	"fairlead.dev/fairlead/internal/audit"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/internal/tunnel"
)

// hereHosts has the hosts h1 and h2, which are this machine.
type hereHosts struct{ pool *hostexec.Pool }

func (h hereHosts) Zone() string { return "" }

func (h hereHosts) Open(_ context.Context, name string) (hostexec.Host, error) {
	if name != "h1" && name != "h2" {
		return nil, problem(http.StatusNotFound, ErrNotFound, "there is no host %s", name)
	}
	return h.pool.Host(protocol.HostSpec{Name: protocol.LocalHost})
}

// greeter is an HTTP server, and its port.
func greeter(t *testing.T) (port int) {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprintf(w, "hello %s", r.URL.Path) }))
	t.Cleanup(srv.Close)
	u, err := url.Parse(srv.URL)
	if err != nil {
		t.Fatal(err)
	}
	port, err = strconv.Atoi(u.Port())
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// tunnelBench is a court with the hosts h1 and h2.
func tunnelBench(t *testing.T, j *journal) *court {
	t.Helper()
	pool := hostexec.NewPool(hostexec.PoolOptions{})
	t.Cleanup(func() { pool.Close() })
	c := lockedBench(t, func(o *Options) { o.Hosts, o.Record = hereHosts{pool}, j.add })
	c.things.objects["host/h1"] = access.Object{Host: "h1", HostLabels: map[string]string{"tier": "dev"}}
	c.things.objects["host/h2"] = access.Object{Host: "h2", HostLabels: map[string]string{"tier": "prod"}}
	return c
}

// through makes a request by way of a tunnel.
func through(t *testing.T, c *tunnel.Client, path string) (string, error) {
	t.Helper()
	tr := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		near, far := net.Pipe()
		go func() { _ = c.Carry(context.WithoutCancel(ctx), far) }() // the request below fails if it does
		return near, nil
	}}
	resp, err := (&http.Client{Transport: tr}).Get("http://host" + path)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return string(text), err
}

func TestATunnelReachesAPortOfAHostAndIsOnRecord(t *testing.T) {
	var j journal
	c := tunnelBench(t, &j)
	port := greeter(t)
	ann := c.as("ann")
	opened := 0
	client := tunnel.NewClient(func(ctx context.Context) (net.Conn, error) {
		opened++
		return ann.OpenTunnel(ctx, "", "h1", port)
	})
	for i := range 3 {
		if got, err := through(t, client, fmt.Sprint("/", i)); err != nil || got != fmt.Sprint("hello /", i) {
			t.Errorf("%q, %v", got, err)
		}
	}
	if opened != 1 {
		t.Errorf("%d tunnels were opened, and each is signed", opened)
	}
	client.Close()
	c.server.Close() // which waits for the end of the tunnel
	all := j.take()
	if len(all) != 2 {
		t.Fatalf("records: %+v", all)
	}
	for i, says := range []string{fmt.Sprintf("tunnel to port %d of host h1 opened", port), "ended, opened at"} {
		if r := all[i]; r.Principal != "ann" || r.Verb != "host.tunnel" || r.Object != "host/h1/tunnel" || r.Outcome != audit.Accepted || !strings.Contains(r.Reason, says) {
			t.Errorf("record %d: %+v", i, r)
		}
	}
	if !strings.Contains(all[1].Reason, "3 connections, 0 that could not be made") {
		t.Error(all[1].Reason)
	}
}

func TestATunnelNeedsItsVerbAndConditionsSeeTheHost(t *testing.T) {
	var j journal
	c := tunnelBench(t, &j)
	c.law.set(accessFile(t, `  - {name: dev hosts, roles: [host-operator], to: [own], when: 'host.labels["tier"] == "dev"'}`+"\n"))
	port := greeter(t)
	for _, try := range []struct{ who, host, kind string }{
		{"vic", "h1", ErrForbidden}, {"olga", "h1", ErrForbidden}, {"own", "h2", ErrForbidden}, {"own", "h3", ErrForbidden},
		{"own", "h1", ""}, {"ann", "h2", ""}, {"ann", "h3", ErrNotFound}, {"ann", "local", ErrRefused},
	} {
		conn, err := c.as(try.who).OpenTunnel(t.Context(), "", try.host, port)
		if got := errorKind(err); got != try.kind {
			t.Errorf("%s to %s: %v", try.who, try.host, err)
		}
		if err == nil {
			conn.Close()
		}
		if try.kind != ErrForbidden {
			continue
		}
		refused := 0
		for _, r := range j.take() {
			if r.Outcome == audit.Refused && r.Principal == try.who && r.Verb == "host.tunnel" && r.Object == "host/"+try.host+"/tunnel" {
				refused++
			}
		}
		if refused != 1 {
			t.Errorf("%s to %s: %d records", try.who, try.host, refused)
		}
	}
	if _, err := c.as("ann").OpenTunnel(t.Context(), "far", "h1", port); errorKind(err) != ErrElsewhere {
		t.Errorf("a host of another zone: %v", err)
	}
	for _, bad := range []int{0, 65536, -1} {
		if _, err := c.as("ann").OpenTunnel(t.Context(), "", "h1", bad); errorKind(err) != ErrBadInput {
			t.Errorf("port %d: %v", bad, err)
		}
	}
}

func TestATunnelEndsWhenItsCallerMayNotHaveItAnyMore(t *testing.T) {
	var j journal
	c := tunnelBench(t, &j)
	c.law.set(accessFile(t, "  - {name: for now, roles: [host-operator], to: [olga]}\n"))
	conn, err := c.as("olga").OpenTunnel(t.Context(), "", "h1", greeter(t))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	c.law.set(accessFile(t, ""))
	if _, err := io.Copy(io.Discard, conn); err != nil { // until the worker closes it
		t.Log(err)
	}
}

func TestATunnelEndsWhenItsConditionDoesNotHoldAnyMore(t *testing.T) {
	var j journal
	c := tunnelBench(t, &j)
	c.law.set(accessFile(t, `  - {name: dev hosts, roles: [host-operator], to: [own], when: 'host.labels["tier"] == "dev"'}`+"\n"))
	conn, err := c.as("own").OpenTunnel(t.Context(), "", "h1", greeter(t))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	c.things.Lock()
	c.things.objects["host/h1"] = access.Object{Host: "h1", HostLabels: map[string]string{"tier": "prod"}}
	c.things.Unlock()
	if _, err := io.Copy(io.Discard, conn); err != nil { // until the worker closes it
		t.Log(err)
	}
}

// A shelf has one host, whose entry a test changes.
type shelf struct {
	hereHosts
	mu  sync.Mutex
	now hostexec.Host
	err error
}

func (s *shelf) Open(context.Context, string) (hostexec.Host, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now, s.err
}

func TestATunnelEndsWithTheEntryOfItsHost(t *testing.T) {
	pool, other := hostexec.NewPool(hostexec.PoolOptions{}), hostexec.NewPool(hostexec.PoolOptions{})
	t.Cleanup(func() { pool.Close() })
	t.Cleanup(func() { other.Close() })
	here, err := pool.Host(protocol.HostSpec{Name: protocol.LocalHost})
	if err != nil {
		t.Fatal(err)
	}
	elsewhere, err := other.Host(protocol.HostSpec{Name: protocol.LocalHost})
	if err != nil {
		t.Fatal(err)
	}
	port := greeter(t)
	for what, change := range map[string]func(*shelf){
		"it is removed":          func(s *shelf) { s.now, s.err = nil, problem(http.StatusNotFound, ErrNotFound, "there is no such host") },
		"it has another address": func(s *shelf) { s.now = elsewhere },
	} {
		t.Run(what, func(t *testing.T) {
			s := &shelf{now: here}
			b := serve(t, func(o *Options) { o.Hosts, o.Recheck = s, 5*time.Millisecond })
			conn, err := b.client("").OpenTunnel(t.Context(), "", "h1", port)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			s.mu.Lock()
			change(s)
			s.mu.Unlock()
			if _, err := io.Copy(io.Discard, conn); err != nil { // until the worker closes it
				t.Log(err)
			}
		})
	}
}

func TestAPrincipalDoesNotTakeAllPlacesForTunnels(t *testing.T) {
	var j journal
	c := tunnelBench(t, &j)
	c.law.set(accessFile(t, "  - {name: both, roles: [host-operator], to: [olga]}\n"))
	port := greeter(t)
	ann := c.as("ann")
	var first net.Conn
	for i := range maxTunnelsOf {
		conn, err := ann.OpenTunnel(t.Context(), "", "h1", port)
		if err != nil {
			t.Fatalf("tunnel %d: %v", i+1, err)
		}
		defer conn.Close()
		if first == nil {
			first = conn
		}
	}
	if _, err := ann.OpenTunnel(t.Context(), "", "h1", port); errorKind(err) != ErrBusy {
		t.Errorf("one more: %v", err)
	}
	conn, err := c.as("olga").OpenTunnel(t.Context(), "", "h1", port)
	if err != nil {
		t.Fatalf("somebody else: %v", err)
	}
	conn.Close()
	first.Close()
	for { // until the worker has noticed that the first one has ended
		conn, err := ann.OpenTunnel(t.Context(), "", "h1", port)
		if err == nil {
			conn.Close()
			return
		}
		if errorKind(err) != ErrBusy {
			t.Fatal(err)
		}
	}
}

func TestNobodyAtThePortIsTold(t *testing.T) {
	var j journal
	c := tunnelBench(t, &j)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := ln.Addr().(*net.TCPAddr).Port
	ln.Close()
	client := tunnel.NewClient(func(ctx context.Context) (net.Conn, error) {
		return c.as("ann").OpenTunnel(ctx, "", "h1", port)
	})
	defer client.Close()
	near, far := net.Pipe()
	defer near.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	failure, ok := client.Carry(ctx, far).(*tunnel.Failure)
	if !ok || failure.Kind != ErrNotAnswered || !strings.Contains(failure.Hint, fmt.Sprint("port ", port)) {
		t.Errorf("got %+v", failure)
	}
}

// A worker elsewhere is reached by TLS, and takes callers with its token.
func TestATunnelWorksOverTLS(t *testing.T) {
	pool := hostexec.NewPool(hostexec.PoolOptions{})
	t.Cleanup(func() { pool.Close() })
	_, with, without := overTLS(t, func(o *Options) { o.Hosts = hereHosts{pool} })
	port := greeter(t)
	if _, err := without.OpenTunnel(t.Context(), "", "h1", port); errorKind(err) != ErrUnauthorized {
		t.Errorf("without the token: %v", err)
	}
	client := tunnel.NewClient(func(ctx context.Context) (net.Conn, error) { return with.OpenTunnel(ctx, "", "h1", port) })
	defer client.Close()
	for i := range 3 {
		if got, err := through(t, client, fmt.Sprint("/", i)); err != nil || got != fmt.Sprint("hello /", i) {
			t.Errorf("%q, %v", got, err)
		}
	}
}
