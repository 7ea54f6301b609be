// Package sshsig signs and verifies small messages with SSH keys, in the format
// of `ssh-keygen -Y sign`, and knows who may sign from a file in the format of
// ssh-keygen's allowed_signers.
//
// It exists for decisions: who may signal the Temporal namespace is trusted, and
// a name in a message is a claim; where a policy names approvers, a decision
// carries a signature that workflow code verifies. So nothing here has a clock or
// reads a file, and only signing asks a random source: the same signature at the
// same moment has the same answer on every worker and in every replay.
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
// valid-before="202601011200Z". It is read as ssh-keygen reads it, but for what
// would leave open who decided, or let two workers differ; those are refused
// where the file is read, with the line:
//
//   - a moment must end in Z: without it ssh-keygen means the time zone of the machine;
//   - the principal of a plain key is a name, not a pattern: it is who decided
//     (patterns are for certificate authorities, whose certificates name somebody);
//   - one key stands for one principal, and one name (an alias as well) for one:
//     else somebody would count twice;
//   - RSA keys have 2048 bits or more, and there is no DSA.
//
// # Who signed
//
// Where several must agree, people are counted, by what [Verify] returns: of a
// plain key the first name of its line, whichever alias its owner goes by. A
// certificate counts for the same person where a line has its key, or the name in
// it; one that names several people whom its authority's line allows is refused,
// since who of them signed is left open. Names that stand on no line of a plain key
// are as many people as the authority says that they are: one that gives a person
// two such names makes two of them. To compare somebody with who signed (whether
// they sent the message), ask [Allowed.Same].
//
// # Which key signs
//
// An agent that was given a key with its certificate holds both, under one
// fingerprint, and which of them counts depends on the allowed signers: a plain key
// on a line of its own, a certificate by the line of its authority. So a [Choice]
// may be given these; it then picks, of what it names, the key of one who may sign.
// Where that leaves several people, the person has to say who they are.
//
// # What is verified
//
// Keys: ed25519, ECDSA (P-256, P-384, P-521), RSA with SHA-2, the sk- kinds of
// ed25519 and ECDSA (the owner must have touched the key), and user certificates
// for all of these, by an authority of the file. A certificate with a critical
// option, for hosts, of no principal, or signed with SHA-1 is refused.
// Hashes: sha512 (what Sign uses) and sha256.
package sshsig
