// Package sshsig signs and verifies small messages with SSH keys, in the format of
// `ssh-keygen -Y sign`. It reads the people who may sign from a file in the format of
// ssh-keygen's allowed_signers.
//
// It exists for decisions. Everyone who can signal the Temporal namespace is trusted, and a
// name in a message is only a claim. If a policy names approvers, a decision therefore
// carries a signature, which workflow code verifies. So nothing in this package uses a
// clock or reads a file, and only signing uses a random source. For the same signature and
// time, the result is the same on every worker and in every replay.
//
//	signer, err := sshsig.ParseKey(pem, passphrase) // or FromAgent(conn, Choice{…})
//	armored, err := sshsig.Sign(signer, sshsig.Namespace, message)
//
//	allowed, err := sshsig.ParseAllowed(text)
//	who, err := sshsig.Verify(armored, sshsig.Namespace, message, allowed, at)
//
// # Who may sign
//
// A line of allowed signers is
//
//	PRINCIPAL[,ALIAS…] [OPTIONS] KEYTYPE BASE64 [COMMENT]
//
// with the options cert-authority, namespaces="a,b", valid-after="20260101Z" and
// valid-before="202601011200Z". Lines are read as ssh-keygen reads them. But a line is
// refused if it would leave open who decided, or if two workers could read it differently:
//
//   - a time must end in Z: without it ssh-keygen means the machine's time zone;
//   - the principal of a plain key must be a name, not a pattern, because it says who
//     decided (patterns are for certificate authorities, whose certificates have names);
//   - a key belongs to one principal, and so does a name (also an alias): otherwise
//     somebody could count twice;
//   - RSA keys must have 2048 bits or more, and DSA is not supported.
//
// # Who signed
//
// If several people must agree, they are counted by the principals that [Verify] returns.
// For a plain key this is the first name of its line, even if the owner uses an alias. A
// certificate counts for the same person as a line of a plain key that has its key or its
// name. If a certificate has names of several people and its authority's line allows them,
// it is refused, because it does not show which of them signed. If names are on no line of
// a plain key, the authority is trusted to give each person one name: if it gives a person
// two such names, they count as two people. To compare a person with the signer (for
// example to find out whether the signer sent the message), use [Allowed.Same].
//
// # Which key signs
//
// An agent that holds a key and its certificate lists both, under one fingerprint. The
// allowed signers decide which of them counts: a plain key by its own line, a certificate
// by its authority's line. So a [Choice] can have the allowed signers. Then it picks a key
// that may sign among the keys that it names. If keys of several people are left, the user
// must say which one to use.
//
// # What is verified
//
// Keys: ed25519, ECDSA (P-256, P-384, P-521), RSA with SHA-2, the sk- kinds of
// ed25519 and ECDSA (the owner must have touched the key), and user certificates for
// all of these, by an authority in the file. A certificate with a critical option,
// for hosts, without a principal, or signed with SHA-1 is refused. Hashes: sha512
// (used by Sign) and sha256.
package sshsig
