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
	"time"

	"filippo.io/age"
)

// Options say where a store is and who may read it.
type Options struct {
	// URL is file:///absolute/folder or s3://bucket?region=…&prefix=…/ (the
	// parameters and the credentials of the AWS SDK); mem:// is for tests.
	URL string
	// Recipients are the recipients for whom every blob is encrypted. They are required.
	Recipients []age.Recipient
	// Identities decrypt blobs. A process that only writes has none. If there are any, one
	// of them must belong to one of the Recipients.
	Identities []age.Identity
	// ID, if set, is the id that the store must have. If the store has another id, the
	// error is ErrOtherStore. A missing store is not created.
	ID string
	// Logger may be nil.
	Logger *slog.Logger
}

// A Store keeps encrypted blobs. It is safe for concurrent use.
type Store struct {
	url        string
	place      place
	id         string
	nameKey    []byte // nil without an identity
	recipients []age.Recipient
	identities []age.Identity
	own        []age.Identity // the identities that belong to the recipients
	readers    [8]byte        // marks the recipients
}

// Info describes a blob without opening it.
type Info struct {
	Key string
	// Size is the encrypted size in bytes.
	Size    int64
	ModTime time.Time
}

// MaxGet is the largest blob that Get reads, in bytes of plaintext.
const MaxGet = 256 << 20

// Open opens the store at a URL, and makes one if there is none yet. If two processes open
// a new store at the same time, they agree on its id. Open tries the identities, so that
// it, and not a later call, returns ErrWrongKey for a wrong one.
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
	defer func() {
		if err != nil {
			err = errors.Join(err, p.close())
		}
	}()
	m, err := loadMeta(ctx, p)
	if errors.Is(err, ErrNotFound) {
		if opts.ID != "" {
			return nil, fmt.Errorf("%w: there is none, and %s was expected (is the disk mounted, the bucket right?)",
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
	s := &Store{url: opts.URL, place: p, id: m.ID, recipients: opts.Recipients, identities: opts.Identities,
		own: ownOf(opts.Identities, opts.Recipients), readers: readersOf(opts.Recipients)}
	if len(s.identities) > 0 {
		if s.nameKey, err = m.openKey(s.identities); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// readOwn checks that this process can read what it writes.
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
		return fmt.Errorf("none of our identities is among the recipients, so that we could not read what we write: %w", err)
	}
	return nil
}

// Close releases the store's resources.
func (s *Store) Close() error { return s.place.close() }

// ID returns the store's id: 32 hex digits.
func (s *Store) ID() string { return s.id }

// URL returns the store's URL.
func (s *Store) URL() string { return s.url }

// CanRead reports whether this process has an identity.
func (s *Store) CanRead() bool { return len(s.identities) > 0 }

// Put writes a blob, replacing an older one under the key. After an error that wraps
// ErrUnreachable the key holds the old blob or the new one, whole.
func (s *Store) Put(ctx context.Context, key string, data []byte) (err error) {
	defer wrap(&err, "store "+clip(key))
	return s.write(ctx, key, data, false)
}

// Create writes a blob if the key is free, and returns ErrExists otherwise. After
// ErrUnreachable the blob may be stored. If it is, a second Create returns ErrExists.
//
// On an S3 server that ignores If-None-Match, two calls that create the same key at the
// same moment may both succeed. Create reads back the blob, so a writer whose blob was
// overwritten before that gets ErrExists. A writer whose blob is overwritten later does not
// notice. Use CreateOnce if only one call may ever succeed.
func (s *Store) Create(ctx context.Context, key string, data []byte) (err error) {
	defer wrap(&err, "store "+clip(key))
	return s.create(ctx, key, data)
}

// maxOnce bounds a blob of CreateOnce, in bytes. Such a blob is written in one request,
// because a server may honour conditions on single requests and not on multipart uploads.
const maxOnce = 1 << 20

// CreateOnce is like Create, but never succeeds twice for a key. The data has at most 1 MiB
// (ErrTooLarge). Before the first write it tests whether the server honours If-None-Match.
// If the server does not, it writes nothing and returns ErrNotExclusive. A server that
// checks and writes in two steps passes this test, and two calls at the same moment may
// still both succeed.
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

// Exclusive returns an error that says why the store refuses CreateOnce, or nil if it does
// not. It may write an object that is no blob.
func (s *Store) Exclusive(ctx context.Context) (err error) {
	defer wrap(&err, "try whether the store keeps what is created")
	return s.place.exclusive(ctx)
}

func (s *Store) create(ctx context.Context, key string, data []byte) error {
	// This saves work if the key is taken, and helps on S3 servers that ignore
	// If-None-Match.
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

// Get reads a whole blob of at most MaxGet bytes (ErrTooLarge).
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

// Exists reports whether there is a blob under key.
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

// List describes every blob whose key begins with prefix, sorted by key. The prefix
// may end within a name.
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

// surely returns ErrNotFound only if the store itself is still there. An unmounted disk or
// a deleted bucket also has no blobs. If callers took this for ErrNotFound, an outage would
// become a loss.
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

// PutContent writes data under prefix with a name made of a keyed digest, and returns the
// whole key. Equal data gets the same key and is stored once. The name reveals nothing
// about the data to anybody who does not have the store's own key. PutContent needs an
// identity (ErrNoIdentity).
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

// Name returns the name that PutContent gives data: 64 hex digits, an HMAC-SHA-256
// under a key that only readers of the store have.
func (s *Store) Name(data []byte) (string, error) {
	if s.nameKey == nil {
		return "", ErrNoIdentity
	}
	mac := hmac.New(sha256.New, s.nameKey)
	mac.Write([]byte("content\x00"))
	mac.Write(data)
	return hex.EncodeToString(mac.Sum(nil)), nil
}

func wrap(err *error, doing string) {
	if *err != nil {
		*err = fmt.Errorf("%s: %w", doing, *err)
	}
}
