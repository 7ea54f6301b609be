package main

import "strings"

// A stateFlag is --state of a command where it means a session's state. In all other places
// --state is the folder of a local stack, which scripts append to any command. So a value
// with a slash is taken as the folder here too. No state has a slash.
type stateFlag struct {
	word   string
	given  bool
	folder *string
}

func (f *stateFlag) Set(s string) error {
	if strings.Contains(s, "/") {
		*f.folder = s
		return nil
	}
	f.word, f.given = s, true
	return nil
}

func (f *stateFlag) String() string { return f.word }
func (f *stateFlag) Type() string   { return "state" }
