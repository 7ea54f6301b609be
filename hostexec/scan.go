package hostexec

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"

	"golang.org/x/crypto/ssh"

	"fairlead.dev/fairlead/internal/protocol"
)

// ScanHostKeys asks a host for its keys without logging in to it. It logs in to the jump
// hosts, whose keys must be pinned.
func ScanHostKeys(ctx context.Context, spec protocol.HostSpec) ([]protocol.HostKey, error) {
	if isThisMachine(spec) {
		return nil, errors.New("scan host keys: the local host has none")
	}
	ctx, cancel := context.WithTimeoutCause(ctx, reachDeadline, errTooLong)
	defer cancel()
	open := dialTCP(addressOf(spec))
	if spec.Jump != nil {
		pool := NewPool(PoolOptions{Agent: os.Getenv("SSH_AUTH_SOCK")})
		defer pool.Close()
		jump, err := pool.Host(*spec.Jump)
		if err != nil {
			return nil, fmt.Errorf("scan host keys of %s: jump: %w", spec.Name, err)
		}
		sshJump, ok := jump.(*sshHost)
		if !ok {
			return nil, fmt.Errorf("scan host keys of %s: jump: the local host is no jump host", spec.Name)
		}
		open = sshJump.through(addressOf(spec), control)
	}
	keys, err := scan(ctx, addressOf(spec), open)
	if err != nil {
		return nil, fmt.Errorf("scan host keys of %s: %w", spec.Name, loginError(ctx, spec, spec.User, err))
	}
	return keys, nil
}

var errScanned = errors.New("the key was seen")

// scan does one handshake per key of the host.
func scan(ctx context.Context, address string, open transport) ([]protocol.HostKey, error) {
	var keys []protocol.HostKey
	algos, _ := hostKeyAlgorithms()
	for len(algos) > 0 {
		var seen ssh.PublicKey
		client, _, err := handshake(ctx, address, open, &ssh.ClientConfig{
			User:              "none",
			HostKeyAlgorithms: algos,
			ClientVersion:     clientVersion,
			HostKeyCallback: func(_ string, _ net.Addr, key ssh.PublicKey) error {
				seen = key
				return errScanned
			},
		})
		var none *ssh.AlgorithmNegotiationError
		switch {
		case err == nil: // impossible: the callback refuses every key
			client.Close()
			return nil, errors.New("the host showed no key")
		case seen != nil:
			keys = append(keys, newHostKey(seen))
			algos = withoutType(algos, seen.Type())
		case errors.As(err, &none) && len(keys) > 0:
			return keys, nil
		default:
			return keys, err
		}
	}
	return keys, nil
}
