package api

import (
	"fmt"
	"net/url"
	"strings"
)

// An Identity is a worker's name in Temporal, visible to everyone who can list pollers or
// running activities. By its API, viewers find the worker that is attached to a session
// without a history event.
type Identity struct {
	Name string
	PID  int
	API  string // unix:///path, http://127.0.0.1:port or https://host:port
}

// String is "name/pid api".
func (i Identity) String() string { return fmt.Sprintf("%s/%d %s", i.Name, i.PID, i.API) }

// ParseIdentity is the inverse of String; false for another program's identity.
func ParseIdentity(s string) (Identity, bool) {
	who, endpoint, ok := strings.Cut(s, " ")
	if !ok || CheckEndpoint(endpoint) != nil {
		return Identity{}, false
	}
	slash := strings.LastIndexByte(who, '/')
	var pid int
	if slash < 1 {
		return Identity{}, false
	}
	if _, err := fmt.Sscanf(who[slash+1:], "%d", &pid); err != nil {
		return Identity{}, false
	}
	return Identity{who[:slash], pid, endpoint}, true
}

// CheckEndpoint returns an error if s is not the address of a worker's API.
func CheckEndpoint(s string) error {
	u, err := url.Parse(s)
	ok := err == nil && u.User == nil && u.RawQuery == "" && u.Fragment == ""
	switch {
	case ok && u.Scheme == "unix" && u.Host == "" && strings.HasPrefix(u.Path, "/"):
		return nil
	case ok && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "":
		return nil
	}
	return fmt.Errorf("%q is not the address of a worker's API: unix:///path, http://127.0.0.1:port or https://host:port", s)
}
