//go:build !linux

package standin

import (
	"io"
	"time"
)

type pacer struct {
	begin time.Time
	every time.Duration
	done  int
}

func newPacer(every time.Duration) (*pacer, error) {
	return &pacer{begin: time.Now(), every: every}, nil
}

// wait returns the number of ticks since the last call, at least one.
func (p *pacer) wait() (ticks int, err error) {
	time.Sleep(time.Until(p.begin.Add(time.Duration(p.done+1) * p.every)))
	due := int(time.Since(p.begin) / p.every)
	ticks, p.done = due-p.done, due
	return ticks, nil
}

func (p *pacer) close() {}

func quick(w io.Writer) io.Writer { return w }
