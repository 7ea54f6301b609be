package egress

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

const (
	// questionsAtOnce bounds the calls of Options.Callers: one that is slow keeps nobody waiting.
	questionsAtOnce = 2
	// mostTogether bounds the connections of one question, which is an argument of a program on the host.
	mostTogether = 64
	// afterStrangers is the pause after a question that found only connections of strangers, so that
	// they cannot have the worker ask all the time.
	afterStrangers = 100 * time.Millisecond
)

// A checker asks whose connections are. All connections that wait are in the next question, so that
// strangers who connect again and again keep a connection of the session waiting for a few questions only.
type checker struct {
	ask      func(context.Context, []string) []error // nil: nobody is a stranger
	ctx      context.Context
	patience time.Duration
	asking   sync.WaitGroup

	mu        sync.Mutex
	waiting   []*checked // guarded by mu, like all below
	questions int        // under way
}

// A checked is a connection that waits.
type checked struct {
	from string
	said chan error // has room for the answer
}

// check returns nil if the connection from an address belongs to the session.
func (c *checker) check(ctx context.Context, from string) error {
	if c.ask == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, c.patience)
	defer cancel()
	one := &checked{from: from, said: make(chan error, 1)}
	c.mu.Lock()
	c.waiting = append(c.waiting, one)
	if c.questions < questionsAtOnce && c.ctx.Err() == nil {
		c.questions++
		c.asking.Go(c.run)
	}
	c.mu.Unlock()
	select {
	case err := <-one.said:
		return err
	case <-ctx.Done(): // a client that goes away does not interrupt the question, which others share
		c.mu.Lock()
		c.waiting = slices.DeleteFunc(c.waiting, func(w *checked) bool { return w == one })
		c.mu.Unlock()
		return fmt.Errorf("whose the connection is was not found out: %w", ctx.Err())
	}
}

// next returns the connections of the next question. There are none if nobody waits; then the caller
// is counted no more.
func (c *checker) next() []*checked {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := min(len(c.waiting), mostTogether)
	if n == 0 || c.ctx.Err() != nil {
		c.questions--
		return nil
	}
	all := c.waiting[:n:n]
	c.waiting = slices.Clone(c.waiting[n:])
	return all
}

// run asks until nobody waits.
func (c *checker) run() {
	for all := c.next(); all != nil; all = c.next() {
		strangers := 0
		for i, err := range c.question(all) {
			if errors.Is(err, ErrStranger) {
				strangers++
			}
			all[i].said <- err
		}
		if strangers == len(all) {
			t := time.NewTimer(afterStrangers)
			select {
			case <-t.C:
			case <-c.ctx.Done():
				t.Stop()
			}
		}
	}
}

func (c *checker) question(all []*checked) []error {
	ctx, cancel := context.WithTimeout(c.ctx, c.patience)
	defer cancel()
	var from []string
	for _, one := range all {
		from = append(from, one.from)
	}
	errs := c.ask(ctx, from)
	for len(errs) < len(all) {
		errs = append(errs, errors.New("whose the connection is was not said: this is a bug in Fairlead"))
	}
	return errs[:len(all)]
}
