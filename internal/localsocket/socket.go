package localsocket

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"
)

// ErrStranger means that another user is at the other end of a socket.
var ErrStranger = errors.New("another user is at the other end")

// dialPatience bounds a connection. A socket whose process is stopped may accept none.
const dialPatience = 5 * time.Second

// Dial connects to the socket at path. The socket's folder and its listener must belong to us,
// to root or to one of owners.
func Dial(ctx context.Context, path string, owners ...int) (net.Conn, error) {
	if err := CheckFolder(filepath.Dir(path), owners...); err != nil {
		return nil, err
	}
	return dial(ctx, path, func(uid int) bool { return trusted(uid, owners) })
}

// DialAgent connects to an SSH agent, which we or root must run. Root may use the agent of
// any user, such as the one that sudo -E leaves in SSH_AUTH_SOCK.
func DialAgent(ctx context.Context, path string) (net.Conn, error) {
	return dial(ctx, path, func(uid int) bool { return os.Geteuid() == 0 || trusted(uid, nil) })
}

func dial(ctx context.Context, path string, allowed func(uid int) bool) (net.Conn, error) {
	d := net.Dialer{Timeout: dialPatience}
	conn, err := d.DialContext(ctx, "unix", path)
	if err != nil {
		return nil, err
	}
	uid, err := peer(conn)
	switch {
	case err != nil:
		err = fmt.Errorf("ask who listens on the socket %s: %w", path, err)
	case !allowed(uid):
		err = fmt.Errorf("%w of the socket %s: uid %d listens there, and we are uid %d (nothing was sent; %s)", ErrStranger, path, uid, os.Geteuid(), remedy())
	default:
		return conn, nil
	}
	return nil, errors.Join(err, conn.Close())
}

// remedy says what helps against another user's socket.
func remedy() string {
	if os.Geteuid() == 0 {
		return "run as that user or, if the worker runs as that user, name it as api.owner in the config"
	}
	return "run as that user, or name another socket"
}

// A Listener accepts connections of our own user and of root.
type Listener struct {
	*net.UnixListener
	refused func(error)
}

// Listen serves a socket at path, which must not exist. Its folder is made and checked.
// refused is called for each connection of another user, which is closed.
func Listen(path string, refused func(error)) (*Listener, error) {
	if err := MakeFolder(filepath.Dir(path)); err != nil {
		return nil, err
	}
	ln, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, err
	}
	return &Listener{ln, refused}, nil
}

// Accept implements net.Listener.
func (l *Listener) Accept() (net.Conn, error) {
	for {
		conn, err := l.UnixListener.Accept()
		if err != nil {
			return nil, err
		}
		uid, err := peer(conn)
		switch {
		case err != nil:
			err = fmt.Errorf("ask who connects to %s: %w", l.Addr(), err)
		case !trusted(uid, nil):
			err = fmt.Errorf("%w: uid %d connected to %s", ErrStranger, uid, l.Addr())
		default:
			return conn, nil
		}
		l.refused(errors.Join(err, conn.Close()))
	}
}

// peer returns the user at the other end: of a client, or of the process that listens.
func peer(conn net.Conn) (uid int, err error) {
	socket, ok := conn.(*net.UnixConn)
	if !ok {
		return 0, fmt.Errorf("%T is not a unix socket", conn)
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return 0, err
	}
	var askErr error
	if err := raw.Control(func(fd uintptr) { uid, askErr = peerOf(int(fd)) }); err != nil {
		return 0, err
	}
	return uid, askErr
}
