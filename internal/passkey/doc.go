// Package passkey keeps people's passkeys and verifies what they sign (WebAuthn).
//
// A person registers a passkey in the console. A [Key] is its public part, in the store that all
// workers share. A [Book] is a worker's view of the keys: it reads them again every few seconds, so
// that a removal counts on every worker within a minute. If a book could not read them for a
// minute, no passkey counts. A record that cannot be used, such as one of a later release, is left
// out; other passkeys go on counting.
//
//	passkeys/<person>/<id>/key      the key, written once
//	passkeys/<person>/<id>/removed  who removed it and when, written once
//	passkeys/<person>/<id>/used     its counter and its last use
//
// <person> is the SHA-256 of the principal, and <id> that of the credential's id, both in hex. The
// owner of a stack without an access file has the empty principal.
//
// # What a passkey signs
//
// With a passkey, a person decides an approval that a policy marks as high risk. The challenge of
// the assertion is what [Challenge] returns: a digest of the decision, of the approval and of its
// session. So an assertion counts for one decision on one approval.
//
// [Key.Verify] checks all else: the type of the assertion, its origin, the site that the passkey
// belongs to, that the authenticator verified the person, and the signature. The library
// go-webauthn reads and verifies assertions; no code of ours parses CBOR or keys.
package passkey
