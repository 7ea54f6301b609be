package api

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"fairlead.dev/fairlead/internal/command"
	"fairlead.dev/fairlead/internal/localsocket"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/internal/tokens"
)

// ErrUnreachable means that no worker answers. Unless the error says otherwise, nothing was
// done.
var ErrUnreachable = errors.New("no worker answers")

// ClientOptions say how a client and a worker recognize each other.
type ClientOptions struct {
	// Token is the bearer token.
	Token string
	// Sign returns the header of a request that proves who makes it; nil proves nothing.
	Sign func(ctx context.Context, r command.Request) (header string, err error)
	// CA is a file of trusted certificates; default the system's.
	CA string
	// ServerName is expected in the certificate, if not the address's host.
	ServerName string
	// Owners are users, beside our own and root, that may listen on a unix socket.
	Owners []int
	// Patience is how long a broken feed is retried; default 30 s.
	Patience time.Duration
}

// silence is after how long without a line a feed counts as broken.
const silence = 50 * time.Second

// A Client talks to one worker. It is safe for concurrent use.
type Client struct {
	endpoint string
	base     string
	http     *http.Client
	token    string
	sign     func(ctx context.Context, r command.Request) (string, error)
	patience time.Duration
	worker   atomic.Pointer[string] // the process for which requests are signed
}

// NewClient does not connect. The endpoint is unix:///path, http://… or https://….
func NewClient(endpoint string, opts ClientOptions) (*Client, error) {
	if err := CheckEndpoint(endpoint); err != nil {
		return nil, err
	}
	u, _ := url.Parse(endpoint)
	c := &Client{endpoint: endpoint, base: strings.TrimSuffix(endpoint, "/"), token: opts.Token, sign: opts.Sign, patience: opts.Patience}
	if c.patience <= 0 {
		c.patience = 30 * time.Second
	}
	tr := &http.Transport{
		Proxy:                 nil, // never through a proxy
		MaxIdleConnsPerHost:   4,
		IdleConnTimeout:       time.Minute,
		TLSHandshakeTimeout:   10 * time.Second,
		ResponseHeaderTimeout: 60 * time.Second,
	}
	dialer := &net.Dialer{Timeout: 5 * time.Second}
	switch u.Scheme {
	case "unix":
		c.base = "http://worker"
		path := u.Path
		tr.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return localsocket.Dial(ctx, path, opts.Owners...)
		}
	case "http":
		if strings.HasPrefix(opts.Token, tokens.Prefix) {
			return nil, fmt.Errorf("%s: %s", endpoint, secretTokens)
		}
		if !loopbackName(u.Host) {
			return nil, fmt.Errorf("%s is neither loopback nor https: it would show the token and all text to the network", endpoint)
		}
		tr.DialContext = dialer.DialContext
	case "https":
		tr.DialContext = dialer.DialContext
		tr.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12, ServerName: opts.ServerName}
		if opts.CA != "" {
			pem, err := os.ReadFile(opts.CA)
			if err != nil {
				return nil, fmt.Errorf("read the worker's CA: %w", err)
			}
			pool := x509.NewCertPool()
			if !pool.AppendCertsFromPEM(pem) {
				return nil, fmt.Errorf("read the worker's CA: %s holds no certificate", opts.CA)
			}
			tr.TLSClientConfig.RootCAs = pool
		}
	}
	c.http = &http.Client{Transport: tr, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	return c, nil
}

// Endpoint returns the address.
func (c *Client) Endpoint() string { return c.endpoint }

// Close closes idle connections.
func (c *Client) Close() error {
	c.http.CloseIdleConnections()
	return nil
}

// Status returns the worker's status.
func (c *Client) Status(ctx context.Context) (Status, error) {
	var st Status
	err := c.call(ctx, http.MethodGet, "/v1/status", nil, &st)
	return st, err
}

// Live returns the state of this worker's pump of a session. If none is attached, another
// worker may have it.
func (c *Client) Live(ctx context.Context, session string) (protocol.SessionLive, error) {
	var v protocol.SessionLive
	err := c.call(ctx, http.MethodGet, "/v1/sessions/"+url.PathEscape(session)+"/live", nil, &v)
	return v, err
}

// Request returns a request of a session in full.
func (c *Client) Request(ctx context.Context, session, digest string) (protocol.Request, error) {
	var req protocol.Request
	err := c.call(ctx, http.MethodGet, "/v1/sessions/"+url.PathEscape(session)+"/requests/"+url.PathEscape(digest), nil, &req)
	return req, err
}

// PutMessage stores a long prompt. It is idempotent.
func (c *Client) PutMessage(ctx context.Context, folder, text string) (StoredMessage, error) {
	var m StoredMessage
	err := c.call(ctx, http.MethodPost, "/v1/messages?"+inFolder(folder), []byte(text), &m)
	return m, err
}

// PutSeed sends a packed seed.
func (c *Client) PutSeed(ctx context.Context, name string, bundle []byte) (StoredSeed, error) {
	if strings.HasPrefix(c.endpoint, "http://") {
		return StoredSeed{}, &Error{Kind: ErrRefused, Message: "a seed holds credentials: it is given to a worker over a unix socket or TLS only",
			Hint: "set api.listen of the worker to unix:///path, or give it a certificate"}
	}
	var st StoredSeed
	err := c.call(ctx, http.MethodPost, "/v1/seeds/"+url.PathEscape(name), bundle, &st)
	return st, err
}

