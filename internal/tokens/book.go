package tokens

import (
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"fairlead.dev/fairlead/internal/access"
	"fairlead.dev/fairlead/internal/store"
)

// Bounds on tokens.
const (
	// DefaultLifetime and MaxLifetime are of a token.
	DefaultLifetime = 90 * 24 * time.Hour
	MaxLifetime     = 365 * 24 * time.Hour
	// MaxTokens bounds the records, with those of tokens that ended.
	MaxTokens = 10_000

	maxScope = 50
)

const (
	// reread is how often a book reads the records.
	reread = 15 * time.Second
	// stale is for how long what was read counts.
	stale = time.Minute
	// missWait bounds the look for a token that a book does not have, and missEvery how
	// often it looks.
	missWait  = 2 * time.Second
	missEvery = time.Second
)

// Reasons why nothing was done.
var (
	ErrBad     = errors.New("the token is not right")
	ErrTaken   = errors.New("the name is taken")
	ErrNone    = errors.New("there is no such token")
	ErrUnknown = errors.New("the tokens cannot be read")
)

// Blobs is the part of a store.Store that a Book uses.
type Blobs interface {
	CreateOnce(ctx context.Context, key string, data []byte) error
	Get(ctx context.Context, key string) ([]byte, error)
	List(ctx context.Context, prefix string) ([]store.Info, error)
}

// A Book has the tokens of a store. It is safe for concurrent use.
type Book struct {
	blobs Blobs
	log   *slog.Logger
	now   func() time.Time

	reading chan struct{} // one read of the store at a time
	mu      sync.Mutex
	tokens  map[string]entry  // by name
	names   map[string]string // by digest
	read    time.Time         // when the records were last read
	missed  time.Time         // when a token was last looked for in vain
	trouble error
}

type entry struct {
	access.Token
	Digest string `json:"digest"`
}

// Open returns a book that has read nothing yet: see [Book.Watch].
func Open(blobs Blobs, log *slog.Logger) *Book {
	return &Book{blobs: blobs, log: log, now: time.Now, reading: make(chan struct{}, 1), tokens: map[string]entry{}, names: map[string]string{}}
}

