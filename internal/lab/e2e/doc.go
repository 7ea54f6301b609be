// Package e2e provides the stack that end-to-end tests share, and helpers to
// drive it: ctl, worker, Temporal, OpenSSH and codex as people run them, on one
// machine. Only the model is a stand-in. The tests are in the packages below,
// by theme. Each package starts its own stack, so that they can run side by
// side and kill processes without disturbing each other.
package e2e
