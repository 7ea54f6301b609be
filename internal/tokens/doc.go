// Package tokens keeps the API tokens of programs.
//
// A token is a secret that a person makes for a program. Its record is in the store that all
// workers share, and has the secret's digest only. A [Book] is a worker's view of the
// records: it reads them again every few seconds, so that a revocation counts on every
// worker within a minute. If a book could not read them for a minute, no token
// counts.
//
//	api-tokens/<name>/token    the record, written once
//	api-tokens/<name>/revoked  who revoked it and when, written once
//
// A name stands for one token for ever: the access file may name it. The package
// [fairlead.dev/fairlead/internal/access] says what a token may do.
package tokens
