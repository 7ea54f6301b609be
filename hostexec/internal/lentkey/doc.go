// Package lentkey is the SSH agent that a host gets to see: it has one key, for logins to
// one server.
//
// A [Loan] signs only what a client signs to log in (RFC 4252, section 7), and only after
// the client has shown with session-bind@openssh.com, which OpenSSH has since 8.9, that its
// connection leads to that server: the extension carries the server's own signature of the
// connection's session identifier, and the same identifier is in what the client has
// signed. So whoever controls the host can use the key to log in to that server as long as
// the loan lasts, and for nothing else: not for another server, and not to sign a file or a
// message (SSHSIG).
package lentkey
