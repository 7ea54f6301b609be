// Package audit is the record of who did what.
//
// A [Record] is about one command, policy verdict or credential event. The records of an
// entity (a run of a session, a worker) are a chain: each has the digest of the one before
// it. The line of a record is its canonical JSON (see [command.Canonical]), without a line
// end. The field prev is the SHA-256 of the line before, in hex, and empty in the first
// record. So sha256sum and ssh-keygen suffice to verify a chain.
//
// A [Chain] is the state of the writer. Its records wait in it until they are in the store.
// [Log.Verify] finds records that were changed, removed or added.
//
// Nothing in the store can show that the end of a chain was cut off: somebody who can cut the
// chain can also replace a list of heads, signed or not, by an older one. So heads come from
// elsewhere. Each writer tells its own (a workflow by a query, which costs no event; a worker
// in its status), and ctl remembers those that it has verified. [Log.Reaches] compares.
//
// Records have the digest of a command's arguments, and never the arguments, which may hold
// prompts and secrets.
package audit
