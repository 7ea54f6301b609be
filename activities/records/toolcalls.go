package records

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"fairlead.dev/fairlead/internal/store"
)

// A ToolCall is the outcome of a call of a team's tool, the same for each repeat.
type ToolCall struct {
	ID   string    `json:"id"`
	Tool string    `json:"tool"`
	Turn int       `json:"turn"`
	At   time.Time `json:"at"`
	Text string    `json:"text"`
	OK   bool      `json:"ok"`
}

func toolCallKey(session, id string) string { return "toolcalls/" + session + "/" + id }

// ReadToolCall returns the outcome of a call; the error wraps store.ErrNotFound if it has
// none yet.
func ReadToolCall(ctx context.Context, st *store.Store, session, id string) (c ToolCall, err error) {
	data, err := st.Get(ctx, toolCallKey(session, id))
	if err == nil {
		err = json.Unmarshal(data, &c)
	}
	if err != nil {
		return c, fmt.Errorf("read the outcome of tool call %s: %w", id, err)
	}
	return c, nil
}

// KeepToolCall records an outcome, and returns the one that counts: the first.
func KeepToolCall(ctx context.Context, st *store.Store, session string, c ToolCall) (ToolCall, error) {
	data, err := json.Marshal(c)
	if err == nil {
		err = st.Create(ctx, toolCallKey(session, c.ID), data)
	}
	switch {
	case errors.Is(err, store.ErrExists): // by another attempt
		return ReadToolCall(ctx, st, session, c.ID)
	case err != nil:
		return c, fmt.Errorf("keep the outcome of tool call %s: %w", c.ID, err)
	}
	return c, nil
}
