package site

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"fairlead.dev/fairlead/activities/internal/kit"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/internal/teamtool"
	"fairlead.dev/fairlead/seeds"
)

// ReadTools returns the tools of a team that were given to a session; nil are none.
func ReadTools(ctx context.Context, s *Site, g *protocol.ToolsGiven) ([]protocol.TeamTool, error) {
	if g == nil {
		return nil, nil
	}
	text, err := ReadGiven(ctx, s, &g.GivenText, "the tools of the session")
	if err != nil {
		return nil, err
	}
	tools, err := teamtool.Read(text)
	if err == nil && !slices.Equal(protocol.OfActivities(tools), g.Activities) {
		err = fmt.Errorf("activities names %q, and the handlers of %q are activities", g.Activities, protocol.OfActivities(tools))
	}
	if err != nil {
		return nil, kit.BadInput("the tools of the session: %w", err)
	}
	return tools, nil
}

// ToolsOfSeed returns the tools that a generation of a seed gives to its sessions. ref may be
// nil.
func ToolsOfSeed(ctx context.Context, s *Site, ref *protocol.SeedRef) ([]protocol.TeamTool, error) {
	if ref == nil {
		return nil, nil
	}
	if tools, known := s.seedTools.find(ref.Blob); known {
		return tools, nil
	}
	bundle, err := s.Bundle(ctx, ref)
	if err != nil {
		return nil, err
	}
	tools, err := toolsIn(bundle)
	if err != nil {
		return nil, &kit.TypedError{Kind: protocol.ErrTypeBadInput, Hint: fmt.Sprintf("mend tools in the settings file, and import it again: `ctl seed import %s … --settings FILE`", ref.Name),
			Err: fmt.Errorf("the tools of seed %s: %w", ref.Name, err)}
	}
	s.seedTools.keep(ref.Blob, tools)
	return tools, nil
}

func toolsIn(bundle *seeds.Bundle) ([]protocol.TeamTool, error) {
	file, err := bundle.Tools()
	if err != nil {
		return nil, err
	}
	return teamtool.OfSeed(file)
}

// seedTools remembers the tools of generations of seeds, whose bundles never change. Otherwise
// each pump would read a bundle.
type seedTools struct {
	mu sync.Mutex
	of map[string][]protocol.TeamTool // by blob
}

// mostSeedTools bounds the generations whose tools are remembered.
const mostSeedTools = 500

func (m *seedTools) find(blob string) ([]protocol.TeamTool, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	tools, known := m.of[blob]
	return tools, known
}

func (m *seedTools) keep(blob string, tools []protocol.TeamTool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.of == nil || len(m.of) >= mostSeedTools {
		m.of = map[string][]protocol.TeamTool{}
	}
	m.of[blob] = tools
}

// SessionTools returns the tools of a session: those of its seed, then its own. If begun is set,
// the thread has the tools already. Tools that cannot be read then keep their names, as far as
// these are known, and the model learns that they cannot be called.
func SessionTools(ctx context.Context, s *Site, session string, ref *protocol.SeedRef, g *protocol.ToolsGiven, begun bool) ([]protocol.TeamTool, error) {
	lost := func(err error) bool {
		var typed *kit.TypedError
		if begun && errors.As(err, &typed) && !typed.Retry {
			s.Logger.Error("the tools of a session cannot be read", "session", session, "error", err)
			return true
		}
		return false
	}
	ofSeed, err := ToolsOfSeed(ctx, s, ref)
	if err != nil && !lost(err) {
		return nil, err
	}
	own, err := ReadTools(ctx, s, g)
	if lost(err) {
		for _, name := range g.Names {
			own = append(own, protocol.TeamTool{Name: name})
		}
	} else if err != nil {
		return nil, err
	}
	return teamtool.Join(ofSeed, own), nil
}

// CheckTools refuses tools of a session or its seed whose handlers the worker's config does not
// allow.
func CheckTools(ctx context.Context, s *Site, session string, ref *protocol.SeedRef, g *protocol.ToolsGiven) error {
	tools, err := SessionTools(ctx, s, session, ref, g, false)
	if err != nil {
		return err
	}
	for _, t := range tools {
		where := "tools.webhooks"
		if t.Activity != nil {
			where = "tools.activities"
			_, err = teamtool.FindActivity(s.ToolActivities, *t.Activity)
		} else {
			_, err = teamtool.Find(s.ToolTargets, t.Webhook)
		}
		if err == nil {
			continue
		}
		what, leave := "tool "+t.Name, "leave the tool out"
		if g == nil || !slices.Contains(g.Names, t.Name) {
			what, leave = what+" of seed "+ref.Name, "import the seed without the tool"
		}
		return &kit.TypedError{Kind: protocol.ErrTypeBounds, Hint: "ask those who run the workers to add it to " + where + " of their config, or " + leave + "; nothing was done on the host",
			Err: fmt.Errorf("%s: %w", what, err)}
	}
	return nil
}

// ToolCaller calls webhooks.
func (s *Site) ToolCaller() *teamtool.Caller {
	s.toolOnce.Do(func() { s.toolCaller = teamtool.NewCaller(s.Now) })
	return s.toolCaller
}
