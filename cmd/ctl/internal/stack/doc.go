// Package stack is `ctl up`, `ctl down`, `ctl status` and `ctl doctor`: a stack on
// this machine, and the state of any.
package stack
