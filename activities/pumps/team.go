package pumps

import (
	"context"
	"errors"
	"time"

	"fairlead.dev/fairlead/activities/internal/kit"
	"fairlead.dev/fairlead/activities/records"
	"fairlead.dev/fairlead/activities/site"
	"fairlead.dev/fairlead/conversation"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/internal/store"
	"fairlead.dev/fairlead/internal/teamtool"
)

// FillTeam reads the tools of the session's seed, and those of a team that it was given itself.
func FillTeam(ctx context.Context, s *site.Site, in *RunPumpInput) (err error) {
	begun := in.Pump.State.Opened == in.Pump.State.Cursor.Incarnation
	in.Pump.Thread.Team, err = site.SessionTools(ctx, s, in.Claim.Session, in.Seed, in.Team, begun)
	return err
}

// callTeam carries out a call of a team's tool, or returns what an earlier attempt
// recorded. Each attempt has the same id, so that the handler can tell it from another call.
// The handler may still work on the call of a pump that has ended.
func (t *ToolShop) callTeam(ctx context.Context, tool protocol.TeamTool, call conversation.ToolCall) (conversation.ToolReply, error) {
	id := teamtool.CallID(t.Session, call.TurnID, call.ID)
	done, err := records.ReadToolCall(ctx, t.Site.Store, t.Session, id)
	if err == nil {
		return conversation.ToolReply{Text: done.Text, OK: done.OK}, nil
	}
	if !errors.Is(err, store.ErrNotFound) {
		return conversation.ToolReply{}, err
	}
	reply, err := t.carryOut(ctx, tool, call, id)
	if err != nil {
		return conversation.ToolReply{}, err
	}
	done = records.ToolCall{ID: id, Tool: tool.Name, Turn: call.Turn, At: t.Site.Now().UTC(), Text: reply.Text, OK: reply.OK}
	kit.HideIn(t.Hide.All, &done)
	if done, err = records.KeepToolCall(ctx, t.Site.Store, t.Session, done); err != nil {
		return conversation.ToolReply{}, err
	}
	return conversation.ToolReply{Text: done.Text, OK: done.OK}, nil
}

// carryOut makes the call. Before, it records that the handler may get it: another pump then
// neither starts the timeout anew nor tells the model that nothing was done.
func (t *ToolShop) carryOut(ctx context.Context, tool protocol.TeamTool, call conversation.ToolCall, id string) (teamtool.Reply, error) {
	begun, again, err := records.BeginToolCall(ctx, t.Site.Store, t.Session, records.ToolCallBegun{ID: id, At: t.Site.Now().UTC()})
	if err != nil {
		return teamtool.Reply{}, err
	}
	c := teamtool.Call{
		ID: id, Session: t.Session, Turn: call.Turn, At: time.UnixMilli(call.AtMS), Args: call.Args,
		Begun: begun.At, Again: again,
	}
	if tool.Webhook == "" && tool.Activity == nil {
		return c.Fail("The tool %s cannot be called any more: its description is lost. Go on without it, and say so.", tool.Name), nil
	}
	if err := teamtool.CheckArgs(tool, call.Args); err != nil {
		return c.Fail("The tool %s was not called, because the arguments do not match its schema: %v. Call it again with other arguments.", tool.Name, err), nil
	}
	if tool.Activity != nil {
		return callActivity(ctx, t.Site, tool, c)
	}
	return t.Site.ToolCaller().Do(ctx, t.Site.ToolTargets, tool, c)
}
