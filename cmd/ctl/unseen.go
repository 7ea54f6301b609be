package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// hideTyping turns the terminal's echo off until show is called. Reading lines is not
// affected, because the reader may already be waiting for one.
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
	return func() { _ = unix.IoctlSetTermios(fd, setTermios, was) }, nil // setting the terminal has just worked
}

// answerUnseen prompts, and reads a line that is not shown.
func (a *app) answerUnseen(ctx context.Context, prompt string) (string, error) {
	show, err := a.hideTyping()
	if err != nil {
		return "", err
	}
	defer show()
	fmt.Fprint(a.err, prompt+" ")
	return a.answerAsIs(ctx)
}

// dropTyped discards everything that was typed so far, even a part of a line, because it
// was not meant for the next question. Lines that the reader already has are recognized by
// their time.
func (a *app) dropTyped() {
	if f, ok := a.in.(*os.File); ok {
		_ = flushTyped(int(f.Fd())) // without a terminal there is nothing to discard
	}
}
