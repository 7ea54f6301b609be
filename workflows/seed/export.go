package seed

import (
	"fmt"
	"strings"

	"go.temporal.io/sdk/workflow"

	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/internal/kit"
)

func (s *savingPart) checkExport(in protocol.ExportSeed) error {
	switch {
	case !strings.HasPrefix(in.Recipient, "age1") || len(in.Recipient) > 4096:
		return kit.Refuse(protocol.RefusedBadInput, "seed %s is exported for an age recipient only (age1…)", s.name)
	case s.st.Ref == nil || s.st.Deleted:
		return kit.Refuse(protocol.RefusedNotFound, "there is no seed %q", s.name)
	case s.exclusive() && len(s.st.Leases) > 0:
		// The holder may have a newer login than the store.
		return kit.Refuse(protocol.RefusedState, "seed %s is a login that rotates and is held by %s: a second holder would burn it", s.name, s.st.Leases[0].Holder)
	case s.exclusive() && s.st.Rotated != nil:
		return kit.Refuse(protocol.RefusedState, "seed %s: %s", s.name, s.st.Rotated.notSaved())
	}
	return nil
}

// export hands out a seed. Who uses an exported login is unknown, so a login that rotates
// is granted to nobody until a person says so.
func (s *savingPart) export(in protocol.ExportSeed) protocol.SeedView {
	s.st.Exported = &protocol.SeedExport{ExportSeed: in, At: workflow.Now(s.ctx), Generation: s.st.Ref.Generation}
	if s.exclusive() {
		s.burnt(fmt.Sprintf("%s exported it for %s: whoever uses the login there burns it here", in.By, in.Recipient),
			fmt.Sprintf("`ctl seed delete %s` if it is used there from now on; `ctl seed revive %s` if it was a copy that nobody uses", s.name, s.name))
	}
	return s.view()
}
