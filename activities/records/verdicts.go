package records

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/internal/store"
)

// verdictsPrefix begins the keys of the verdicts on what a session delivered.
func verdictsPrefix(session string) string { return DeliverablesPrefix(session) + "verdicts/" }

// KeepVerdict writes the verdict on a deliverable. A call has one verdict, so a later one
// changes nothing.
func KeepVerdict(ctx context.Context, st *store.Store, session string, v protocol.FileVerdict) error {
	if !callPattern.MatchString(v.Call) {
		return fmt.Errorf("keep the verdict of %s: %q is no call of session %s", v.Approval, v.Call, session)
	}
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode the verdict of %s: %w", v.Approval, err)
	}
	err = st.Create(ctx, verdictsPrefix(session)+v.Call, data)
	if err != nil && !errors.Is(err, store.ErrExists) {
		return fmt.Errorf("keep the verdict of %s: %w", v.Approval, err)
	}
	return nil
}

// listVerdicts returns the verdicts by the calls of the deliverables.
func listVerdicts(ctx context.Context, st *store.Store, session string) (map[string]protocol.FileVerdict, error) {
	infos, err := st.List(ctx, verdictsPrefix(session))
	if err != nil {
		return nil, fmt.Errorf("list the verdicts of session %s: %w", session, err)
	}
	all := map[string]protocol.FileVerdict{}
	for _, info := range infos {
		data, err := st.Get(ctx, info.Key)
		if errors.Is(err, store.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read a verdict of session %s: %w", session, err)
		}
		var v protocol.FileVerdict
		if err := json.Unmarshal(data, &v); err != nil {
			return nil, fmt.Errorf("%s: %w", info.Key, err)
		}
		all[v.Call] = v
	}
	return all, nil
}
