package session

import (
	"go.temporal.io/sdk/workflow"

	"fairlead.dev/fairlead/internal/protocol"
)

// How a session gets the credential of its seed is what the session says. If it does not say it,
// the seed's default counts, and then that of the organisation, which only workers know: the
// activity that prepares the host tells it. The choice stays for as long as the session has the
// seed, because codex has been set up for it.

// ChosenCredentials is what was chosen for a session that does not say it.
type ChosenCredentials struct {
	Way  string `json:"way"`
	By   string `json:"by"`
	Seed string `json:"seed"`
}

// chosenWay returns the choice for the present seed, or nil.
func (s *core) chosenWay() *ChosenCredentials {
	if c := s.st.ByDefault; s.opt.Credentials == "" && c != nil && s.st.Seed != nil && c.Seed == s.st.Seed.Name {
		return c
	}
	return nil
}

// credentials returns how the session gets the credential of its seed; empty means planted, or
// not known yet.
func (s *core) credentials() string {
	if c := s.chosenWay(); c != nil {
		return c.Way
	}
	return s.opt.Credentials
}

// unsaid reports whether neither the session nor its seed says it, so that the organisation's
// default counts. A thread goes on as it was begun, until the session gets another seed.
func (s *core) unsaid() bool {
	return s.opt.Credentials == "" && s.st.Seed != nil && s.chosenWay() == nil && s.st.SeedWay == "" && (s.st.ByDefault != nil || !s.st.hadTurn())
}

// chooseBySeed applies the seed's default before the host is prepared.
func (s *placePart) chooseBySeed() {
	way := s.st.SeedWay
	if s.opt.Credentials != "" || s.st.Seed == nil || way == "" || s.chosenWay() != nil || s.st.ByDefault == nil && s.st.hadTurn() {
		return
	}
	if workflow.GetVersion(s.ctx, "defaults of credentials", workflow.DefaultVersion, 1) == workflow.DefaultVersion {
		return // an older worker prepared a host, and planted
	}
	if way == protocol.CredentialsGateway && s.st.Lease.Spec.Name == protocol.LocalHost {
		s.choose(protocol.CredentialsPlanted, protocol.ByLocalHost)
		return
	}
	s.choose(way, protocol.BySeed)
}

func (s *placePart) choose(way, by string) {
	s.st.ByDefault = &ChosenCredentials{Way: way, By: by, Seed: s.st.Seed.Name}
}

// credentialWords are the words of a view: the way, and whose default it is. The way is empty if
// nobody asked for one.
func (s *core) credentialWords() (way, by string) {
	if c := s.chosenWay(); c != nil {
		return c.Way, c.By
	}
	return s.opt.Credentials, ""
}
