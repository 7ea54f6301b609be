package schedules

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"

	schedulepb "go.temporal.io/api/schedule/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/protobuf/proto"

	"fairlead.dev/fairlead/cmd/internal/flows"
	"fairlead.dev/fairlead/internal/errkind"
	"fairlead.dev/fairlead/internal/protocol"
)

// Made is a claim that Temporal keeps once the schedule of a keyed request was created, also after the
// schedule was deleted. request is the digest in its note.
func Made(doing, name, request string) (*flows.Keyed, error) {
	return step(doing, name, request, "made", "")
}

// Begun is a claim that Temporal keeps once a keyed request is about to change a schedule of a version.
func Begun(doing, name, request, version string) (*flows.Keyed, error) {
	return step(doing, name, request, "begun", version)
}

// Done is a claim that Temporal keeps once a keyed request has changed a schedule.
func Done(doing, name, request string) (*flows.Keyed, error) {
	return step(doing, name, request, "done", "")
}

// step claims a step of a request. The claims of different versions have the same key.
func step(doing, name, request, word, version string) (*flows.Keyed, error) {
	k, err := flows.RequestOf("schedule-"+word+"-"+request, "schedule-"+word, name, version)
	if err == nil {
		k.Doing, k.Called = doing, "of this request"
	}
	return k, err
}

// WasMade records that the schedule of a request was created.
func WasMade(ctx context.Context, t *flows.Conn, doing, name, request, zone string) error {
	k, err := Made(doing, name, request)
	if err != nil {
		return err
	}
	return k.Take(ctx, t, zone)
}

// A State is what a schedule is now. Temporal changes the version with each change and each pause.
type State struct {
	Version string
	Paused  bool

	read *workflowservice.DescribeScheduleResponse
}

// StateOf reads the state of a schedule.
func StateOf(ctx context.Context, t *flows.Conn, doing, name string) (State, error) {
	ctx, cancel := t.Bounded(ctx, flows.AnswerWait)
	defer cancel()
	d, err := t.WorkflowService().DescribeSchedule(ctx, &workflowservice.DescribeScheduleRequest{Namespace: t.Namespace, ScheduleId: protocol.ScheduleID(name)})
	if err != nil {
		return State{}, Explain(ctx, t, doing, err)
	}
	sum := sha256.Sum256(d.GetConflictToken())
	return State{Version: hex.EncodeToString(sum[:]), Paused: d.GetSchedule().GetState().GetPaused(), read: d}, nil
}

// turn pauses a schedule, or ends its pause, if it is still in the state s. Otherwise nothing changes,
// and the error may be nil: Temporal drops a change of an older version, and need not say so. So of
// several calls for one state at most one has an effect, however late one of them comes.
func (s State) turn(ctx context.Context, t *flows.Conn, doing, name string, paused bool, note string) error {
	sched, ok := proto.Clone(s.read.GetSchedule()).(*schedulepb.Schedule)
	if !ok || sched == nil {
		return errkind.Failed("%s: Temporal describes no schedule", doing)
	}
	if sched.State == nil {
		sched.State = &schedulepb.ScheduleState{}
	}
	sched.State.Paused, sched.State.Notes = paused, note
	ctx, cancel := t.Bounded(ctx, flows.AnswerWait)
	defer cancel()
	_, err := t.WorkflowService().UpdateSchedule(ctx, &workflowservice.UpdateScheduleRequest{Namespace: t.Namespace, ScheduleId: protocol.ScheduleID(name),
		Schedule: sched, ConflictToken: s.read.GetConflictToken(), RequestId: protocol.RandomID()})
	var older *serviceerror.FailedPrecondition
	if errors.As(err, &older) {
		return nil
	}
	return Explain(ctx, t, doing, err)
}
