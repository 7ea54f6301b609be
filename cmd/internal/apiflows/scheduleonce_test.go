package apiflows

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/testsuite"
	"google.golang.org/grpc"

	"fairlead.dev/fairlead/hostexec/hosttest"
	"fairlead.dev/fairlead/internal/errkind"
	"fairlead.dev/fairlead/internal/payload"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/internal/realparts"
)

var errKilled = errors.New("the process was killed")

// dyingClient is a connection of a process that stops at a change of a schedule: before is called
// in front of it, after behind it. An error of either ends the call.
type dyingClient struct {
	client.Client
	before, after func() error
}

func (c dyingClient) WorkflowService() workflowservice.WorkflowServiceClient {
	return dyingService{c.Client.WorkflowService(), c}
}

type dyingService struct {
	workflowservice.WorkflowServiceClient
	c dyingClient
}

func (s dyingService) UpdateSchedule(ctx context.Context, in *workflowservice.UpdateScheduleRequest, opts ...grpc.CallOption) (*workflowservice.UpdateScheduleResponse, error) {
	if s.c.before != nil {
		if err := s.c.before(); err != nil {
			return nil, err
		}
	}
	out, err := s.WorkflowServiceClient.UpdateSchedule(ctx, in, opts...)
	if err == nil && s.c.after != nil {
		err = s.c.after()
	}
	return out, err
}

// scheduled is a Temporal server with a schedule.
type scheduled struct {
	t    *testing.T
	c    client.Client
	name string
}

func newScheduled(t *testing.T) *scheduled {
	t.Helper()
	// Keep the port until the process ends, so that no server of other tests takes it.
	port, err := hosttest.TakePort()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := port.Release(); err != nil {
			t.Error(err)
		}
	})
	server, err := testsuite.StartDevServer(t.Context(), testsuite.DevServerOptions{ExistingPath: realparts.DevServer(t), LogLevel: "error", Stdout: io.Discard, Stderr: io.Discard,
		ClientOptions: &client.Options{HostPort: fmt.Sprintf("127.0.0.1:%d", port.Number), Logger: slog.New(slog.DiscardHandler)}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Stop(); err != nil {
			t.Error(err)
		}
	})
	return &scheduled{t: t, c: server.Client()}
}

// schedule creates another schedule, which begins nothing.
func (s *scheduled) schedule(name string) {
	s.t.Helper()
	s.name = name
	_, err := s.c.ScheduleClient().Create(s.t.Context(), client.ScheduleOptions{ID: protocol.ScheduleID(name), Spec: client.ScheduleSpec{Intervals: []client.ScheduleIntervalSpec{{Every: 1000 * time.Hour}}},
		Action: &client.ScheduleWorkflowAction{ID: name, Workflow: "nothing", TaskQueue: "nobody", Args: []any{"kept as it is"}}})
	if err != nil {
		s.t.Fatal(err)
	}
}

// by is a process of the API with a connection.
func (s *scheduled) by(c client.Client) *Backend {
	b := New(Options{Owner: "ann", Zone: "default", Logger: slog.New(slog.DiscardHandler)})
	b.Connect(c, payload.NewCodec("default"), "", "default")
	return b
}

// turns pauses the schedule, or ends its pause. Keys are those of the schedule.
func (s *scheduled) turns(b *Backend, key string, paused bool) error {
	if key != "" {
		key = s.name + "-" + key
	}
	if paused {
		return b.PauseSchedule(s.t.Context(), key, s.name, "")
	}
	return b.ResumeSchedule(s.t.Context(), key, s.name)
}

