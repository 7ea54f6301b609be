package lab

import (
	"context"
	"errors"
	"io"
	"os"
	"time"
)

// PlaceProgram copies a program. It replaces one that runs, which goes on as it is.
func PlaceProgram(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to+".new", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	if err = errors.Join(err, out.Close()); err != nil {
		return err
	}
	return os.Rename(to+".new", to)
}

// AwaitSuccessor waits until the stack has n workers again, and none of them is the victim.
func (l *Lab) AwaitSuccessor(ctx context.Context, n, victim int) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	return Until(ctx, "the victim's successor", func() (bool, error) {
		var st Status
		if err := l.JSON(ctx, &st, "status"); err != nil {
			return false, err
		}
		for _, w := range st.Workers {
			if w.PID == victim {
				return false, nil
			}
		}
		return len(st.Workers) == n, nil
	})
}
