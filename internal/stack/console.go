package stack

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"fairlead.dev/fairlead/internal/config"
	"fairlead.dev/fairlead/internal/console"
)

// ErrNoConsole means that the stack has no console.
var ErrNoConsole = errors.New("the stack has no console: it is of an earlier version, or has no worker")

// settleConsole gives the first worker a console on loopback, at the same port as last time,
// and its links a new key.
func (s *supervisor) settleConsole(c *config.Console) error {
	if s.opts.Workers == 0 {
		return nil
	}
	if c.Listen == "" {
		port, err := freePort(s.ports.Console)
		if err != nil {
			return fmt.Errorf("find a port for the console: %w", err)
		}
		s.ports.Console = port
		c.Listen = net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	}
	if c.LinkKey == "" {
		key := make([]byte, 32)
		rand.Read(key)
		c.LinkKey = s.at.in("console.key")
		if err := writeFile(c.LinkKey, []byte(base64.RawURLEncoding.EncodeToString(key)+"\n")); err != nil {
			return fmt.Errorf("write the key of the console's links: %w", err)
		}
	}
	s.info.Console, s.info.ConsoleKey = c.Address(), c.LinkKey
	return nil
}

// ConsoleLink returns a link that logs a browser in to the stack's console as principal, once
// and before its end. With authority: local the principal is empty. The link is a secret.
func (i *Info) ConsoleLink(principal string, now time.Time) (link string, end time.Time, err error) {
	if i.Console == "" || i.ConsoleKey == "" {
		return "", end, ErrNoConsole
	}
	text, err := secretLine(i.ConsoleKey)
	if err != nil {
		return "", end, fmt.Errorf("read the key of the console's links: %w", err)
	}
	key, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(key) < 32 {
		return "", end, fmt.Errorf("read the key of the console's links: %s holds none", i.ConsoleKey)
	}
	token, end := console.NewLink(key, principal, now)
	return i.Console + console.LinkPath + "?token=" + token, end, nil
}
