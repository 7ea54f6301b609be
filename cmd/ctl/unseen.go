package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// hideTyping has the terminal show nothing of what is typed, until show is
// called. Lines are read as ever: somebody may wait for one already.
func (a *app) hideTyping() (show func(), err error) {
	f, ok := a.in.(*os.File)
	if !ok {
		return nil, errors.New("standard input is no terminal")
	}
	fd := int(f.Fd())
	was, err := unix.IoctlGetTermios(fd, getTermios)
	if err != nil {
		return nil, err
	}
	quiet := *was
	quiet.Lflag &^= unix.ECHO
	quiet.Lflag |= unix.ECHONL
	if err := unix.IoctlSetTermios(fd, setTermios, &quiet); err != nil {
		return nil, err
	}
	return func() { _ = unix.IoctlSetTermios(fd, setTermios, was) }, nil // it was set a moment ago
}

// answerUnseen prompts, and waits for a line that is not shown.
func (a *app) answerUnseen(ctx context.Context, prompt string) (string, error) {
	show, err := a.hideTyping()
	if err != nil {
		return "", err
	}
	defer show()
	fmt.Fprint(a.err, prompt+" ")
	return a.answerAsIs(ctx)
}

// dropTyped drops what a person has typed so far, also what of a line: it was
// not typed for what is asked next. What the reader of lines has already, its
// time tells.
func (a *app) dropTyped() {
	if f, ok := a.in.(*os.File); ok {
		_ = flushTyped(int(f.Fd())) // of no terminal there is nothing to drop
	}
}
