// Package command signs and verifies what a principal tells a workflow.
//
// A command is a JSON object: the arguments of a signal, an update or a start. A signed
// command has one more field, "auth", with a [protocol.Auth]: an SSH signature over a
// [Statement], which names the workflow, the command and the digest of the other fields. So
// a signature counts for one command to one workflow. The digest is of the canonical JSON,
// as [Canonical] makes it: a program in another language can sign with a JSON library,
// sha256 and ssh-keygen.
//
// [Check] verifies a signature against the signers of an access file. It uses no clock but
// the one that it is given, so a result that is recorded can be replayed. It does not know
// which nonces were used: [Nonces] remembers them.
package command
