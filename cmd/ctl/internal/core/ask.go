package core

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"strings"
	"time"
)

type typedLine struct {
	Text string
	At   time.Time
}

// Lines returns the lines of standard input, read by one reader for the whole run. The line
// typed for an abandoned question reaches the next one, which must check its time.
func (a *App) Lines() <-chan typedLine {
	a.linesOnce.Do(func() {
		a.lineCh = make(chan typedLine)
		go func() {
			defer close(a.lineCh)
			r := bufio.NewReader(a.In)
			for {
				s, err := r.ReadString('\n')
				if s != "" || err == nil {
					a.lineCh <- typedLine{strings.TrimRight(s, "\r\n"), time.Now()}
				}
				if err != nil {
					return
				}
			}
		}()
	})
	return a.lineCh
}

func (a *App) answer(ctx context.Context) (string, error) {
	s, err := a.answerAsIs(ctx)
	return strings.TrimSpace(s), err
}

func (a *App) answerAsIs(ctx context.Context) (string, error) {
	select {
	case <-ctx.Done():
		return "", context.Cause(ctx)
	case s, ok := <-a.Lines():
		if !ok {
			return "", io.EOF
		}
		return s.Text, nil
	}
}

// Confirm asks a yes or no question on standard error.
func (a *App) Confirm(ctx context.Context, question string) (bool, error) {
	for {
		fmt.Fprintf(a.Err, "%s [y/n] ", Clean(question))
		s, err := a.answer(ctx)
		if err != nil {
			return false, err
		}
		switch strings.ToLower(s) {
		case "y", "yes":
			return true, nil
		case "n", "no":
			return false, nil
		}
	}
}
