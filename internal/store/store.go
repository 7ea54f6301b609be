package store

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"filippo.io/age"
)

// Options are for Open.
type Options struct {
	// URL is file:///absolute/folder or s3://bucket?region=…&prefix=…/ (parameters and
	// credentials as for the AWS SDK); mem:// is for tests.
	URL string
	// Recipients can decrypt every blob. One is required.
	Recipients []age.Recipient
	// Identities decrypt blobs. A process that only writes has none; else one must belong
	// to a Recipient.
	Identities []age.Identity
	// ID, if set, is the required id (ErrOtherStore). Then a missing store is not created.
	ID string
	// Logger may be nil.
	Logger *slog.Logger
	// Asked, if set, is told how each request to the store's place ended: one of Outcomes.
	Asked func(outcome string)
}

// A Store keeps encrypted blobs. It is safe for concurrent use.
type Store struct {
	url     string
	place   place
	id      string
	nameKey []byte // nil without an identity
	now     atomic.Pointer[keyring]
}

// A keyring has the keys of a moment.
type keyring struct {
	recipients []age.Recipient
	identities []age.Identity
	own        []age.Identity // those of the recipients
	readers    [8]byte
}

func keyringOf(recipients []age.Recipient, identities []age.Identity) *keyring {
	return &keyring{recipients: recipients, identities: identities, own: ownOf(identities, recipients), readers: readersOf(recipients)}
}

// keys returns the keys of this moment. Whoever uses them twice asks once.
func (s *Store) keys() *keyring { return s.now.Load() }

// Renew gives the store the keys that files have now. Former identities still decrypt, until the
// store is closed. It returns ErrWrongKey, and changes nothing, if no identity opens the store:
// then the new identity must stand beside the old one until Rekey has done its work.
func (s *Store) Renew(ctx context.Context, recipients []age.Recipient, identities []age.Identity) (err error) {
	defer wrap(&err, "change the keys of store "+s.url)
	was := s.keys()
	switch {
	case len(recipients) == 0:
		return errors.New("no recipients to encrypt for (name at least one in the config)")
	case len(identities) == 0 || len(was.identities) == 0:
		return ErrNoIdentity
	}
	if err := readOwn(recipients, identities); err != nil {
		return err
	}
	m, err := loadMeta(ctx, s.place)
	if err != nil {
		return err
	}
	if _, err := m.openKey(identities); err != nil {
		return err
	}
	all := slices.Clone(identities)
	for _, id := range was.identities {
		if !slices.ContainsFunc(all, func(other age.Identity) bool { return sameIdentity(id, other) }) {
			all = append(all, id)
		}
	}
	s.now.Store(keyringOf(recipients, all))
	return nil
}

// sameIdentity compares identities by their recipients.
func sameIdentity(a, b age.Identity) bool {
	of, err := RecipientsOf([]age.Identity{a, b})
	return err == nil && fmt.Sprint(of[0]) == fmt.Sprint(of[1])
}

// Info describes a blob.
type Info struct {
	Key string
	// Size is the encrypted size.
	Size    int64
	ModTime time.Time
}

// MaxGet bounds Get, in plaintext bytes.
const MaxGet = 256 << 20

