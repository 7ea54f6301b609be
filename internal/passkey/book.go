package passkey

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/internal/store"
)

const (
	// MaxKeys bounds the passkeys of a person that are not removed.
	MaxKeys = 10
	// maxAll bounds the records, with those of passkeys that were removed.
	maxAll = 20_000
	// reread is how often a book reads the records.
	reread = 15 * time.Second
	// stale is for how long what was read counts.
	stale = time.Minute
	// readWait bounds one read of the records by Watch, during which nobody else reads them.
	readWait = 30 * time.Second
	// missWait bounds the look for a passkey that a book does not have, and missEvery how
	// often it looks.
	missWait  = 2 * time.Second
	missEvery = time.Second
)

const (
	folder      = "passkeys/"
	keyName     = "key"
	removedName = "removed"
	usedName    = "used"
)

// Reasons why a passkey was not kept.
var (
	ErrTaken = errors.New("the passkey is known")
	ErrMany  = errors.New("there are too many passkeys")
)

// Blobs is the part of a store.Store that a Book uses.
type Blobs interface {
	CreateOnce(ctx context.Context, key string, data []byte) error
	Put(ctx context.Context, key string, data []byte) error
	Get(ctx context.Context, key string) ([]byte, error)
	List(ctx context.Context, prefix string) ([]store.Info, error)
}

// A Book has the passkeys of a store. It is safe for concurrent use.
type Book struct {
	blobs Blobs
	log   *slog.Logger
	now   func() time.Time

	reading chan struct{} // one read of the store at a time
	mu      sync.Mutex
	keys    map[string]Key // by path
	read    time.Time      // when the records were last read
	missed  time.Time      // when a passkey was last looked for in vain
	trouble error
	unread  map[string]bool // the keys that cannot be used, by path, of which the log has a line
}

// Open returns a book that has read nothing yet: see [Book.Watch].
func Open(blobs Blobs, log *slog.Logger) *Book {
	return &Book{blobs: blobs, log: log, now: time.Now, reading: make(chan struct{}, 1), keys: map[string]Key{}, unread: map[string]bool{}}
}

