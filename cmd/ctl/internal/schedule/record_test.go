package schedule

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	enums "go.temporal.io/api/enums/v1"
	taskqueuepb "go.temporal.io/api/taskqueue/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	temporalsdk "go.temporal.io/sdk/temporal"
	"google.golang.org/protobuf/types/known/timestamppb"

	"fairlead.dev/fairlead/cmd/ctl/internal/conn"
	"fairlead.dev/fairlead/cmd/ctl/internal/core"
	"fairlead.dev/fairlead/internal/api"
	"fairlead.dev/fairlead/internal/payload"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/schedule"
)

// A temporal keeps what is started, and has a worker if up.
type temporal struct {
	client.Client
	up      bool
	answer  error
	started []schedule.FireInput
	asked   int
}

func (s *temporal) ExecuteWorkflow(_ context.Context, o client.StartWorkflowOptions, kind any, args ...any) (client.WorkflowRun, error) {
	in, _ := args[0].(schedule.FireInput)
	if kind != protocol.TypeFire || !strings.HasPrefix(o.ID, "schedule/nightly/"+in.Act+"-") || o.TaskQueue != protocol.TaskQueueOf("berlin") {
		return nil, temporalsdk.NewApplicationError("unexpected start of "+o.ID, "")
	}
	s.started = append(s.started, in)
	return nil, nil
}

func (s *temporal) DescribeTaskQueue(context.Context, string, enums.TaskQueueType) (*workflowservice.DescribeTaskQueueResponse, error) {
	d := &workflowservice.DescribeTaskQueueResponse{}
	if s.up {
		d.Pollers = []*taskqueuepb.PollerInfo{{Identity: api.Identity{PID: 1, Name: "w@h", API: "unix:///x"}.String(), LastAccessTime: timestamppb.Now()}}
	}
	return d, nil
}

func (s *temporal) GetWorkflow(context.Context, string, string) client.WorkflowRun {
	s.asked++
	return judged{err: s.answer}
}

type judged struct {
	client.WorkflowRun
	err error
}

func (j judged) Get(context.Context, any) error { return j.err }

func TestAnActOnAScheduleIsOnRecordBeforeItIsDone(t *testing.T) {
	old := func(kind, message string) error {
		return temporalsdk.NewNonRetryableApplicationError(message, kind, nil)
	}
	forbidden := temporalsdk.NewNonRetryableApplicationError("Fire: no binding gives vera schedule.write", protocol.RefusedForbidden, nil)
	for what, c := range map[string]struct {
		s    temporal
		code int
		note string
	}{
		"a worker takes it":   {temporal{up: true}, 0, ""},
		"a worker refuses it": {temporal{up: true, answer: forbidden}, core.ExitRefused, ""},
		"no worker is up":     {temporal{answer: forbidden}, 0, "Temporal keeps the record"},
		"a worker of an older release takes it for a firing": {temporal{up: true, answer: old(protocol.RefusedBadInput,
			"fire schedule nightly: its name is invalid, or it does not give exactly one of session and batch")}, 0, "not on record"},
		"so does one that judges": {temporal{up: true, answer: old(protocol.RefusedForbidden,
			`Fire: it was signed for "schedule/nightly", and this is "schedule/nightly/pause-7f"`)}, 0, "not on record"},
		"a worker refuses other input": {temporal{up: true, answer: old(protocol.RefusedBadInput, "record pause of schedule nightly: about is too long")}, core.ExitUsage, ""},
		"a worker is too slow":         {temporal{up: true, answer: context.DeadlineExceeded}, 0, "Temporal keeps the record"},
	} {
		var said bytes.Buffer
		a := &core.App{Err: &said}
		tt := conn.With(a, &c.s, payload.NewCodec("default"))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		if c.s.answer == context.DeadlineExceeded {
			a.Flags.Timeout = time.Nanosecond
		}
		err := onRecord(ctx, tt, "pause schedule nightly", "nightly", "berlin", protocol.SchedulePause, "release week")
		cancel()
		if code := core.ExitCode(err); err == nil && c.code != 0 || err != nil && code != c.code {
			t.Errorf("%s: %v", what, err)
		}
		if len(c.s.started) != 1 || c.s.started[0].Act != "pause" || c.s.started[0].About != "release week" || (c.s.asked > 0) != c.s.up {
			t.Errorf("%s: it started %+v, and asked %d times", what, c.s.started, c.s.asked)
		}
		if !strings.Contains(said.String(), c.note) || (c.note == "") != (said.Len() == 0) {
			t.Errorf("%s: it said %q", what, &said)
		}
	}
}
