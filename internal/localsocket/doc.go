// Package localsocket connects the processes of one machine. A socket or a folder counts only
// if it belongs to the caller's user or to root, because other users of the machine can put
// sockets, folders and links of their own into a place such as /tmp.
//
//   - [MakeFolder] makes a folder for sockets or state, and [CheckFolder] checks it. The
//     folder belongs to us or to root, and nobody else can write to it, replace it or lead
//     to another one by a link.
//   - [Listen] serves a socket in such a folder. It closes connections of other users.
//   - [Dial] connects to a socket in such a folder. It returns [ErrStranger] before a byte is
//     sent if another user listens.
//   - [DialAgent] does the same for an SSH agent, in any folder.
//   - [LoopbackPeer] says which user connected to a loopback port.
//
// The kernel says who is at the other end (SO_PEERCRED, LOCAL_PEERCRED; sock_diag for TCP, on
// Linux alone). On a system where it does not, every connection is refused.
package localsocket
