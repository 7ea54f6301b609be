package store

import "errors"

// Errors that callers test for. Each is wrapped with the operation and the key.
var (
	// ErrNotFound means that the store can be reached and has no such blob.
	ErrNotFound = errors.New("no such blob in the store")
	// ErrExists means that Create found a blob under the key.
	ErrExists = errors.New("the store already holds this key")
	// ErrNotExclusive means that the store cannot guarantee that only one of several
	// CreateOnce succeeds.
	ErrNotExclusive = errors.New("the store's server does not keep two writers from creating the same object")
	// ErrWrongKey means that none of the identities decrypts the blob.
	ErrWrongKey = errors.New("encrypted for another key (check the identity file in the config)")
	// ErrIdentityFile means that a file that should hold identities holds something else.
	ErrIdentityFile = errors.New("not an age identity file")
	// ErrNoIdentity means that this process has no identity and can only write.
	ErrNoIdentity = errors.New("no identity to decrypt with (only workers hold one)")
	// ErrTorn means that the blob was cut, changed or moved. Such a blob is never used.
	ErrTorn = errors.New("blob is torn or was tampered with")
	// ErrUnreachable means that the store does not answer, or is not at its place any more.
	ErrUnreachable = errors.New("store cannot be reached")
	// ErrOtherStore means that the store at the URL has another id.
	ErrOtherStore = errors.New("not the store that was expected")
	// ErrBadKey means that a store does not accept the key.
	ErrBadKey = errors.New("not a key of a store")
	// ErrTooLarge means that the blob is too large for a function that handles it in one
	// piece, such as Get or CreateOnce.
	ErrTooLarge = errors.New("blob is too large to be read at once")
)
