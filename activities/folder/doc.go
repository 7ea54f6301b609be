// Package folder knows a session's folder on a host: its layout, the mark that says for which
// generation it was made, and the processes in it. It works through a hostexec.Host and
// keeps nothing itself.
package folder
