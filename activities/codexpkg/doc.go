// Package codexpkg reads the codex packages that a worker can copy to hosts. It digests a
// package when first needed.
package codexpkg
