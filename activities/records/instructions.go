package records

import (
	"context"
	"encoding/json"
	"fmt"

	"fairlead.dev/fairlead/activities/internal/kit"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/internal/store"
)

func instructionsKey(session string) string { return given + session }

// KeepInstructions stores the instructions that codex has on a session's present host.
func KeepInstructions(ctx context.Context, st *store.Store, in protocol.Instructions) error {
	data, err := json.Marshal(in)
	if err == nil {
		err = st.Put(ctx, instructionsKey(in.Session), data)
	}
	if err != nil {
		return fmt.Errorf("keep the instructions of session %s: %w", in.Session, err)
	}
	return nil
}

// ReadInstructions returns the instructions that were stored last. Its error wraps
// store.ErrNotFound if there are none, or if no host was prepared yet.
func ReadInstructions(ctx context.Context, st *store.Store, session string) (in protocol.Instructions, err error) {
	if err := kit.CheckID("session", session); err != nil {
		return in, err
	}
	data, err := st.Get(ctx, instructionsKey(session))
	if err == nil {
		err = json.Unmarshal(data, &in)
	}
	if err != nil {
		return in, fmt.Errorf("read the instructions of session %s: %w", session, err)
	}
	return in, nil
}
