package site

import (
	"context"
	"fmt"
	"slices"

	"fairlead.dev/fairlead/activities/internal/kit"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/internal/teamtool"
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

// CheckTools refuses tools whose handlers the worker's config does not allow.
func CheckTools(ctx context.Context, s *Site, g *protocol.ToolsGiven) error {
	tools, err := ReadTools(ctx, s, g)
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
		if err != nil {
			return &kit.TypedError{Kind: protocol.ErrTypeBounds, Hint: "ask those who run the workers to add it to " + where + " of their config, or leave the tool out; nothing was done on the host",
				Err: fmt.Errorf("tool %s: %w", t.Name, err)}
		}
	}
	return nil
}

// ToolCaller calls webhooks.
func (s *Site) ToolCaller() *teamtool.Caller {
	s.toolOnce.Do(func() { s.toolCaller = teamtool.NewCaller(s.Now) })
	return s.toolCaller
}
