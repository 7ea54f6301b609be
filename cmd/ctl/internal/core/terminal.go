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
	return a.changeTerminal(func(t *unix.Termios) {
		t.Lflag &^= unix.ECHO
		t.Lflag |= unix.ECHONL
	})
}

// foreground reports whether the terminal belongs to ctl, not to the shell that has ctl in
// the background: the system stops a process that changes the modes of another's terminal.
func foreground(f *os.File) bool {
	group, err := unix.IoctlGetInt(int(f.Fd()), unix.TIOCGPGRP)
	return err != nil || group == unix.Getpgrp() // without a controlling terminal there is no background
}

// changeTerminal changes the modes of the terminal at standard input.
func (a *App) changeTerminal(change func(*unix.Termios)) (restore func(), err error) {
	f, ok := a.In.(*os.File)
	if !ok {
		return nil, errors.New("standard input is not a terminal")
	}
	fd := int(f.Fd())
	was, err := unix.IoctlGetTermios(fd, getTermios)
	if err != nil {
		return nil, err
	}
	now := *was
	change(&now)
	if err := unix.IoctlSetTermios(fd, setTermios, &now); err != nil {
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
