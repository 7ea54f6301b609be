package teamtool

import (
	"errors"
	"net"
)

// refusedConnection reports whether no connection was made, so that the handler certainly
// did not get the call.
func refusedConnection(err error) bool {
	var op *net.OpError
	var dns *net.DNSError
	return errors.As(err, &dns) || errors.As(err, &op) && op.Op == "dial"
}
