package core

import (
	"fmt"
	"os"
	"os/user"
)

func userName() string {
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return "somebody"
}

// Person returns the name under which messages of this user are recorded, user@machine.
// Nothing verifies it.
func Person() string {
	return fmt.Sprintf("%s@%s", userName(), Hostname())
}

// Hostname returns the name of this machine. If it is unknown, it returns a name made of
// the process id.
func Hostname() string {
	h, err := os.Hostname()
	if err != nil {
		return fmt.Sprintf("pid%d", os.Getpid())
	}
	return h
}