// Watch reads the records again and again, until ctx ends.
func (b *Book) Watch(ctx context.Context) {
	t := time.NewTicker(reread)
	defer t.Stop()
	for {
		within, cancel := context.WithTimeout(ctx, readWait)
		err := b.Reload(within)
		cancel()
		if err != nil && ctx.Err() == nil {
			b.log.Error("passkeys cannot be read: after a minute none counts", "err", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
	}
}

// Keys of the store are lower case, and principals need not be.
func hexOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// pathOf returns the folder of a passkey.
func pathOf(principal, id string) string { return folder + hexOf(principal) + "/" + hexOf(id) + "/" }

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

func (b *Book) load(ctx context.Context) (err error) {
	all, err := b.blobs.List(ctx, folder)
	if err != nil {
		return err
	}
	removed := map[string]bool{}
	for _, info := range all {
		if path, ok := strings.CutSuffix(info.Key, removedName); ok {
			removed[path] = true
		}
	}
	for _, info := range all {
		if path, ok := strings.CutSuffix(info.Key, "/"+keyName); ok {
			err = errors.Join(err, b.loadKey(ctx, path+"/", removed[path+"/"]))
		}
	}
	return err
}

// unusable reports whether a record cannot be read now nor later, other than if the store does not
// answer.
func unusable(err error) bool {
	for _, of := range []error{store.ErrWrongKey, store.ErrTorn, store.ErrTooLarge, store.ErrNotFound} {
		if errors.Is(err, of) {
			return true
		}
	}
	return false
}

// leaveOut logs once that a passkey does not count because its record cannot be used. The passkeys
// of other people go on counting. The next read tries it again.
func (b *Book) leaveOut(path string, err error) {
	b.mu.Lock()
	known := b.unread[path]
	b.unread[path] = true
	b.mu.Unlock()
	if !known {
		b.log.Error("a passkey does not count: its record cannot be used", "record", path+keyName, "err", err)
	}
}

// loadKey reads a key, and who removed it. Nobody sees it without its removal.
func (b *Book) loadKey(ctx context.Context, path string, removed bool) error {
	b.mu.Lock()
	k, had := b.keys[path]
	b.mu.Unlock()
	if had && (!removed || !k.RemovedAt.IsZero()) {
		return nil
	}
	if !had {
		data, err := b.blobs.Get(ctx, path+keyName)
		if err != nil && !unusable(err) {
			return fmt.Errorf("the record %s: %w", path+keyName, err)
		}
		if err == nil {
			err = json.Unmarshal(data, &k)
		}
		if err == nil && pathOf(k.Principal, k.ID) != path {
			err = errors.New("it is not that of the passkey")
		}
		if err != nil {
			b.leaveOut(path, err)
			return nil
		}
		k.RemovedAt, k.RemovedBy = time.Time{}, ""
	}
	var err error
	if removed {
		var r removal
		data, rerr := b.blobs.Get(ctx, path+removedName)
		if rerr == nil {
			rerr = json.Unmarshal(data, &r)
		}
		if k.RemovedAt, k.RemovedBy = r.At, r.By; r.At.IsZero() { // a removal that cannot be read is one
			k.RemovedAt = b.now()
		}
		if rerr != nil {
			err = fmt.Errorf("the record %s: %w", path+removedName, rerr)
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.keys[path] = k
	return err
}

// A removal is the JSON of the blob that removes a passkey.
type removal struct {
	By string    `json:"by"`
	At time.Time `json:"at"`
}

// find returns a passkey of a person that counts.
func (b *Book) find(principal, id string) (Key, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	k, ok := b.keys[pathOf(principal, id)]
	switch {
	case b.now().Sub(b.read) > stale && b.trouble != nil:
		return Key{}, fmt.Errorf("%w: %w", ErrUnknown, b.trouble)
	case b.now().Sub(b.read) > stale:
		return Key{}, ErrUnknown
	case !ok:
		return Key{}, fmt.Errorf("%w of %s", ErrNone, whose(principal))
	case !k.RemovedAt.IsZero():
		return Key{}, fmt.Errorf("%w at %s", ErrRemoved, k.RemovedAt.UTC().Format(time.RFC3339))
	}
	return k, nil
}

func whose(principal string) string {
	if principal == "" {
		return "the owner of this stack"
	}
	return principal
}

// mayMiss reports whether the store may be read for a passkey that is not known. It bounds the
// reads that many wrong ones cause.
func (b *Book) mayMiss() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if now := b.now(); now.Sub(b.missed) >= missEvery {
		b.missed = now
		return true
	}
	return false
}

// Counts says why an assertion is not one of a person's passkey, or returns nil. It does not say
// what the assertion decides: see [Of]. The assertion must name the public key that the book has.
func (b *Book) Counts(principal string, p protocol.Passkey) error {
	k, err := b.find(principal, p.ID)
	if (errors.Is(err, ErrNone) || errors.Is(err, ErrUnknown)) && b.mayMiss() {
		ctx, cancel := context.WithTimeout(context.Background(), missWait)
		defer cancel()
		if rerr := b.Reload(ctx); rerr != nil {
			return fmt.Errorf("%w: %w", ErrUnknown, rerr)
		}
		k, err = b.find(principal, p.ID)
	}
	if err != nil {
		return err
	}
	if p.PublicKey != k.PublicKey {
		return fmt.Errorf("%w: it names another public key than that of the passkey", ErrBad)
	}
	_, err = k.Verify(p)
	return err
}

// A Use is what a book knows of the newest assertion of a passkey.
type Use struct {
	Counter uint32    `json:"counter"`
	At      time.Time `json:"at"`
	Last    string    `json:"last"` // SHA-256 of the assertion's signature, in hex
}

// Used verifies an assertion of a person's passkey, remembers it, and returns it with the public
// key of the passkey. The counter of an authenticator must grow, if it has one: otherwise there may
// be two of it. The same assertion may come again, since a browser may repeat its request.
func (b *Book) Used(ctx context.Context, principal string, p protocol.Passkey) (protocol.Passkey, error) {
	if err := Bounded(p); err != nil {
		return p, err
	}
	if err := b.Reload(ctx); err != nil {
		return p, fmt.Errorf("%w: %w", ErrUnknown, err)
	}
	k, err := b.find(principal, p.ID)
	if err != nil {
		return p, err
	}
	counter, err := k.Verify(p)
	if err != nil {
		return p, err
	}
	was, err := b.Last(ctx, k)
	if err != nil {
		return p, err
	}
	now := Use{Counter: counter, At: b.now().UTC().Truncate(time.Second), Last: hexOf(p.Signature)}
	if (counter > 0 || was.Counter > 0) && counter <= was.Counter && was.Last != now.Last {
		return p, fmt.Errorf("%w: the counter of passkey %q is %d and was %d, so there may be a copy of it: remove it, and add another one", ErrBad, k.Name, counter, was.Counter)
	}
	if was.Last != now.Last {
		data, err := json.Marshal(now)
		if err == nil {
			err = b.blobs.Put(ctx, pathOf(k.Principal, k.ID)+usedName, data)
		}
		if err != nil {
			return p, fmt.Errorf("%w: %w", ErrUnknown, err)
		}
	}
	p.PublicKey = k.PublicKey
	return p, nil
}

// Last returns the newest use of a passkey. One that was never used has the counter of its
// registration.
func (b *Book) Last(ctx context.Context, k Key) (u Use, err error) {
	data, err := b.blobs.Get(ctx, pathOf(k.Principal, k.ID)+usedName)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return Use{Counter: k.Counter}, nil
	case err == nil:
		err = json.Unmarshal(data, &u)
	}
	if err != nil {
		return u, fmt.Errorf("%w: %w", ErrUnknown, err)
	}
	return u, nil
}

// Of returns a person's passkeys that count, the oldest first.
func (b *Book) Of(ctx context.Context, principal string) (all []Key, err error) {
	if err := b.Reload(ctx); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnknown, err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, k := range b.keys {
		if k.Principal == principal && k.RemovedAt.IsZero() {
			all = append(all, k)
		}
	}
	slices.SortFunc(all, func(a, b Key) int {
		if c := a.AddedAt.Compare(b.AddedAt); c != 0 {
			return c
		}
		return strings.Compare(a.ID, b.ID)
	})
	return all, nil
}

// Add keeps a new passkey of a person.
func (b *Book) Add(ctx context.Context, principal, name string, k Key) (Key, error) {
	if err := CheckName(name); err != nil {
		return k, fmt.Errorf("%w: %w", ErrBad, err)
	}
	has, err := b.Of(ctx, principal)
	if err != nil {
		return k, err
	}
	b.mu.Lock()
	all := len(b.keys)
	b.mu.Unlock()
	switch {
	case len(has) >= MaxKeys:
		return k, fmt.Errorf("%w: %s has %d, which is the limit: remove one", ErrMany, whose(principal), len(has))
	case all >= maxAll:
		return k, fmt.Errorf("%w: the store has %d, with those that were removed", ErrMany, all)
	case slices.ContainsFunc(has, func(o Key) bool { return o.Name == name }):
		return k, fmt.Errorf("%w: you have a passkey %q: give this one another name", ErrTaken, name)
	}
	k.Principal, k.Name, k.AddedAt, k.RemovedAt, k.RemovedBy = principal, name, b.now().UTC().Truncate(time.Second), time.Time{}, ""
	data, err := json.Marshal(k)
	if err == nil {
		err = b.blobs.CreateOnce(ctx, pathOf(principal, k.ID)+keyName, data)
	}
	switch {
	case errors.Is(err, store.ErrExists):
		return k, fmt.Errorf("%w: it was registered before", ErrTaken)
	case err != nil:
		return k, fmt.Errorf("%w: %w", ErrUnknown, err)
	}
	return k, b.Reload(ctx)
}

// Remove ends a passkey of a person. by is who removes it.
func (b *Book) Remove(ctx context.Context, principal, id, by string) (Key, error) {
	if err := b.Reload(ctx); err != nil {
		return Key{}, fmt.Errorf("%w: %w", ErrUnknown, err)
	}
	k, err := b.find(principal, id)
	if err != nil {
		return k, err
	}
	data, err := json.Marshal(removal{By: by, At: b.now().UTC().Truncate(time.Second)})
	if err == nil {
		err = b.blobs.CreateOnce(ctx, pathOf(principal, id)+removedName, data)
	}
	if err != nil && !errors.Is(err, store.ErrExists) {
		return k, fmt.Errorf("%w: %w", ErrUnknown, err)
	}
	return k, b.Reload(ctx)
}
