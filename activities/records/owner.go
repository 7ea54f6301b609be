package records

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/internal/store"
)

// ownerKey is the key of who may start a session of an id again, and whose the data are
// that the store has under that id. It is never changed or deleted.
func ownerKey(session string) string { return "owners/" + session }

// OwnerOf returns who first started a session of this id where authority is required.
func OwnerOf(ctx context.Context, st *store.Store, session string) (o protocol.SessionOwner, known bool, err error) {
	raw, err := st.Get(ctx, ownerKey(session))
	switch {
	case errors.Is(err, store.ErrNotFound):
		return o, false, nil
	case err != nil:
		return o, false, fmt.Errorf("read the owner of session %s: %w", session, err)
	}
	if err := json.Unmarshal(raw, &o); err != nil {
		return o, false, fmt.Errorf("read the owner of session %s: %w", session, err)
	}
	return o, true, nil
}

// Own writes the owner of a session's id, unless it has one. It returns why the id is not
// the owner's, or "".
func Own(ctx context.Context, st *store.Store, o protocol.SessionOwner) (refused string, err error) {
	had, known, err := OwnerOf(ctx, st, o.Session)
	if err != nil {
		return "", err
	}
	if !known {
		before, err := ListSegments(ctx, st, o.Session)
		switch {
		case err != nil:
			return "", err
		case len(before) > 0:
			return "the store has data of an earlier session of this id, and it is not on record whose they are: take another id", nil
		}
		raw, err := json.Marshal(o)
		if err != nil {
			return "", err
		}
		switch err := st.Create(ctx, ownerKey(o.Session), raw); {
		case err == nil:
			return "", nil
		case !errors.Is(err, store.ErrExists):
			return "", fmt.Errorf("store the owner of session %s: %w", o.Session, err)
		}
		if had, _, err = OwnerOf(ctx, st, o.Session); err != nil {
			return "", err
		}
	}
	switch {
	case had.Owner != o.Owner:
		return "the store has data of an earlier session of this id, which somebody else started: take another id", nil
	case had.Tenant != o.Tenant:
		return "the store has data of an earlier session of this id, which was of another tenant: take another id", nil
	}
	return "", nil
}
