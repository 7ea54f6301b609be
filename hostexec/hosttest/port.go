package hosttest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// TakePort takes ports in this range. It lies below the range that systems use for outgoing
// connections and for listeners that ask for any port. So no other program gets the port
// between a stop and a start of its listener.
const firstPort, lastPort = 12000, 31999

// A Port is a TCP port of the loopback address that no other test, in this
// process or another one, has until Release or the end of the process.
type Port struct {
	Number int
	lock   *os.File
}

// TakePort takes a free port.
func TakePort() (*Port, error) {
	dir := filepath.Join(os.TempDir(), "fairlead-ports")
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return nil, err
	}
	_ = os.Chmod(dir, 0o777) // for tests of other users, whatever the umask; it fails if another user has made the folder
	var last error
	for range 200 {
		n := firstPort + rand.IntN(lastPort-firstPort+1)
		p, err := lockPort(filepath.Join(dir, strconv.Itoa(n)), n)
		if err == nil {
			return p, nil
		}
		last = err
	}
	return nil, fmt.Errorf("no free port between %d and %d: %w", firstPort, lastPort, last)
}

// lockPort takes the port n if no other test has it.
func lockPort(path string, n int) (*Port, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o666)
	if err != nil {
		return nil, err
	}
	p := &Port{Number: n, lock: f}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(n)))
	if err != nil {
		return nil, errors.Join(err, p.Release())
	}
	if err := l.Close(); err != nil {
		return nil, errors.Join(err, p.Release())
	}
	return p, nil
}

// Release releases the port.
func (p *Port) Release() error { return p.lock.Close() }
