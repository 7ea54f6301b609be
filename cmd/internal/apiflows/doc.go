// Package apiflows is the side of the HTTP API for programs that talks to Temporal: it does
// what package httpapi asks for, with package flows, as ctl does.
//
// It sends what a client of Temporal without a worker's keys sends, so nothing that it writes
// counts as a worker's. With authority: required it signs each command with the key of its
// worker, for the principal whose request the API has verified.
package apiflows
