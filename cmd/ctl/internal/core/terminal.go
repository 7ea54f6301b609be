package core

import (
	"context"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// HideTyping turns the terminal's echo off until show is called. The terminal still
// delivers whole lines, because the reader may already wait for one.
func (a *App) HideTyping() (show func(), err error) {
	f, ok := a.In.(*os.File)
	if !ok {
		return nil, errors.New("standard input is not a terminal")
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
	return func() { _ = unix.IoctlSetTermios(fd, setTermios, was) }, nil
}

// AnswerUnseen prompts, and reads a line that is not shown.
func (a *App) AnswerUnseen(ctx context.Context, prompt string) (string, error) {
	show, err := a.HideTyping()
	if err != nil {
		return "", err
	}
	defer show()
	fmt.Fprint(a.Err, Clean(prompt)+" ")
	return a.answerAsIs(ctx)
}

// DropTyped discards everything typed so far, which was not meant for the next question.
// Lines that the reader already has are recognized by their time.
func (a *App) DropTyped() {
	if f, ok := a.In.(*os.File); ok {
		_ = flushTyped(int(f.Fd())) // not a terminal: nothing to discard
	}
}
