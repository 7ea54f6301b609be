package core

import (
	"context"
	"fmt"
	"io"
	"strings"
)

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
