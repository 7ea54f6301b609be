// Package session is `ctl session`, with `ctl run` and `ctl transcript`.
package session
