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

// Person returns user@machine, under which this user's messages are recorded. Nothing
// verifies it.
func Person() string {
	return fmt.Sprintf("%s@%s", userName(), Hostname())
}

// Hostname returns the name of this machine, or one made of the process id.
func Hostname() string {
	h, err := os.Hostname()
	if err != nil {
		return fmt.Sprintf("pid%d", os.Getpid())
	}
	return h
}
