package main

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

const (
	// credentialsEvery is how often the files of credentials are looked at.
	credentialsEvery = 3 * time.Second
	// maxCredential bounds a file of a credential.
	maxCredential = 1 << 20
)

// credentials are the files with secrets that may change while the worker runs. Content that
// cannot be used is refused, and what was in force stays. It is safe for concurrent use.
type credentials struct {
	log *slog.Logger

	mu  sync.Mutex
	all []*credential
}

// A credential is what one or several files say together.
type credential struct {
	name   string
	files  []string
	use    func(context.Context) error // reads the files, and puts what they say in force
	seen   [sha256.Size]byte           // of the content that use was last called for
	broken string                      // why the newest content is not in force
}

func newCredentials(log *slog.Logger) *credentials { return &credentials{log: log} }

// keep calls use when the content of one of the files has changed from now on. Files without
// a name are none.
func (c *credentials) keep(name string, use func(context.Context) error, files ...string) {
	k := &credential{name: name, use: use}
	for _, f := range files {
		if f != "" {
			k.files = append(k.files, f)
		}
	}
	if len(k.files) == 0 {
		return
	}
	k.seen, _ = k.digest()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all = append(c.all, k)
}

func (k *credential) digest() (sum [sha256.Size]byte, err error) {
	h := sha256.New()
	for _, name := range k.files {
		data, err := readBounded(name)
		if err != nil {
			return sum, err
		}
		fmt.Fprintf(h, "%d\x00", len(data))
		h.Write(data)
	}
	return [sha256.Size]byte(h.Sum(nil)), nil
}

func readBounded(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxCredential+1))
	if err == nil && len(data) > maxCredential {
		err = fmt.Errorf("%s has more than %d bytes", name, maxCredential)
	}
	return data, err
}

// start looks at the files again and again, until ctx ends or end is called, which waits.
func (c *credentials) start(ctx context.Context) (end func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(credentialsEvery)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				c.look(ctx)
			}
		}
	}()
	return func() { cancel(); <-done }
}

// look looks at each file once.
func (c *credentials) look(ctx context.Context) {
	c.mu.Lock()
	all := c.all
	c.mu.Unlock()
	for _, k := range all {
		sum, err := k.digest()
		switch {
		case err == nil && sum == k.seen:
			if k.unread() { // the files are there again, as they were
				c.standing(k, nil)
			}
			continue
		case err == nil:
			// Content that was refused is tried again when it changes. Content that could not be
			// tried, such as while the store is away, is tried again at the next look.
			if err = k.use(ctx); err == nil || !errors.Is(err, errNotNow) {
				k.seen = sum
			}
			if err == nil {
				c.log.Info("a credential was renewed", "credential", k.name, "files", k.files)
			}
		default:
			err = &unreadError{err}
		}
		c.standing(k, err)
	}
}

// errNotNow says that new content may be good, and could not be put in force yet.
var errNotNow = errors.New("it is tried again")

// An unreadError is about files that cannot be read.
type unreadError struct{ err error }

func (e *unreadError) Error() string { return unreadWords + e.err.Error() }
func (e *unreadError) Unwrap() error { return e.err }

const unreadWords = "read the files: "

// unread says that the files could not be read at the last look.
func (k *credential) unread() bool {
	return len(k.broken) >= len(unreadWords) && k.broken[:len(unreadWords)] == unreadWords
}

// standing records whether the newest content is in force, and logs a change.
func (c *credentials) standing(k *credential, err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	c.mu.Lock()
	was := k.broken
	k.broken = text
	c.mu.Unlock()
	switch {
	case text != "" && text != was:
		c.log.Error("a credential cannot be renewed: the former one stays in force", "credential", k.name, "files", k.files, "err", text)
	case text == "" && was != "":
		c.log.Info("a credential can be used again", "credential", k.name, "files", k.files)
	}
}

// Describe implements prometheus.Collector. Which credentials there are depends on the config.
func (c *credentials) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (c *credentials) Collect(out chan<- prometheus.Metric) {
	d := defined("fairlead_credential_broken")
	desc := prometheus.NewDesc(d.name, d.help, d.labels, nil)
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, k := range c.all {
		value := 0.0
		if k.broken != "" {
			value = 1
		}
		out <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, k.name)
	}
}

// A servedPair is a server's certificate with its key, which may be renewed.
type servedPair struct {
	whose     string
	cert, key string
	pair      atomic.Pointer[tls.Certificate]
}

// read loads the certificate and its key from the files, and serves them from now on. If it fails,
// the former pair stays.
func (p *servedPair) read(context.Context) error {
	pair, err := tls.LoadX509KeyPair(p.cert, p.key)
	if err != nil {
		return fmt.Errorf("read %s certificate: %w", p.whose, err)
	}
	if now := time.Now(); pair.Leaf != nil && now.After(pair.Leaf.NotAfter) {
		return fmt.Errorf("read %s certificate: that in %s ended at %s", p.whose, p.cert, pair.Leaf.NotAfter.UTC().Format(time.RFC3339))
	}
	p.pair.Store(&pair)
	return nil
}

func (p *servedPair) config() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return p.pair.Load(), nil }}
}
