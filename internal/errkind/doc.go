// Package errkind has the errors that ctl prints and the HTTP API answers with. An [Error] has
// a word for programs (its kind), a message and a hint for people, and an exit code of ctl.
package errkind
