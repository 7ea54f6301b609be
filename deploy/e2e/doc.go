// Package e2e holds the end-to-end tests: ctl, worker, Temporal, OpenSSH and
// codex as people run them, on one machine. Only the model is a stand-in.
package e2e
