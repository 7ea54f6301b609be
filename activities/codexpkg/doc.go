// Package codexpkg reads the codex packages that a worker can copy to hosts. A CodexSource is
// safe for concurrent use. It computes the digests of a package when it first reads it.
package codexpkg
