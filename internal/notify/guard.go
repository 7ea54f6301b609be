package notify

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/netip"
	"sync/atomic"
	"syscall"
	"time"
)

// errPrivate is why the guard refuses an address.
var errPrivate = errors.New("the address is private, and the rules do not allow it (allow_private)")

// shut are networks that are not on the internet, beside those that netip knows.
var shut = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"), netip.MustParsePrefix("100.64.0.0/10"), netip.MustParsePrefix("192.0.0.0/24"),
	netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("198.18.0.0/15"), netip.MustParsePrefix("198.51.100.0/24"),
	netip.MustParsePrefix("203.0.113.0/24"), netip.MustParsePrefix("240.0.0.0/4"), netip.MustParsePrefix("64:ff9b::/96"),
	netip.MustParsePrefix("64:ff9b:1::/48"), netip.MustParsePrefix("2001:db8::/32"), netip.MustParsePrefix("2002::/16"), netip.MustParsePrefix("fec0::/10"),
}

// allowed says whether a message may go to an address.
func (r *Rules) allowed(ip netip.Addr) error {
	ip = ip.Unmap().WithZone("")
	for _, p := range r.allow {
		if p.Contains(ip) {
			return nil
		}
	}
	if !ip.IsGlobalUnicast() || ip.IsPrivate() {
		return errPrivate
	}
	for _, p := range shut {
		if p.Contains(ip) {
			return errPrivate
		}
	}
	return nil
}

// dialer dials what the rules allow. It looks at the address that is dialled, after names are
// resolved.
func (r *Rules) dialer() *net.Dialer {
	return &net.Dialer{Timeout: 10 * time.Second, Control: func(_, address string, _ syscall.RawConn) error {
		at, err := netip.ParseAddrPort(address)
		if err != nil {
			return fmt.Errorf("it is not an IP address: %w", errPrivate)
		}
		return r.allowed(at.Addr())
	}}
}

// maxAnswer bounds what is read of an answer.
const maxAnswer = 64 << 10

// client returns an HTTP client that the guard watches. It uses no proxy, because a proxy
// would dial in its place, and follows no redirect.
func (r *Rules) client() *http.Client {
	return &http.Client{
		Timeout: sendTimeout,
		Transport: &http.Transport{
			DialContext: r.dialer().DialContext, TLSHandshakeTimeout: 10 * time.Second, DisableKeepAlives: true,
			MaxResponseHeaderBytes: 32 << 10, TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12},
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// sendTimeout bounds one attempt.
const sendTimeout = 30 * time.Second

// A wire remembers whether a request may have reached a server.
type wire struct {
	http.RoundTripper
	wrote atomic.Bool
}

func (w *wire) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx := httptrace.WithClientTrace(req.Context(), &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { w.wrote.Store(true) }})
	return w.RoundTripper.RoundTrip(req.WithContext(ctx))
}

// watched returns a client and its wire.
func (r *Rules) watched() (*http.Client, *wire) {
	c := r.client()
	w := &wire{RoundTripper: c.Transport}
	c.Transport = w
	return c, w
}
