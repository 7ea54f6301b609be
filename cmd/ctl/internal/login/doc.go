// Package login has `ctl login`, `ctl logout` and `ctl whoami`: who gives the commands.
package login
