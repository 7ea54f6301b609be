package authority

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	enums "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
	"golang.org/x/crypto/ssh"

	"fairlead.dev/fairlead/internal/access"
	"fairlead.dev/fairlead/internal/audit"
	"fairlead.dev/fairlead/internal/command"
	"fairlead.dev/fairlead/internal/payload"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/internal/realparts"
)

// A stage has a server, a worker that requires authority, and a thief: a client with what a
// ctl has, which is the payload key and access to Temporal.
type stage struct {
	t         *testing.T
	ctx       context.Context
	at        string
	key       payload.Key
	workers   payload.Workers
	keeper    *Keeper
	ann       ssh.Signer
	ours      client.Client
	thief     client.Client
	did, exec atomic.Int32
	claims    sync.Map // nonce of a signed start → run

	mu      sync.Mutex
	refused []audit.Record
	records []string // audit records of workflows
}

// onRecord returns the records of what our workers refused on an object.
func (s *stage) onRecord(object string) (out []audit.Record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.refused {
		if r.Object == object {
			out = append(out, r)
		}
	}
	return out
}

func payloadKey(t *testing.T) payload.Key {
	t.Helper()
	k, err := payload.GenerateKey(filepath.Join(t.TempDir(), "key"))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func newStage(t *testing.T) *stage {
	t.Helper()
	quiet := log.NewStructuredLogger(slog.New(slog.DiscardHandler))
	server, err := testsuite.StartDevServer(t.Context(), testsuite.DevServerOptions{
		ExistingPath: realparts.DevServer(t), Stdout: io.Discard, Stderr: io.Discard, ClientOptions: &client.Options{Logger: quiet},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Stop(); err != nil {
			t.Error(err)
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
	t.Cleanup(cancel)
	s := &stage{t: t, ctx: ctx, at: server.FrontendHostPort(), key: payloadKey(t)}
	s.workers = payload.Workers{Keys: []payload.Key{payloadKey(t)}, Required: true, Internal: IsInternal}
	_, secret, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	if s.ann, err = ssh.NewSignerFromKey(secret); err != nil {
		t.Fatal(err)
	}
	a, err := access.Parse(fmt.Appendf(nil, "people:\n  - {name: ann, keys: [%q]}\nbindings:\n  - {name: all, roles: [admin], to: [ann]}\n",
		strings.TrimSpace(string(ssh.MarshalAuthorizedKey(s.ann.PublicKey())))))
	if err != nil {
		t.Fatal(err)
	}
	s.keeper = Fixed(a, time.Now)
	s.ours, s.thief = s.dial(s.codec()), s.dial(payload.NewCodec("default", s.key))
	return s
}

func (s *stage) codec() *payload.Codec {
	return payload.NewCodec("default", s.key).ForWorkers(s.workers)
}

func (s *stage) dial(c *payload.Codec) client.Client {
	s.t.Helper()
	opts := client.Options{HostPort: s.at, Logger: log.NewStructuredLogger(slog.New(slog.DiscardHandler))}
	c.Use(&opts)
	cl, err := client.DialContext(s.ctx, opts)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(cl.Close)
	return cl
}

// plain sends payloads as they are given.
func (s *stage) plain() client.Client {
	s.t.Helper()
	c, err := client.DialContext(s.ctx, client.Options{HostPort: s.at, Logger: log.NewStructuredLogger(slog.New(slog.DiscardHandler))})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(c.Close)
	return c
}

// listens counts what reaches it, until it is told to end.
func listens(ctx workflow.Context, in protocol.ScanHostKeysInput) (string, error) {
	heard := map[string]int{}
	if err := workflow.SetQueryHandler(ctx, "heard", func() (map[string]int, error) { return heard, nil }); err != nil {
		return "", err
	}
	for _, name := range []string{protocol.UpdateSaveSeed, protocol.UpdateReviveSeed} {
		if err := workflow.SetUpdateHandler(ctx, name, func(_ workflow.Context, in protocol.ReviveSeed) (string, error) {
			heard[name+" of "+in.By]++
			return "saved", nil
		}); err != nil {
			return "", err
		}
	}
	sel := workflow.NewSelector(ctx)
	sel.AddReceive(workflow.GetSignalChannel(ctx, protocol.SignalClose), func(c workflow.ReceiveChannel, _ bool) {
		var raw converter.RawValue
		c.Receive(ctx, &raw)
		heard[fmt.Sprintf("close by a worker: %v", ByWorker(protocol.SignalClose, raw))]++
	})
	end := false
	for _, name := range []string{"found", "release", protocol.SignalMessage} {
		sel.AddReceive(workflow.GetSignalChannel(ctx, name), func(c workflow.ReceiveChannel, _ bool) {
			c.Receive(ctx, nil)
			heard[name]++
			end = name == protocol.SignalMessage
		})
	}
	for !end {
		sel.Select(ctx)
	}
	return fmt.Sprint(heard), nil
}

// waits runs an activity that a person might answer.
func waits(ctx workflow.Context, _ string) (string, error) {
	var out string
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{ActivityID: "judge", StartToCloseTimeout: time.Minute, RetryPolicy: &temporal.RetryPolicy{MaximumAttempts: 1}})
	return out, workflow.ExecuteActivity(ctx, "pends", "it").Get(ctx, &out)
}

// remembers returns what a worker recorded.
func remembers(ctx workflow.Context, _ string) (string, error) {
	v := workflow.SideEffect(ctx, func(workflow.Context) any { return "as recorded" })
	workflow.GetSignalChannel(ctx, protocol.SignalMessage).Receive(ctx, nil)
	var out string
	return out, v.Get(&out)
}

// pools takes hosts, and keeps a ledger.
func pools(ctx workflow.Context, in struct{}) (protocol.AuditHead, error) {
	var chain audit.Chain
	l := Record(ctx, &chain)
	err := workflow.SetUpdateHandler(ctx, protocol.UpdatePutHost, func(_ workflow.Context, in protocol.PutHost) (string, error) {
		return in.Spec.Name, nil
	})
	if err != nil {
		return protocol.AuditHead{}, err
	}
	l.Keep()
	workflow.GetSignalChannel(ctx, protocol.SignalRenew).Receive(ctx, nil)
	l.finish()
	return *chain.Newest(), nil
}

// write keeps audit records, and returns the newest.
func (s *stage) write(b audit.Batch) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.records = append(s.records, b.Lines...)
	return b.Last()
}

// work runs our worker.
func (s *stage) work(c client.Client) worker.Worker {
	s.t.Helper()
	w := worker.New(c, "ours", worker.Options{Interceptors: []interceptor.WorkerInterceptor{Interceptor(s.keeper, Options{Refused: func(r audit.Record) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.refused = append(s.refused, r)
	}})}})
	w.RegisterWorkflowWithOptions(listens, workflow.RegisterOptions{Name: "listens"})
	w.RegisterWorkflowWithOptions(waits, workflow.RegisterOptions{Name: "waits"})
	w.RegisterWorkflowWithOptions(remembers, workflow.RegisterOptions{Name: "remembers"})
	w.RegisterWorkflowWithOptions(func(workflow.Context, protocol.ExecInput) (string, error) {
		s.exec.Add(1)
		return "ran", nil
	}, workflow.RegisterOptions{Name: protocol.TypeExec})
	w.RegisterWorkflowWithOptions(func(ctx workflow.Context, _ protocol.ExecInput) error {
		return Claim(ctx, protocol.TypeBatch, StartVerdict(ctx), protocol.ClaimStart{})
	}, workflow.RegisterOptions{Name: protocol.TypeBatch})
	w.RegisterActivityWithOptions(func(ctx context.Context, in string) (string, error) {
		s.did.Add(1)
		return "", activity.ErrResultPending
	}, activity.RegisterOptions{Name: "pends"})
	w.RegisterActivityWithOptions(func(_ context.Context, in protocol.ClaimStart) (out protocol.StartClaimed, _ error) {
		out.Run, out.Nonce = in.Run, in.Nonce
		if by, used := s.claims.LoadOrStore(in.Nonce, in.Run); used && by != in.Run {
			out.Refused = "it was started before"
		} else if in.Audit != nil {
			out.Audited = s.write(*in.Audit)
		}
		return out, nil
	}, activity.RegisterOptions{Name: protocol.ActivityClaimStart})
	w.RegisterActivityWithOptions(func(_ context.Context, in audit.Batch) (audit.Written, error) {
		return audit.Written{Entity: in.Entity, Seq: s.write(in)}, nil
	}, activity.RegisterOptions{Name: protocol.ActivityWriteAudit})
	w.RegisterWorkflowWithOptions(pools, workflow.RegisterOptions{Name: protocol.TypeHostPool})
	s.start(w)
	return w
}

func (s *stage) start(w worker.Worker) {
	s.t.Helper()
	if err := w.Start(); err != nil {
		s.t.Fatal(err)
	}
}

func (s *stage) begin(c client.Client, id, kind string, in any) client.WorkflowRun {
	s.t.Helper()
	run, err := c.ExecuteWorkflow(s.ctx, client.StartWorkflowOptions{ID: id, TaskQueue: "ours"}, kind, in)
	if err != nil {
		s.t.Fatal(err)
	}
	return run
}

func (s *stage) until(what string, ok func() bool) {
	s.t.Helper()
	for !ok() {
		select {
		case <-s.ctx.Done():
			s.t.Fatalf("waited in vain until %s", what)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// ask queries a workflow. Temporal can hand a query to a worker that has just stopped: then it
// fails or stays without an answer, which says nothing about the workflow.
func (s *stage) ask(id, query string, out any) {
	s.t.Helper()
	s.until(id+" answers the query "+query, func() bool {
		v, err := s.ours.QueryWorkflow(s.ctx, id, "", query)
		if err == nil {
			err = v.Get(out)
		}
		var cancelled *serviceerror.Canceled
		var late *serviceerror.DeadlineExceeded
		if errors.As(err, &cancelled) || errors.As(err, &late) {
			return false
		}
		if err != nil {
			s.t.Fatal(err)
		}
		return true
	})
}

func (s *stage) history(id, run string) (h []*historypb.HistoryEvent) {
	s.t.Helper()
	it := s.thief.GetWorkflowHistory(s.ctx, id, run, false, enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for it.HasNext() {
		ev, err := it.Next()
		if err != nil {
			s.t.Fatal(err)
		}
		h = append(h, ev)
	}
	return h
}

func (s *stage) signal(c client.Client, id, name string, arg any) {
	s.t.Helper()
	if err := c.SignalWorkflow(s.ctx, id, "", name, arg); err != nil {
		s.t.Fatal(err)
	}
}

func update(ctx context.Context, c client.Client, id, name string, arg any) (out string, err error) {
	h, err := c.UpdateWorkflow(ctx, client.UpdateWorkflowOptions{WorkflowID: id, UpdateName: name, Args: []any{arg}, WaitForStage: client.WorkflowUpdateStageCompleted})
	if err == nil {
		err = h.Get(ctx, &out)
	}
	return out, err
}

func (s *stage) signed(workflowID, name string, in any) json.RawMessage {
	s.t.Helper()
	raw, err := command.Marshal(in)
	if err != nil {
		s.t.Fatal(err)
	}
	out, err := command.Sign(s.ann, "ann", workflowID, name, raw, time.Now())
	if err != nil {
		s.t.Fatal(err)
	}
	return out
}
