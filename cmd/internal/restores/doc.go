// Package restores has what ctl and the HTTP API do for a session that goes on from a snapshot
// of another one. They take over the former settings, and never guess what codex may do.
//
// Its errors name flags of ctl, which the API writes as the fields of its requests.
package restores
