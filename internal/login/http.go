package login

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"golang.org/x/time/rate"
)

// Bounds on what an issuer sends.
const (
	maxAnswer    = 1 << 20 // bytes
	answerWait   = 15 * time.Second
	maxRedirects = 3
)

var (
	errPlain = errors.New("the address is not https, and that of the issuer is")
	errOften = errors.New("the issuer was asked too often: try again in a minute")
)

// newClient returns a client for an issuer.
func newClient(issuer string) *http.Client {
	next := &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		TLSHandshakeTimeout:    answerWait,
		ResponseHeaderTimeout:  answerWait,
		MaxResponseHeaderBytes: 64 << 10,
		MaxConnsPerHost:        8,
		IdleConnTimeout:        30 * time.Second,
	}
	return &http.Client{
		Transport: &bounded{next: next, secure: strings.HasPrefix(issuer, "https:")},
		Timeout:   answerWait,
		CheckRedirect: func(_ *http.Request, before []*http.Request) error {
			if len(before) > maxRedirects {
				return fmt.Errorf("it redirects more than %d times", maxRedirects)
			}
			return nil
		},
	}
}

// paced returns a client of newClient that asks less often, with the same connections.
func paced(c *http.Client, pace *rate.Limiter) *http.Client {
	own, by := *c, *c.Transport.(*bounded)
	by.pace = pace
	own.Transport = &by
	return &own
}

// A bounded transport reads answers up to maxAnswer. If the issuer's address is https, it
// asks no other address than https.
type bounded struct {
	next   *http.Transport
	secure bool
	pace   *rate.Limiter
}

func (b *bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	err := error(nil)
	switch {
	case b.secure && r.URL.Scheme != "https":
		err = errPlain
	case b.pace != nil && !b.pace.Allow():
		err = errOften
	}
	if err != nil {
		if r.Body != nil {
			r.Body.Close()
		}
		return nil, err
	}
	resp, err := b.next.RoundTrip(r)
	if err == nil {
		resp.Body = http.MaxBytesReader(nil, resp.Body, maxAnswer)
	}
	return resp, err
}

// CloseIdleConnections is called by http.Client.
func (b *bounded) CloseIdleConnections() { b.next.CloseIdleConnections() }

// brief returns an error's text without line ends, cut to what a person reads. The address in
// a url.Error is kept: it says what cannot be reached.
func brief(err error) string {
	text := strings.Join(strings.Fields(err.Error()), " ")
	const most = 300
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}
	return text
}

// network reports whether an error is one of the connection to the issuer.
func network(err error) bool {
	var u *url.Error
	return errors.As(err, &u)
}