// Watch reads the records again and again, until ctx ends.
func (b *Book) Watch(ctx context.Context) {
	t := time.NewTicker(reread)
	defer t.Stop()
	for {
		if err := b.Reload(ctx); err != nil && ctx.Err() == nil {
			b.log.Error("API tokens cannot be read: after a minute none counts", "err", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
	}
}

const (
	folder     = "api-tokens/"
	recordName = "/token"
	endName    = "/revoked"
)

var namePattern = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,62}$`)

// Reload reads what is new in the store.
func (b *Book) Reload(ctx context.Context) error {
	select {
	case b.reading <- struct{}{}:
		defer func() { <-b.reading }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	at := b.now()
	err := b.load(ctx)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.trouble = err; err == nil {
		b.read = at
	}
	return err
}

func (b *Book) load(ctx context.Context) error {
	all, err := b.blobs.List(ctx, folder)
	if err != nil {
		return err
	}
	ends := map[string]string{}
	for _, info := range all {
		if name, ok := strings.CutSuffix(strings.TrimPrefix(info.Key, folder), endName); ok {
			ends[name] = info.Key
		}
	}
	for _, info := range all {
		name, ok := strings.CutSuffix(strings.TrimPrefix(info.Key, folder), recordName)
		if !ok {
			continue
		}
		err = errors.Join(err, b.loadRecord(ctx, info.Key, name, ends[name]))
	}
	return err
}

// loadRecord reads a token, and how it ended if it has an end. Nobody sees it without its end.
func (b *Book) loadRecord(ctx context.Context, key, name, end string) error {
	b.mu.Lock()
	e, had := b.tokens[name]
	b.mu.Unlock()
	if had {
		return b.loadEnd(ctx, end, name, e)
	}
	data, err := b.blobs.Get(ctx, key)
	if err == nil {
		err = json.Unmarshal(data, &e)
	}
	if err == nil && (e.Name != name || len(e.Digest) != 64) {
		err = errors.New("it is not that of the token")
	}
	if err != nil {
		return fmt.Errorf("the record of token %s: %w", name, err)
	}
	if end != "" {
		return b.loadEnd(ctx, end, name, e)
	}
	b.keep(name, e)
	return nil
}

func (b *Book) keep(name string, e entry) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.tokens[name], b.names[e.Digest] = e, name
}

// A revocation is the JSON of the blob that revokes a token.
type revocation struct {
	By string    `json:"by"`
	At time.Time `json:"at"`
}

// loadEnd treats a revocation that it cannot read as a revocation.
func (b *Book) loadEnd(ctx context.Context, key, name string, e entry) error {
	if key == "" || !e.RevokedAt.IsZero() && e.RevokedBy != "" {
		return nil
	}
	var r revocation
	data, err := b.blobs.Get(ctx, key)
	if err == nil {
		err = json.Unmarshal(data, &r)
	}
	if e.RevokedAt, e.RevokedBy = r.At, r.By; r.At.IsZero() {
		e.RevokedAt = b.now()
	}
	b.keep(name, e)
	if err != nil {
		return fmt.Errorf("the revocation of token %s: %w", name, err)
	}
	return nil
}

// find looks a token up. get is called with the book locked. If the token is not known, the
// records are read: another worker may have made it just now.
func (b *Book) find(get func() (entry, bool)) (access.Token, error) {
	t, err := b.look(get)
	if err == nil || !b.mayMiss() {
		return t, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), missWait)
	defer cancel()
	if rerr := b.Reload(ctx); rerr != nil && errors.Is(err, ErrNone) {
		return access.Token{}, fmt.Errorf("%w: %w", ErrUnknown, rerr)
	}
	return b.look(get)
}

func (b *Book) look(get func() (entry, bool)) (access.Token, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	e, ok := get()
	switch {
	case b.now().Sub(b.read) > stale && b.trouble != nil:
		return access.Token{}, fmt.Errorf("%w: %w", ErrUnknown, b.trouble)
	case b.now().Sub(b.read) > stale:
		return access.Token{}, ErrUnknown
	case !ok:
		return access.Token{}, ErrNone
	}
	return e.Token, nil
}

// mayMiss reports whether the store may be read for a token that is not known. It bounds the
// reads that many wrong tokens cause.
func (b *Book) mayMiss() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if now := b.now(); now.Sub(b.missed) >= missEvery {
		b.missed = now
		return true
	}
	return false
}

// Named returns a token. The error wraps ErrNone or ErrUnknown.
func (b *Book) Named(name string) (access.Token, error) {
	t, err := b.find(func() (entry, bool) {
		e, ok := b.tokens[name]
		return e, ok
	})
	if err != nil {
		return t, fmt.Errorf("token %.70s: %w", name, err)
	}
	return t, nil
}

// Shown returns the token of a secret. The error has no part of the secret.
func (b *Book) Shown(secret string) (access.Token, error) {
	if err := Check(secret); err != nil {
		return access.Token{}, err
	}
	digest := Digest(secret)
	return b.find(func() (entry, bool) {
		e, ok := b.tokens[b.names[digest]]
		return e, ok && subtle.ConstantTimeCompare([]byte(e.Digest), []byte(digest)) == 1
	})
}

// List returns all tokens by name, also those that ended.
func (b *Book) List(ctx context.Context) ([]access.Token, error) {
	if err := b.Reload(ctx); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnknown, err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	out := make([]access.Token, 0, len(b.tokens))
	for _, name := range slices.Sorted(maps.Keys(b.tokens)) {
		out = append(out, b.tokens[name].Token)
	}
	return out, nil
}

// Create keeps the record of a new token and returns its secret, which is not kept. The
// caller sets Owner, Key, Roles, Scope, Name and ExpiresAt.
func (b *Book) Create(ctx context.Context, t access.Token) (secret string, made access.Token, err error) {
	t.CreatedAt, t.RevokedAt, t.RevokedBy = b.now().UTC(), time.Time{}, ""
	t.ExpiresAt = t.ExpiresAt.UTC().Truncate(time.Second)
	if err := check(t); err != nil {
		return "", t, fmt.Errorf("%w: %w", ErrBad, err)
	}
	all, err := b.List(ctx)
	if err != nil {
		return "", t, err
	}
	if len(all) >= MaxTokens {
		return "", t, fmt.Errorf("%w: there are %d tokens, and %d at most are kept", ErrBad, len(all), MaxTokens)
	}
	secret = NewSecret()
	data, err := json.Marshal(entry{t, Digest(secret)})
	if err == nil {
		err = b.blobs.CreateOnce(ctx, folder+t.Name+recordName, data)
	}
	switch {
	case errors.Is(err, store.ErrExists):
		return "", t, fmt.Errorf("%w: token %s was made before, and a name stands for one token for ever", ErrTaken, t.Name)
	case err != nil:
		return "", t, fmt.Errorf("%w: %w", ErrUnknown, err)
	}
	return secret, t, b.Reload(ctx)
}

func check(t access.Token) error {
	switch life := t.ExpiresAt.Sub(t.CreatedAt); {
	case !namePattern.MatchString(t.Name):
		return fmt.Errorf("%.70q is not a name: up to 63 of a-z, 0-9, dot, dash and underscore, with a letter or a digit first", t.Name)
	case t.Owner == "":
		return errors.New("it has no owner")
	case len(t.Roles) == 0 || len(t.Roles) > len(access.Roles):
		return fmt.Errorf("it has %d roles: give 1 to %d", len(t.Roles), len(access.Roles))
	case len(t.Scope) > maxScope:
		return fmt.Errorf("its scope has %d verbs: %d at most", len(t.Scope), maxScope)
	case life <= 0 || life > MaxLifetime+time.Minute:
		return fmt.Errorf("it would count for %s: at most %d days", life.Round(time.Second), MaxLifetime/(24*time.Hour))
	}
	var verbs []access.Verb
	for _, r := range t.Roles {
		if !slices.Contains(access.Roles, r) {
			return fmt.Errorf("%.40q is none of the roles: %v", r, access.Roles)
		}
		verbs = append(verbs, r.Verbs()...)
	}
	for _, v := range t.Scope {
		switch {
		case !slices.Contains(access.Verbs, v):
			return fmt.Errorf("%.40q is none of the verbs: %v", v, access.Verbs)
		case !slices.Contains(verbs, v):
			return fmt.Errorf("its scope has %s, which its roles do not allow: %v", v, t.Roles)
		}
	}
	return nil
}

// Revoke ends a token. A revoked token stays revoked by the first who revoked it.
func (b *Book) Revoke(ctx context.Context, name, by string) (access.Token, error) {
	if !namePattern.MatchString(name) {
		return access.Token{}, fmt.Errorf("token %.70q: %w", name, ErrNone)
	}
	if err := b.Reload(ctx); err != nil {
		return access.Token{}, fmt.Errorf("%w: %w", ErrUnknown, err)
	}
	if _, err := b.Named(name); err != nil {
		return access.Token{}, err
	}
	data, err := json.Marshal(revocation{By: by, At: b.now().UTC().Truncate(time.Second)})
	if err == nil {
		err = b.blobs.CreateOnce(ctx, folder+name+endName, data)
	}
	if err != nil && !errors.Is(err, store.ErrExists) {
		return access.Token{}, fmt.Errorf("%w: %w", ErrUnknown, err)
	}
	if err := b.Reload(ctx); err != nil {
		return access.Token{}, fmt.Errorf("%w: %w", ErrUnknown, err)
	}
	return b.Named(name)
}