func (s *scheduled) state() *client.ScheduleState {
	s.t.Helper()
	d, err := s.c.ScheduleClient().GetHandle(s.t.Context(), protocol.ScheduleID(s.name)).Describe(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	return d.Schedule.State
}

func (s *scheduled) is(paused bool) {
	s.t.Helper()
	d, err := s.c.ScheduleClient().GetHandle(s.t.Context(), protocol.ScheduleID(s.name)).Describe(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	if d.Schedule.State.Paused != paused {
		s.t.Errorf("schedule %s: paused is %v", s.name, d.Schedule.State.Paused)
	}
	if a, ok := d.Schedule.Action.(*client.ScheduleWorkflowAction); !ok || a.Workflow != "nothing" || len(a.Args) != 1 {
		s.t.Errorf("schedule %s has the action %+v", s.name, d.Schedule.Action)
	}
}

// A call that dies between its two claims, before or after it has acted, is completed by its
// repetition, which acts once. A call that comes to act after its repetition has acted changes
// nothing of what others did since.
func TestARequestThatTurnsAScheduleActsOnceThoughItsCallsDieOrComeLate(t *testing.T) {
	s := newScheduled(t)
	for _, paused := range []bool{true, false} {
		what := map[bool]string{true: "pause", false: "resume"}[paused]
		begin := func(name string) {
			s.schedule(name)
			if !paused {
				if err := s.turns(s.by(s.c), "", true); err != nil {
					t.Fatal(err)
				}
			}
		}
		t.Run(what+" dies before it acts", func(t *testing.T) {
			begin(what + "-before")
			if err := s.turns(s.by(dyingClient{s.c, func() error { return errKilled }, nil}), "k", paused); err == nil {
				t.Fatal("it did not die")
			}
			s.is(!paused)
			for range 2 {
				if err := s.turns(s.by(s.c), "k", paused); err != nil {
					t.Errorf("repeated: %v", err)
				}
				s.is(paused)
			}
			if err := s.turns(s.by(s.c), "other", !paused); err != nil {
				t.Error(err)
			}
			if err := s.turns(s.by(s.c), "k", paused); err != nil {
				t.Errorf("repeated late: %v", err)
			}
			s.is(!paused)
		})
		t.Run(what+" dies after it has acted", func(t *testing.T) {
			begin(what + "-after")
			if err := s.turns(s.by(dyingClient{s.c, nil, func() error { return errKilled }}), "k", paused); err == nil {
				t.Fatal("it did not die")
			}
			if err := s.turns(s.by(s.c), "k", paused); err != nil {
				t.Errorf("repeated: %v", err)
			}
			s.is(paused)
		})
		t.Run(what+" dies, and others change the schedule", func(t *testing.T) {
			begin(what + "-others")
			if err := s.turns(s.by(dyingClient{s.c, nil, func() error { return errKilled }}), "k", paused); err == nil {
				t.Fatal("it did not die")
			}
			for d := s.state(); d.Paused != paused; d = s.state() { // Temporal answers before it has changed the schedule
				if t.Context().Err() != nil {
					t.Fatal("Temporal did not change the schedule")
				}
			}
			if err := s.turns(s.by(s.c), "other", !paused); err != nil {
				t.Fatal(err)
			}
			var refused *errkind.Error
			if err := s.turns(s.by(s.c), "k", paused); !errors.As(err, &refused) || !strings.Contains(err.Error(), "not known whether that request was carried out") {
				t.Errorf("repeated: %v", err)
			}
			s.is(!paused)
		})
		t.Run(what+" comes late", func(t *testing.T) {
			begin(what + "-late")
			held, release, late := make(chan struct{}), make(chan struct{}), make(chan error, 1)
			go func() {
				late <- s.turns(s.by(dyingClient{s.c, func() error { close(held); <-release; return nil }, nil}), "k", paused)
			}()
			select {
			case <-held:
			case err := <-late:
				t.Fatalf("it ended before it acted: %v", err)
			}
			if err := s.turns(s.by(s.c), "k", paused); err != nil {
				t.Errorf("repeated: %v", err)
			}
			s.is(paused)
			if err := s.turns(s.by(s.c), "other", !paused); err != nil {
				t.Error(err)
			}
			close(release)
			if err := <-late; err != nil {
				t.Errorf("the late call: %v", err)
			}
			s.is(!paused)
		})
	}
}
