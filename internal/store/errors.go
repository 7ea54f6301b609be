package store

import "errors"

// What callers branch on. Each is wrapped with what was being done to which key.
var (
	// ErrNotFound: the store is there and holds no such blob.
	ErrNotFound = errors.New("no such blob in the store")
	// ErrExists: Create found the key taken.
	ErrExists = errors.New("the store already holds this key")
	// ErrWrongKey: none of our identities opens the blob.
	ErrWrongKey = errors.New("encrypted for another key (check the identity file in the config)")
	// ErrNoIdentity: this process was given no identity; it can only write.
	ErrNoIdentity = errors.New("no identity to decrypt with (only workers hold one)")
	// ErrTorn: the blob was cut, changed or moved; it is never used.
	ErrTorn = errors.New("blob is torn or was tampered with")
	// ErrUnreachable: the store does not answer, or is not where it was.
	ErrUnreachable = errors.New("store cannot be reached")
	// ErrOtherStore: the URL leads to a store with another id.
	ErrOtherStore = errors.New("not the store that was expected")
	// ErrBadKey: the key is not one that a store accepts.
	ErrBadKey = errors.New("not a key of a store")
	// ErrTooLarge: the blob is larger than Get brings into memory.
	ErrTooLarge = errors.New("blob is too large to be read at once")
)
