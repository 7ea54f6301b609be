package hostexec

import (
	"context"
	"errors"
	"testing"
)

func TestAttachmentsToAHostAreMadeAFewAtATime(t *testing.T) {
	g := newGate()
	var leave func()
	for range attachesAtOnce {
		var err error
		if leave, err = g.EnterAttach(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	why := errors.New("called back")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	if _, err := g.EnterAttach(ctx); !errors.Is(err, ErrUnreachable) || !errors.Is(err, why) {
		t.Errorf("one more got in, or not for the reason: %v", err)
	}
	leave()
	if _, err := g.EnterAttach(t.Context()); err != nil {
		t.Errorf("a place that was given back is not to be had: %v", err)
	}
}
