// Package sshsig signs and verifies small messages with SSH keys, in the format of
// `ssh-keygen -Y sign`. The people who may sign come from a file in the format of
// ssh-keygen's allowed_signers.
//
// Everyone who can signal the Temporal namespace is trusted, and a name in a message is
// only a claim. So if a policy names approvers, a decision carries a signature, which
// workflow code verifies. Nothing here uses a clock or reads a file, and only signing is
// random: the result is the same on every worker and in every replay.
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
// valid-before="202601011200Z". Lines are read as by ssh-keygen, but a line is refused if
// it leaves open who decided, or if two workers could read it differently:
//
//   - a time must end in Z: otherwise ssh-keygen means the machine's time zone;
//   - the principal of a plain key must be a name; patterns are for certificate
//     authorities;
//   - a key or a name belongs to one principal: otherwise somebody could count twice;
//   - RSA keys must have 2048 bits or more, and DSA is not supported.
//
// # Who signed
//
// People are counted by the principals that [Verify] returns: for a plain key, the first
// name of its line. A certificate counts for the person whose plain key or name it has. It
// is refused if it has names of several people that its authority's line allows. Names on
// no line of a plain key count as one person each: the authority is trusted to give each
// person only one. To compare a person with the signer, use [Allowed.Same].
//
// # Which key signs
//
// An agent lists a key and its certificate under one fingerprint. The allowed signers
// decide which of them counts, so a [Choice] can have them.
//
// # What is verified
//
// Keys: ed25519, ECDSA (P-256, P-384, P-521), RSA with SHA-2, the sk- kinds of ed25519 and
// ECDSA (the owner must have touched the key), and user certificates for all of these, by
// an authority in the file. A certificate with a critical option, for hosts, without a
// principal, or signed with SHA-1 is refused. Hashes: sha512 (used by Sign) and sha256.
package sshsig