// ExportSeed returns a seed, encrypted for one recipient, if the seed permits it.
func (c *Client) ExportSeed(ctx context.Context, name string, in ExportSeed) (SeedExport, error) {
	var out SeedExport
	if strings.HasPrefix(c.endpoint, "http://") {
		return out, &Error{Kind: ErrRefused, Message: "a seed holds credentials: a worker hands it out over a unix socket or TLS only",
			Hint: "set api.listen of the worker to unix:///path, or give it a certificate"}
	}
	body, err := json.Marshal(in)
	if err != nil {
		return out, err
	}
	resp, err := c.send(ctx, http.MethodPost, "/v1/seeds/"+url.PathEscape(name)+"/export", body)
	if err != nil {
		return out, err
	}
	defer resp.Body.Close()
	out.Kind = resp.Header.Get(headerKind)
	out.Generation, _ = strconv.ParseInt(resp.Header.Get(headerGeneration), 10, 64) // 0 if it is no number
	if out.Data, err = io.ReadAll(io.LimitReader(resp.Body, 2*MaxSeed)); err != nil {
		return SeedExport{}, fmt.Errorf("read the answer of the worker at %s: %w", c.endpoint, err)
	}
	return out, nil
}

func (c *Client) call(ctx context.Context, method, path string, body []byte, out any) error {
	resp, err := c.send(ctx, method, path, body)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(io.LimitReader(resp.Body, 64<<20)).Decode(out); err != nil {
		return fmt.Errorf("read the answer of the worker at %s: %w", c.endpoint, err)
	}
	return nil
}

// send does one request. Any status but 200 is an error, an *Error if the worker sent one.
func (c *Client) send(ctx context.Context, method, path string, body []byte) (*http.Response, error) {
	return c.sendStream(ctx, method, path, bytes.NewReader(body), int64(len(body)), command.BodyDigest(body))
}

// sendStream sends size bytes; -1 means unknown. digest is what is signed of the body.
func (c *Client) sendStream(ctx context.Context, method, path string, body io.Reader, size int64, digest string) (*http.Response, error) {
	resp, err := c.sendOnce(ctx, method, path, body, size, digest)
	var e *Error
	for range maxOther {
		again, ok := body.(*bytes.Reader)
		if !ok || !errors.As(err, &e) || e.Kind != ErrOtherWorker {
			break
		}
		if _, serr := again.Seek(0, io.SeekStart); serr != nil {
			return nil, serr
		}
		resp, err = c.sendOnce(ctx, method, path, body, size, digest)
	}
	return resp, err
}

// maxOther bounds how often a request is signed anew for a process that has taken the place
// of another one.
const maxOther = 3

// asks returns for which process requests are signed, and asks if that is not known. An older worker
// names none, and takes no signed requests.
func (c *Client) asks(ctx context.Context, streams bool) (string, error) {
	if id := c.worker.Load(); id != nil && !streams {
		return *id, nil
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.base+"/v1/status", http.NoBody)
	if err != nil {
		return "", err
	}
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	resp, err := c.do(ctx, req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 64<<10)) // for the next request on this connection
	return resp.Header.Get(command.WorkerHeader), nil
}

// do makes a request, and remembers which process answered.
func (c *Client) do(ctx context.Context, req *http.Request) (*http.Response, error) {
	resp, err := c.http.Do(req)
	if err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		var u *url.Error
		if errors.As(err, &u) {
			err = u.Err // url.Error's text would repeat the address
		}
		return nil, fmt.Errorf("%w at %s: %w", ErrUnreachable, c.endpoint, err)
	}
	if id := resp.Header.Get(command.WorkerHeader); id != "" {
		c.worker.Store(&id)
	}
	return resp, nil
}

// request makes a request and signs it. streams says that it cannot be repeated.
func (c *Client) request(ctx context.Context, method, path string, body io.Reader, size int64, digest string, streams bool) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, body)
	if err != nil {
		return nil, err
	}
	req.ContentLength = size
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	if c.sign != nil {
		worker, err := c.asks(ctx, streams)
		if err != nil {
			return nil, err
		}
		header := ""
		if worker != "" {
			if header, err = c.sign(ctx, command.Request{Method: method, Target: req.URL.RequestURI(), Worker: worker, Body: digest}); err != nil {
				return nil, err
			}
		}
		if header != "" {
			req.Header.Set(command.RequestHeader, header)
		}
	}
	return req, nil
}

func (c *Client) sendOnce(ctx context.Context, method, path string, body io.Reader, size int64, digest string) (*http.Response, error) {
	_, repeats := body.(*bytes.Reader)
	if size == 0 {
		body = http.NoBody
	}
	req, err := c.request(ctx, method, path, body, size, digest, !repeats)
	if err != nil {
		return nil, err
	}
	resp, err := c.do(ctx, req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode == http.StatusOK {
		return resp, nil
	}
	return nil, c.refusal(resp)
}

// refusal returns the error that an answer has, and closes it.
func (c *Client) refusal(resp *http.Response) error {
	defer resp.Body.Close()
	var v struct {
		Error *Error `json:"error"`
	}
	data, _ := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	if json.Unmarshal(data, &v) == nil && v.Error != nil {
		v.Error.Status = resp.StatusCode
		return v.Error
	}
	return fmt.Errorf("%w at %s: what answers there is not a worker (%s)", ErrUnreachable, c.endpoint, resp.Status)
}

func query(path string, pairs ...any) string {
	v := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		v.Set(pairs[i].(string), strconv.FormatInt(pairs[i+1].(int64), 10))
	}
	return path + "?" + v.Encode()
}
