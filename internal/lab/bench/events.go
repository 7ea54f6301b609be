package main

import (
	"context"
	"fmt"

	enums "go.temporal.io/api/enums/v1"

	"fairlead.dev/fairlead/internal/lab"
	"fairlead.dev/fairlead/internal/protocol"
)

// events counts what a plain turn and one approval add to a session's history.
func (b *setup) events(ctx context.Context) error {
	l := b.lab
	fmt.Println("  goals: plain turn ≤ 14, an approval ≤ 15 more")
	if _, err := l.Out(ctx, "session", "start", "--host", "web-1", "--seed", "bench", "--id", "events"); err != nil {
		return err
	}
	if _, err := l.Out(ctx, "-q", "session", "send", "events", "the first turn opens the thread"); err != nil {
		return err
	}
	before, err := b.history(ctx)
	if err != nil {
		return err
	}
	if _, err := l.Out(ctx, "-q", "session", "send", "events", "a plain turn"); err != nil {
		return err
	}
	plain, err := b.history(ctx)
	if err != nil {
		return err
	}
	if _, err := l.Out(ctx, "session", "send", "events", "--no-wait", "one with an approval"); err != nil {
		return err
	}
	err = lab.Until(ctx, "the approval", func() (bool, error) {
		list, err := lab.Lines[protocol.Approval](ctx, l, "approval", "list", "--session", "events")
		return len(list) == 1, err
	})
	if err != nil {
		return err
	}
	if _, err := l.Out(ctx, "approval", "accept", "events.1"); err != nil {
		return err
	}
	err = lab.Until(ctx, "the turn's end", func() (bool, error) {
		var v protocol.SessionView
		err := l.JSON(ctx, &v, "session", "show", "events")
		return v.State == protocol.Idle && v.Turn.N == 3, err
	})
	if err != nil {
		return err
	}
	with, err := b.history(ctx)
	if err != nil {
		return err
	}
	fmt.Printf("  plain turn     %d events\n  an approval    %d more\n", plain-before, (with-plain)-(plain-before))
	_, err = l.Out(ctx, "session", "close", "events")
	return err
}

func (b *setup) history(ctx context.Context) (int, error) {
	c, err := b.lab.Temporal(ctx)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	n := 0
	it := c.GetWorkflowHistory(ctx, protocol.SessionID("events"), "", false, enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for it.HasNext() {
		if _, err := it.Next(); err != nil {
			return 0, err
		}
		n++
	}
	return n, nil
}
