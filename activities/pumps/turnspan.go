package pumps

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"fairlead.dev/fairlead/conversation"
)

// traceTurn makes a span of a turn that has ended, if ctx is traced. Its times are those of
// codex's host. It has counts and words of ours, and nothing that a person or the agent wrote.
func traceTurn(ctx context.Context, session string, end *conversation.TurnEnd) {
	parent := trace.SpanFromContext(ctx)
	if end == nil || end.StartedAtMS <= 0 || !parent.IsRecording() {
		return
	}
	_, span := parent.TracerProvider().Tracer("fairlead.dev/fairlead").Start(ctx, "Turn:codex", trace.WithTimestamp(time.UnixMilli(end.StartedAtMS)), trace.WithAttributes(
		attribute.String("fairlead.session", session), attribute.Int("fairlead.turn", end.N), attribute.String("fairlead.turn.status", end.Status),
		attribute.Int("fairlead.turn.items", end.Items), attribute.Int("fairlead.turn.tools", end.Tools),
		attribute.Int64("fairlead.tokens.input", int64(end.Usage.Input)), attribute.Int64("fairlead.tokens.output", int64(end.Usage.Output))))
	if end.Problem != nil {
		span.SetAttributes(attribute.String("fairlead.problem", end.Problem.Kind))
		span.SetStatus(codes.Error, "")
	}
	span.End(trace.WithTimestamp(time.UnixMilli(max(end.EndedAtMS, end.StartedAtMS))))
}
