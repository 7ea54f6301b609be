package store

import "errors"

// Errors are wrapped with the operation and the key.
var (
	// ErrNotFound means that the store is reachable and has no such blob.
	ErrNotFound = errors.New("no such blob in the store")
	// ErrExists means that Create found a blob.
	ErrExists = errors.New("the store already holds this key")
	// ErrNotExclusive means that several CreateOnce of a key might succeed.
	ErrNotExclusive = errors.New("the store's server does not keep two writers from creating the same object")
	// ErrWrongKey means that no identity decrypts the blob.
	ErrWrongKey = errors.New("encrypted for another key (check the identity file in the config)")
	// ErrIdentityFile means that a file has no identities.
	ErrIdentityFile = errors.New("not an age identity file")
	// ErrNoIdentity means that this process can only write.
	ErrNoIdentity = errors.New("no identity to decrypt with (only workers hold one)")
	// ErrTorn means that the blob was cut, changed or moved.
	ErrTorn = errors.New("blob is torn or was tampered with")
	// ErrUnreachable means that the store does not answer or is gone.
	ErrUnreachable = errors.New("store cannot be reached")
	// ErrOtherStore means that the store has another id.
	ErrOtherStore = errors.New("not the store that was expected")
	// ErrBadKey means that stores do not accept the key.
	ErrBadKey = errors.New("not a key of a store")
	// ErrTooLarge means that the blob is too large for Get or CreateOnce.
	ErrTooLarge = errors.New("blob is too large to be read at once")
)
