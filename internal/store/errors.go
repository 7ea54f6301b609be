package store

import "errors"

// Errors that callers test for. Each is wrapped with the operation and the key.
var (
	// ErrNotFound: the store is reachable and has no such blob.
	ErrNotFound = errors.New("no such blob in the store")
	// ErrExists: Create found the key taken.
	ErrExists = errors.New("the store already holds this key")
	// ErrNotExclusive: the store cannot promise that CreateOnce has one winner.
	ErrNotExclusive = errors.New("the store's server does not keep two writers from creating the same object")
	// ErrWrongKey: none of the identities decrypts the blob.
	ErrWrongKey = errors.New("encrypted for another key (check the identity file in the config)")
	// ErrIdentityFile: a file that should hold identities holds something else.
	ErrIdentityFile = errors.New("not an age identity file")
	// ErrNoIdentity: this process has no identity and can only write.
	ErrNoIdentity = errors.New("no identity to decrypt with (only workers hold one)")
	// ErrTorn: the blob was cut, changed or moved; it is never used.
	ErrTorn = errors.New("blob is torn or was tampered with")
	// ErrUnreachable: the store does not answer, or is gone from its place.
	ErrUnreachable = errors.New("store cannot be reached")
	// ErrOtherStore: the URL leads to a store with another id.
	ErrOtherStore = errors.New("not the store that was expected")
	// ErrBadKey: the key is not one that a store accepts.
	ErrBadKey = errors.New("not a key of a store")
	// ErrTooLarge: the blob is too large for Get, CreateOnce or the like.
	ErrTooLarge = errors.New("blob is too large to be read at once")
)
