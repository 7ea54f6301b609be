// Package stack is `ctl up`, `ctl down`, `ctl status`, `ctl ui` and `ctl doctor`.
package stack
