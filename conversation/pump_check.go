package conversation

import (
	"errors"
	"fmt"
	"path"
	"slices"

	"fairlead.dev/fairlead/conversation/wire"
	"fairlead.dev/fairlead/internal/protocol"
)

// validate refuses an input that no pump can run from st.
func (in PumpInput) validate(st PumpState) error {
	switch {
	case in.Prefix == "":
		return fmt.Errorf("no prefix for the ids of requests")
	case st.Cursor.Incarnation < 1:
		return fmt.Errorf("incarnation %d is invalid: incarnations count from 1", st.Cursor.Incarnation)
	case st.Cursor.Offset < 0 || st.Rewind < 0:
		return fmt.Errorf("cursor %d, rewind %d: offsets are not negative", st.Cursor.Offset, st.Rewind)
	}
	if st.Opened != st.Cursor.Incarnation {
		t := in.Thread
		if !path.IsAbs(t.CWD) {
			return fmt.Errorf("the thread's cwd %q must be an absolute path, because codex does not resolve it", t.CWD)
		}
		if t.ApprovalPolicy == "" || t.Sandbox == "" && t.Permissions == "" {
			return fmt.Errorf("thread needs an approval policy, and a sandbox or a permission profile")
		}
	}
	ours := slices.DeleteFunc(slices.Clone(in.Thread.Tools), func(n string) bool { return slices.Contains(protocol.ChildTools, n) })
	if err := CheckTools(ours); err != nil {
		return err
	}
	if err := in.Tell.validate(); err != nil {
		return err
	}
	seen := map[string]bool{}
	if in.Tell != nil {
		seen[in.Tell.ID] = true
	}
	for _, s := range in.Sends {
		switch {
		case s.ID == "" || seen[s.ID]:
			return fmt.Errorf("send %q: ids are unique and not empty", s.ID)
		case s.Kind == SendDecision && !wire.ValidID(s.RPC):
			return fmt.Errorf("send %q: a decision names the request it answers", s.ID)
		case s.Kind != SendDecision && s.Kind != SendTurn && s.Kind != SendSteer && s.Kind != SendInterrupt:
			return fmt.Errorf("send %q: unknown kind %q", s.ID, s.Kind)
		}
		if err := s.checkInputs(); err != nil {
			return err
		}
		if err := errors.Join(checkAct(s.Do), s.Review.Check()); err != nil {
			return fmt.Errorf("send %q: %w", s.ID, err)
		}
		seen[s.ID] = true
	}
	return nil
}
