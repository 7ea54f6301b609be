package records

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"fairlead.dev/fairlead/internal/store"
)

// An ExecPlace is the host of a command, whose output the store has under the command's id.
type ExecPlace struct {
	Host string `json:"host"`
	// Labels are those of the host when the command began; nil if they are not known.
	Labels map[string]string `json:"labels"`
}

func execPlaceKey(id string) string { return execPrefix(id) + "place" }

// ExecPlaceOf returns where a command ran. Commands that began before v0.2 have no place.
func ExecPlaceOf(ctx context.Context, st *store.Store, id string) (p ExecPlace, known bool, err error) {
	raw, err := st.Get(ctx, execPlaceKey(id))
	switch {
	case errors.Is(err, store.ErrNotFound):
		return p, false, nil
	case err != nil:
		return p, false, fmt.Errorf("read where command %s runs: %w", id, err)
	}
	if err := json.Unmarshal(raw, &p); err != nil {
		return p, false, fmt.Errorf("read where command %s runs: %w", id, err)
	}
	return p, true, nil
}

// PlaceExec records where a command runs, before it begins. It returns where the command of
// this id runs already, if that is another host.
func PlaceExec(ctx context.Context, st *store.Store, id string, p ExecPlace) (other string, err error) {
	raw, err := json.Marshal(p)
	if err != nil {
		return "", err
	}
	err = st.Create(ctx, execPlaceKey(id), raw)
	if !errors.Is(err, store.ErrExists) {
		if err != nil {
			err = fmt.Errorf("store where command %s runs: %w", id, err)
		}
		return "", err
	}
	had, _, err := ExecPlaceOf(ctx, st, id)
	if err != nil || had.Host == p.Host {
		return "", err
	}
	return had.Host, nil
}
