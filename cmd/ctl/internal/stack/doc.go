// Package stack is `ctl up`, `ctl down`, `ctl status` and `ctl doctor`: running a stack on
// this machine, and showing the state of any stack.
package stack
