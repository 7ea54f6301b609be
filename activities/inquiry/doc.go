// Package inquiry asks workflows: a seed for its newest generation, a session for its
// snapshot, a pool for what is left on hosts. All versions must understand its messages'
// JSON.
package inquiry