// Open opens the store at a URL, and makes a missing one. Processes that do so at the same
// time agree on its id. Open, and no later call, returns ErrWrongKey for a wrong identity.
func Open(ctx context.Context, opts Options) (_ *Store, err error) {
	defer wrap(&err, "open store "+opts.URL)
	if len(opts.Recipients) == 0 {
		return nil, errors.New("no recipients to encrypt for (name at least one in the config)")
	}
	if err := readOwn(opts.Recipients, opts.Identities); err != nil {
		return nil, err
	}
	p, err := openPlace(ctx, opts.URL)
	if err != nil {
		return nil, err
	}
	if opts.Asked != nil {
		p = counted{p, opts.Asked}
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.close())
		}
	}()
	m, err := loadMeta(ctx, p)
	if errors.Is(err, ErrNotFound) {
		if opts.ID != "" {
			return nil, fmt.Errorf("%w: no store is there, and %s was expected (is the disk mounted, the bucket right?)",
				ErrOtherStore, opts.ID)
		}
		if m, err = createMeta(ctx, p, opts.Recipients); err == nil && opts.Logger != nil {
			opts.Logger.Info("store opened for the first time", "store", m.ID, "url", opts.URL)
		}
	}
	if err != nil {
		return nil, err
	}
	if opts.ID != "" && opts.ID != m.ID {
		return nil, fmt.Errorf("%w: its id is %s, and %s was expected", ErrOtherStore, m.ID, opts.ID)
	}
	s := &Store{url: opts.URL, place: p, id: m.ID}
	s.now.Store(keyringOf(opts.Recipients, opts.Identities))
	if len(opts.Identities) > 0 {
		if s.nameKey, err = m.openKey(opts.Identities); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// readOwn checks that we can read what we write.
func readOwn(recipients []age.Recipient, identities []age.Identity) error {
	if len(identities) == 0 {
		return nil
	}
	var b bytes.Buffer
	w, err := age.Encrypt(&b, recipients...)
	if err == nil {
		err = w.Close()
	}
	if err == nil {
		_, err = age.Decrypt(&b, identities...)
	}
	if err != nil {
		return fmt.Errorf("no identity of this process belongs to a recipient, so it could not read what it writes (add the public key of an identity to the recipients in the config): %w", err)
	}
	return nil
}

// Close releases the store's resources.
func (s *Store) Close() error { return s.place.close() }

// ID is 32 hex digits.
func (s *Store) ID() string { return s.id }

// URL is the store's URL.
func (s *Store) URL() string { return s.url }

// CanRead reports whether this process has an identity.
func (s *Store) CanRead() bool { return len(s.keys().identities) > 0 }

// Put writes a blob, replacing an older one. After ErrUnreachable the key holds the old or
// the new one, whole.
func (s *Store) Put(ctx context.Context, key string, data []byte) (err error) {
	defer wrap(&err, "store "+clip(key))
	return s.write(ctx, key, data, false)
}

// Create writes a blob if the key is free, and returns ErrExists otherwise. After
// ErrUnreachable the blob may be stored; then a second Create returns ErrExists.
//
// On an S3 server that ignores If-None-Match, two simultaneous calls may both succeed.
// Create reads the blob back, but does not notice a later overwriting. Use CreateOnce if
// only one call may ever succeed.
func (s *Store) Create(ctx context.Context, key string, data []byte) (err error) {
	defer wrap(&err, "store "+clip(key))
	return s.create(ctx, key, data)
}

// maxOnce bounds a blob of CreateOnce, for one request: a server may honour conditions on
// single requests and not on multipart uploads.
const maxOnce = 1 << 20

// CreateOnce is Create that never succeeds twice for a key, for at most 1 MiB
// (ErrTooLarge). It returns ErrNotExclusive, and writes nothing, if the server does not
// honour If-None-Match. A server that checks and writes in two steps passes this test;
// there, two simultaneous calls may both succeed.
func (s *Store) CreateOnce(ctx context.Context, key string, data []byte) (err error) {
	defer wrap(&err, "store "+clip(key))
	if len(data) > maxOnce {
		return ErrTooLarge
	}
	if err := s.place.exclusive(ctx); err != nil {
		return err
	}
	return s.create(ctx, key, data)
}

// Exclusive says why the store refuses CreateOnce; nil if it does not. It may write an
// object that is no blob.
func (s *Store) Exclusive(ctx context.Context) (err error) {
	defer wrap(&err, "try whether the store keeps what is created")
	return s.place.exclusive(ctx)
}

func (s *Store) create(ctx context.Context, key string, data []byte) error {
	// Saves work, and helps on S3 servers that ignore If-None-Match.
	switch _, err := s.stat(ctx, key); {
	case err == nil:
		return ErrExists
	case !errors.Is(err, ErrNotFound):
		return err
	}
	return s.write(ctx, key, data, true)
}

func (s *Store) write(ctx context.Context, key string, data []byte, exclusive bool) error {
	w, err := s.newWriter(ctx, key, exclusive)
	if err != nil {
		return err
	}
	defer w.Abort()
	if _, err := w.Write(data); err != nil {
		return err
	}
	return w.close()
}

// Get reads a whole blob, of at most MaxGet bytes (ErrTooLarge).
func (s *Store) Get(ctx context.Context, key string) (_ []byte, err error) {
	defer wrap(&err, "read "+clip(key)+" from the store")
	r, err := s.newReader(ctx, key)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	data, err := io.ReadAll(io.LimitReader(r, MaxGet+1))
	if err != nil {
		return nil, err
	}
	if len(data) > MaxGet {
		return nil, ErrTooLarge
	}
	return data, nil
}

// Exists reports whether key has a blob.
func (s *Store) Exists(ctx context.Context, key string) (bool, error) {
	_, err := s.Stat(ctx, key)
	if errors.Is(err, ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

// Stat describes a blob.
func (s *Store) Stat(ctx context.Context, key string) (_ Info, err error) {
	defer wrap(&err, "look for "+clip(key)+" in the store")
	return s.stat(ctx, key)
}

func (s *Store) stat(ctx context.Context, key string) (Info, error) {
	if err := checkKey(key); err != nil {
		return Info{}, err
	}
	info, err := s.place.stat(ctx, key)
	return info, s.surely(ctx, err)
}

// List describes the blobs whose keys begin with prefix, which may end within a name. It
// sorts by key.
func (s *Store) List(ctx context.Context, prefix string) (_ []Info, err error) {
	defer wrap(&err, "list "+clip(prefix)+" in the store")
	if err := checkPrefix(prefix); err != nil {
		return nil, err
	}
	found, err := s.place.list(ctx, prefix)
	if err == nil && len(found) == 0 {
		if err := s.surely(ctx, ErrNotFound); !errors.Is(err, ErrNotFound) {
			return nil, err
		}
	}
	return found, err
}

// Delete removes a blob. A missing blob is no error.
func (s *Store) Delete(ctx context.Context, key string) (err error) {
	defer wrap(&err, "delete "+clip(key)+" from the store")
	if err := checkKey(key); err != nil {
		return err
	}
	err = s.surely(ctx, s.place.remove(ctx, key))
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	return err
}

// surely returns ErrNotFound only if the store is still there. An unmounted disk or a
// deleted bucket also has no blobs; taken for ErrNotFound, an outage would become a loss.
func (s *Store) surely(ctx context.Context, err error) error {
	if !errors.Is(err, ErrNotFound) {
		return err
	}
	if _, there := s.place.stat(ctx, metaKey); errors.Is(there, ErrNotFound) {
		return fmt.Errorf("%w: there is no store at %s any more", ErrUnreachable, s.url)
	} else if there != nil {
		return there
	}
	return err
}

// PutContent writes data under prefix and its Name, once for equal data, and returns the
// key. It needs an identity (ErrNoIdentity).
func (s *Store) PutContent(ctx context.Context, prefix string, data []byte) (_ string, err error) {
	defer wrap(&err, "store content under "+clip(prefix))
	name, err := s.Name(data)
	if err != nil {
		return "", err
	}
	key := prefix + "/" + name
	if _, err := s.stat(ctx, key); err == nil {
		return key, nil
	} else if !errors.Is(err, ErrNotFound) {
		return "", err
	}
	return key, s.write(ctx, key, data, false)
}

// Name is 64 hex digits: an HMAC-SHA-256 of data under a key that only readers of the store
// have. To others it reveals nothing about the data.
func (s *Store) Name(data []byte) (string, error) {
	if s.nameKey == nil {
		return "", ErrNoIdentity
	}
	mac := hmac.New(sha256.New, s.nameKey)
	mac.Write([]byte("content\x00"))
	mac.Write(data)
	return hex.EncodeToString(mac.Sum(nil)), nil
}

// Tag is 64 hex digits: an HMAC-SHA-256 of data that is for a purpose, under a key that only
// readers of the store have. So nobody else can make up what has a tag.
func (s *Store) Tag(purpose string, data []byte) (string, error) {
	if s.nameKey == nil {
		return "", ErrNoIdentity
	}
	mac := hmac.New(sha256.New, s.nameKey)
	mac.Write([]byte("tag\x00" + purpose + "\x00"))
	mac.Write(data)
	return hex.EncodeToString(mac.Sum(nil)), nil
}

func wrap(err *error, doing string) {
	if *err != nil {
		*err = fmt.Errorf("%s: %w", doing, *err)
	}
}
