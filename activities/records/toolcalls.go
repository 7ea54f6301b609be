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

const (
	toolCalls = "toolcalls/"
	given     = "instructions/"
)

// OwnFamilies are the prefixes, before the session's id, of the keys of records that only their
// session reads. Nobody needs these records once Temporal has forgotten the session.
var OwnFamilies = []string{toolCalls, given, modelBodies}

func toolCallKey(session, id string) string { return toolCalls + session + "/" + id }

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

// A ToolCallBegun is written before a call is sent to its handler for the first time.
type ToolCallBegun struct {
	ID string    `json:"id"`
	At time.Time `json:"at"`
}

// BeginToolCall records that a call begins, and returns the first such record. again says
// that another attempt wrote it, so that the handler may have got the call.
func BeginToolCall(ctx context.Context, st *store.Store, session string, b ToolCallBegun) (first ToolCallBegun, again bool, err error) {
	key := toolCallKey(session, b.ID) + ".begun"
	data, err := json.Marshal(b)
	if err == nil {
		err = st.Create(ctx, key, data)
	}
	if again = errors.Is(err, store.ErrExists); again {
		if data, err = st.Get(ctx, key); err == nil {
			err = json.Unmarshal(data, &first)
		}
	} else {
		first = b
	}
	if err != nil {
		return first, again, fmt.Errorf("record the beginning of tool call %s: %w", b.ID, err)
	}
	return first, again, nil
}
