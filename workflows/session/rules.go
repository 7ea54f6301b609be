package session

import (
	"slices"
	"strings"

	"go.temporal.io/sdk/workflow"

	"fairlead.dev/fairlead/conversation"
	"fairlead.dev/fairlead/internal/protocol"
)

// The rules by which a session starts follow-ups are those of its seed, then its own. The seed's
// come with the result of PrepareSession, which reads the bundle of the held generation. Only
// sessions that no session began have them. So what a follow-up or a child begins is bounded,
// whatever seed it has.

// seedRules are the rules of the seed with which the host was prepared.
type seedRules struct {
	Seed  string              `json:"seed"`
	Rules []protocol.FollowUp `json:"rules"`
}

// takeRules takes the rules of the seed with which the host was prepared.
func (s *followsPart) takeRules(rules []protocol.FollowUp) {
	f, seed := &s.st.Follow, ""
	if s.st.Seed != nil {
		seed = s.st.Seed.Name
	}
	switch {
	case len(rules) == 0:
		f.Rules = nil
	case workflow.GetVersion(s.ctx, "follow-ups of seeds", workflow.DefaultVersion, 1) == workflow.DefaultVersion:
		return // an older worker took the first rules, and ignored them
	default:
		f.Rules = &seedRules{Seed: seed, Rules: rules}
	}
	all := s.rules()
	//workflowcheck:ignore // what is deleted does not depend on the order
	for name := range f.Counts {
		if !slices.ContainsFunc(all, func(r protocol.FollowUp) bool { return r.Name == name }) {
			delete(f.Counts, name)
		}
	}
	s.watchDue()
}

// watchDue starts what is due, once snapshots have it.
func (s *followsPart) watchDue() {
	if !s.watches && len(s.rules()) > 0 {
		s.watches = true
		workflow.Go(s.ctx, s.startWhenKept)
	}
}

// rules returns the rules that apply to the session.
func (s *core) rules() []protocol.FollowUp {
	if r := s.st.Follow.Rules; r != nil && s.noSeedRules() == "" {
		return protocol.JoinFollowUps(r.Rules, s.opt.FollowUps)
	}
	return s.opt.FollowUps
}

// noSeedRules says why the rules of the seed do not apply to the session; "" means that they do.
func (s *core) noSeedRules() string {
	if no := s.opt.noSeedRules(); no != "" {
		return no
	}
	if s.admission.Signed && s.st.Follow.Owner == "" {
		return "the session began when nobody had to sign, or under a release that did not keep whose rights count"
	}
	return ""
}

func (o Options) noSeedRules() string {
	switch {
	case strings.HasPrefix(o.Origin, protocol.SessionOrigins), strings.HasPrefix(o.Origin, protocol.ParentOrigins):
		return "another session began this one"
	case o.Snapshot.When == protocol.SnapshotOff:
		return "the session takes no snapshots"
	}
	return ""
}

// watched returns the files whose changes a rule waits for.
func (s *core) watched() (all []conversation.WatchedFiles) {
	for _, r := range s.rules() {
		if len(r.Files) > 0 {
			all = append(all, conversation.WatchedFiles{Name: r.Name, Patterns: r.Files})
		}
	}
	return all
}

func (s *followsPart) rule(name string) (protocol.FollowUp, bool) {
	all := s.rules()
	i := slices.IndexFunc(all, func(r protocol.FollowUp) bool { return r.Name == name })
	if i < 0 {
		return protocol.FollowUp{}, false
	}
	return all[i], true
}

// ruleViews shows the rules in their order, also those of the seed that do not apply.
func (s *core) ruleViews() []protocol.RuleView {
	of := s.st.Follow.Rules
	if of == nil {
		return s.opt.ruleViews("", nil, "")
	}
	//workflowcheck:ignore // a pure function
	return s.opt.ruleViews(of.Seed, protocol.ShowFollowUps(of.Rules), s.noSeedRules())
}

// RulesAtStart shows the rules of a session that begins with the newest generation of its seed.
func RulesAtStart(o Options, seed []protocol.SeedFollowUp) []protocol.RuleView {
	return o.ruleViews(o.Seed, seed, o.noSeedRules())
}

func (o Options) ruleViews(seed string, rules []protocol.SeedFollowUp, no string) (all []protocol.RuleView) {
	//workflowcheck:ignore // a pure function
	own := protocol.ShowFollowUps(o.FollowUps)
	for _, r := range rules {
		off := no
		if off == "" && slices.ContainsFunc(own, func(o protocol.SeedFollowUp) bool { return o.Name == r.Name }) {
			off = "the session has a rule of this name"
		}
		all = append(all, protocol.RuleView{SeedFollowUp: r, From: protocol.SeedID(seed), Off: off})
	}
	for _, r := range own {
		all = append(all, protocol.RuleView{SeedFollowUp: r, From: protocol.RuleOfSession})
	}
	return all
}
