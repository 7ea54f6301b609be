package console

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/alexedwards/scs/v2"

	"fairlead.dev/fairlead/internal/api"
	"fairlead.dev/fairlead/internal/store"
)

// Blobs keep logins; *[store.Store] implements it.
type Blobs interface {
	Get(ctx context.Context, key string) ([]byte, error)
	Put(ctx context.Context, key string, data []byte) error
	Create(ctx context.Context, key string, data []byte) error
	Delete(ctx context.Context, key string) error
	List(ctx context.Context, prefix string) ([]store.Info, error)
}

// Where logins and the links that were used are kept.
const (
	loginKeys = "console/logins/"
	linkKeys  = "console/links/"
)

// The values of a login.
const (
	principalOf = "principal"
	groupsOf    = "groups"
	sinceOf     = "since"
	askedOf     = "asked" // when the person last proved who they are; none if nobody knows
)

func newLogins(o Options) *scs.SessionManager {
	m := scs.New()
	m.Store = &loginStore{blobs: o.Store, known: map[string]loginRead{}}
	m.Lifetime = o.Lifetime
	m.HashTokenInStore = true
	m.Cookie.Name = o.Cookie
	m.Cookie.Path = "/"
	m.Cookie.HttpOnly = true
	m.Cookie.Secure = o.TLS
	// The issuer sends the browser back from another site.
	m.Cookie.SameSite = http.SameSiteLaxMode
	m.ErrorFunc = func(w http.ResponseWriter, _ *http.Request, err error) {
		o.Logger.Error("logins of the console cannot be read", "err", err)
		http.Error(w, "the store does not answer; try again in a moment", http.StatusServiceUnavailable)
	}
	return m
}

// person returns who has logged in.
func (c *Console) person(ctx context.Context) (api.Person, bool) {
	if !c.logins.Exists(ctx, sinceOf) {
		return api.Person{}, false
	}
	groups, _ := c.logins.Get(ctx, groupsOf).([]string)
	token, end := c.logins.Token(ctx), c.logins.Deadline(ctx)
	return api.Person{Principal: c.logins.GetString(ctx, principalOf), Groups: groups, Holds: func() string { return c.ended(token, end) }}, true
}

// ended says that a login is over, for requests that go on: its time has passed, or somebody
// has logged out. While the store does not answer, only the time ends it, because nobody can
// log out then.
func (c *Console) ended(token string, end time.Time) string {
	const over = "this login has ended"
	if !time.Now().Before(end) {
		return over
	}
	ctx, err := c.logins.Load(context.Background(), token)
	if err == nil && !c.logins.Exists(ctx, sinceOf) {
		return over
	}
	return ""
}

// logIn begins a login under a new cookie. asked is when the person proved who they are, which an
// issuer that knows the browser may have asked for long ago; zero if nobody knows.
func (c *Console) logIn(ctx context.Context, who api.Person, asked time.Time) error {
	if err := c.logins.RenewToken(ctx); err != nil {
		return err
	}
	c.logins.Put(ctx, principalOf, who.Principal)
	c.logins.Put(ctx, groupsOf, who.Groups)
	c.logins.Put(ctx, sinceOf, time.Now().Unix())
	if !asked.IsZero() {
		c.logins.Put(ctx, askedOf, asked.Unix())
	} else {
		c.logins.Remove(ctx, askedOf) // a login keeps the values of the one before
	}
	return nil
}

// loginStore is the store of an scs.SessionManager. It reads a login again after a few
// seconds, so that a logout at another worker counts here.
type loginStore struct {
	blobs Blobs

	mu    sync.Mutex
	known map[string]loginRead
	swept time.Time
}

type loginRead struct {
	data  []byte
	until time.Time // end of the login
	at    time.Time
}

const (
	loginsKept  = 10 * time.Second
	maxKnown    = 1000
	sweepLogins = time.Hour
	storeWait   = 10 * time.Second
)

// Keys of the store are lower case.
func loginKey(token string) string {
	sum := sha256.Sum256([]byte(token))
	return loginKeys + hex.EncodeToString(sum[:])
}

func (s *loginStore) FindCtx(ctx context.Context, token string) ([]byte, bool, error) {
	key, now := loginKey(token), time.Now()
	s.mu.Lock()
	l, ok := s.known[key]
	s.mu.Unlock()
	if !ok || now.Sub(l.at) > loginsKept {
		ctx, cancel := context.WithTimeout(ctx, storeWait)
		defer cancel()
		raw, err := s.blobs.Get(ctx, key)
		switch {
		case errors.Is(err, store.ErrNotFound):
			s.forget(key)
			return nil, false, nil
		case err != nil:
			return nil, false, err
		}
		if l, ok = unpackLogin(raw); !ok {
			return nil, false, nil
		}
		s.keep(key, l)
	}
	if now.After(l.until) {
		return nil, false, nil
	}
	return l.data, true, nil
}

func (s *loginStore) CommitCtx(ctx context.Context, token string, data []byte, until time.Time) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeWait)
	defer cancel()
	key := loginKey(token)
	raw := append([]byte(until.UTC().Format(time.RFC3339)+"\n"), data...)
	if err := s.blobs.Put(ctx, key, raw); err != nil {
		return err
	}
	s.keep(key, loginRead{data: data, until: until})
	s.sweep(ctx)
	return nil
}

func (s *loginStore) DeleteCtx(ctx context.Context, token string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeWait)
	defer cancel()
	key := loginKey(token)
	s.forget(key)
	if err := s.blobs.Delete(ctx, key); err != nil && !errors.Is(err, store.ErrNotFound) {
		return err
	}
	return nil
}

// The methods without a context are for an interface that scs does not use then.
func (s *loginStore) Find(token string) ([]byte, bool, error) {
	return s.FindCtx(context.Background(), token)
}

func (s *loginStore) Commit(token string, data []byte, until time.Time) error {
	return s.CommitCtx(context.Background(), token, data, until)
}

func (s *loginStore) Delete(token string) error { return s.DeleteCtx(context.Background(), token) }

func (s *loginStore) keep(key string, l loginRead) {
	l.at = time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.known) >= maxKnown {
		clear(s.known)
	}
	s.known[key] = l
}

func (s *loginStore) forget(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.known, key)
}

func unpackLogin(raw []byte) (l loginRead, ok bool) {
	for i, b := range raw {
		if b == '\n' {
			until, err := time.Parse(time.RFC3339, string(raw[:i]))
			return loginRead{data: raw[i+1:], until: until}, err == nil
		}
	}
	return l, false
}

// sweep deletes logins, links and looks that have ended, now and then. Failures do no harm: nothing
// that has ended counts.
func (s *loginStore) sweep(ctx context.Context) {
	s.mu.Lock()
	due := time.Since(s.swept) > sweepLogins
	if due {
		s.swept = time.Now()
	}
	s.mu.Unlock()
	if !due {
		return
	}
	for _, prefix := range []string{loginKeys, linkKeys, lookingKeys} {
		all, err := s.blobs.List(ctx, prefix)
		if err != nil {
			return
		}
		for _, info := range all {
			raw, err := s.blobs.Get(ctx, info.Key)
			if err != nil {
				continue
			}
			if l, ok := unpackLogin(raw); !ok || time.Now().After(l.until) {
				_ = s.blobs.Delete(ctx, info.Key)
			}
		}
	}
}
