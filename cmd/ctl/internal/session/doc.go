// Package session is `ctl session`, with `ctl run` and `ctl transcript`: starting
// sessions, sending to them, watching turns, parking, forking and closing.
package session
