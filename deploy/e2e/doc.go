// Package e2e is the stack that end-to-end tests share, and the words they drive
// it with: ctl, worker, Temporal, OpenSSH and codex as people run them, on one
// machine. Only the model is a stand-in. The tests stand in the packages below,
// by theme; each package brings up a stack of its own, so that they can run side
// by side and what one kills disturbs no other.
package e2e
