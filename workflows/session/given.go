package session

import (
	"cmp"

	"fairlead.dev/fairlead/internal/protocol"
)

// checkGiven refuses instructions and tools that are not as ctl gives them.
func (o Options) checkGiven() error {
	return cmp.Or(o.Agents.Check("the instructions of the session", isMessage), o.Base.Check("base instructions", isMessage), o.TeamTools.Check(isMessage))
}

// givenBlobs returns the blobs of the texts that were given to the session.
func (o Options) givenBlobs() (all []string) {
	for _, key := range []string{o.Agents.BlobKey(), o.Base.BlobKey(), o.TeamTools.BlobKey()} {
		if key != "" {
			all = append(all, key)
		}
	}
	return all
}

func (o Options) givenView() *protocol.GivenView {
	if o.Agents == nil && o.Base == nil && o.TeamTools == nil {
		return nil
	}
	return &protocol.GivenView{Agents: o.Agents, Base: o.Base, Tools: o.TeamTools}
}

// baseInstructions returns the base instructions for a pump that opens the thread, or their
// blob.
func (s *processPart) baseInstructions() (text, blob string) {
	if s.opt.Base == nil || s.st.Pump.Opened == s.st.Incarnation {
		return "", ""
	}
	return s.opt.Base.Text, s.opt.Base.Blob
}
