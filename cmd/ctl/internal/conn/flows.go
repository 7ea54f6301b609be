package conn

import (
	"context"

	commonpb "go.temporal.io/api/common/v1"
	workflowpb "go.temporal.io/api/workflow/v1"

	"fairlead.dev/fairlead/cmd/ctl/internal/core"
	"fairlead.dev/fairlead/cmd/internal/flows"
	"fairlead.dev/fairlead/internal/payload"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/session"
)

// What ctl shares with the HTTP API, under the names that its commands use.

// AnswerWait bounds the wait for a worker's answer.
const AnswerWait = flows.AnswerWait

// The types of package flows.
type (
	Delivery = flows.Delivery
	Keyed    = flows.Keyed
	Silence  = flows.Silence
)

func KeptView(info *workflowpb.WorkflowExecutionInfo, codec *payload.Codec) protocol.SessionView {
	return flows.KeptView(info, codec)
}

func AsKnown(v protocol.SessionView) any { return flows.AsKnown(v) }
func StateWords() []string               { return flows.StateWords() }
func KnownState(word string) bool        { return flows.KnownState(word) }

func Attr[T any](attrs map[string]*commonpb.Payload, name string) T {
	return flows.Attr[T](attrs, name)
}

func TakesMore(doing string) func(protocol.SessionDetail) error { return flows.TakesMore(doing) }
func TurnRuns(doing string) func(protocol.SessionDetail) error  { return flows.TurnRuns(doing) }

func Decidable(doing string, d protocol.Decide) func(protocol.SessionDetail) error {
	return flows.Decidable(doing, d)
}

func HasEnded(s protocol.SessionStatus) bool                 { return flows.HasEnded(s) }
func RefuseEnded(doing string, v protocol.SessionView) error { return flows.RefuseEnded(doing, v) }
func EndText(v protocol.SessionView) string                  { return flows.EndText(v) }

func StillOpen(doing string, ap protocol.Approval, d protocol.Decide) error {
	return flows.StillOpen(doing, ap, d)
}

func Ours(doing string, ap protocol.Approval, d protocol.Decide) error {
	return flows.Ours(doing, ap, d)
}

func Pick(list []protocol.Approval, doing, id string) (protocol.Approval, error) {
	return flows.Pick(list, doing, id)
}

func FailureExit(doing string, f *protocol.Failure) *core.Error { return flows.FailureExit(doing, f) }
func NoInventory(err error) bool                                { return flows.NoInventory(err) }
func NoZone(zone string, err error) error                       { return flows.NoZone(zone, err) }
func FirstSentence(err error) string                            { return flows.FirstSentence(err) }
func OutOfTime(ctx context.Context, err error) bool             { return flows.OutOfTime(ctx, err) }
func Anybodys(opt session.Options) session.Options              { return flows.Anybodys(opt) }

// FindTurn returns the turn that a message began or steered.
func FindTurn(d protocol.SessionDetail, acc protocol.MessageAccepted) (protocol.TurnView, bool) {
	return flows.FindTurn(d, acc)
}

func OpenApprovals(d protocol.SessionDetail) []protocol.Approval { return flows.OpenApprovals(d) }
