// Package wire speaks the protocol of codex's app-server: bounded lines of JSON-RPC. It
// knows which method came with which version of codex. The types of methods have only the
// fields that we use.
package wire
