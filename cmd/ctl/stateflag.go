package main

import "strings"

// A stateFlag is --state where it names a session's state. Everywhere else the
// flag is the folder of a local stack, and scripts put that behind any command:
// a path is taken as one here, too. No state has a slash in it.
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
