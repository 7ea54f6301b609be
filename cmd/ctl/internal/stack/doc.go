// Package stack is `ctl up`, `ctl down`, `ctl status` and `ctl doctor`.
package stack
