package authority

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"filippo.io/age"
	enums "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
	"golang.org/x/crypto/ssh"
	"google.golang.org/protobuf/encoding/protojson"

	"fairlead.dev/fairlead/internal/api"
	"fairlead.dev/fairlead/internal/command"
	"fairlead.dev/fairlead/internal/lab"
	"fairlead.dev/fairlead/internal/lab/e2e"
	"fairlead.dev/fairlead/internal/payload"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/seeds"
	"fairlead.dev/fairlead/workflows/seed"
	"fairlead.dev/fairlead/workflows/session"
)

// A caller tries deeds as ctl does them, without the checks of ctl itself.
type caller struct {
	temporal client.Client
	codec    *payload.Codec
	worker   *api.Client
	key      ssh.Signer // nil signs nothing
	who      string
	patience time.Duration
}

// newCaller returns a caller with the stack's certificate of Temporal.
func newCaller(ctx context.Context, dial func(context.Context) (client.Client, error), codec *payload.Codec, who string, key ssh.Signer) (*caller, error) {
	c := &caller{codec: codec, key: key, who: who, patience: time.Minute}
	var err error
	if c.temporal, err = dial(ctx); err != nil {
		return nil, err
	}
	c.worker, err = api.NewClient("unix://"+filepath.Join(e2e.Lab.State, "api.sock"), api.ClientOptions{Sign: c.header})
	return c, err
}

func (c *caller) header(_ context.Context, r command.Request) (string, error) {
	if c.key == nil {
		return "", nil
	}
	return command.SignRequest(c.key, c.who, r, time.Now())
}

// signedByRoot returns a header with which root may send a request to the stack's worker.
func signedByRoot(method, target string, body []byte) (string, error) {
	answer, err := overSocket().Get("http://worker/v1/status")
	if err != nil {
		return "", err
	}
	answer.Body.Close()
	return command.SignRequest(scene.boss.key, scene.boss.who, command.Request{
		Method: method, Target: target, Worker: answer.Header.Get(command.WorkerHeader), Body: command.BodyDigest(body),
	}, time.Now())
}

// signed returns an argument with a signature, if the caller signs.
func (c *caller) signed(workflow, name string, arg any) (any, error) {
	if c.key == nil {
		return arg, nil
	}
	raw, err := command.Marshal(arg)
	if err != nil {
		return nil, err
	}
	return command.Sign(c.key, c.who, workflow, name, raw, time.Now())
}

// try is an attempt.
func (c *caller) try(ctx context.Context, deed, id string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, c.patience)
	defer cancel()
	switch deed {
	case deedStart:
		return nil, c.start(ctx, id)
	case deedMessage:
		return nil, c.message(ctx, protocol.SessionID(target), protocol.SignalMessage, protocol.Message{ID: "m-" + id, Text: saying(id)})
	case deedDecide:
		d, err := decision(ctx)
		if err != nil {
			return nil, err
		}
		return nil, c.message(ctx, protocol.SessionID(target), protocol.SignalDecide, d)
	case deedExec:
		return nil, c.exec(ctx, id)
	case deedImport:
		return nil, c.importSeed(ctx, id)
	case deedExport:
		return c.exportSeed(ctx, id)
	case deedTranscript:
		return transcript(ctx, c.worker, target)
	case deedDecode:
		return c.decode(ctx)
	}
	return nil, fmt.Errorf("no such deed: %s", deed)
}

func (c *caller) start(ctx context.Context, id string) error {
	in, err := c.signed(protocol.SessionID(id), protocol.TypeSession, session.Input{ID: id, Options: sessionOptions()})
	if err != nil {
		return err
	}
	return c.begin(ctx, deedStart, id, protocol.SessionID(id), protocol.TypeSession, in)
}

func sessionOptions() session.Options { return session.Options{Host: "web-1", Seed: "team"} }

func execInput(id string) protocol.ExecInput {
	return protocol.ExecInput{ID: "x-" + id, Host: scene.host, Argv: []string{"touch", marker(id)}}
}

func execID(id string) string { return protocol.HostTaskID("web-1", "exec-x-"+id) }

func (c *caller) exec(ctx context.Context, id string) error {
	in, err := c.signed(execID(id), protocol.TypeExec, execInput(id))
	if err != nil {
		return err
	}
	return c.begin(ctx, deedExec, id, execID(id), protocol.TypeExec, in)
}

// begin starts a workflow and waits until it has had its effect, has failed, or cannot be
// taken up by a worker.
func (c *caller) begin(ctx context.Context, deed, id, workflowID, kind string, in any) error {
	run, err := c.temporal.ExecuteWorkflow(ctx, client.StartWorkflowOptions{ID: workflowID, TaskQueue: protocol.TaskQueue}, kind, in)
	if err != nil {
		return err
	}
	return fate(ctx, deed, id, workflowID, run.GetRunID())
}

// fate waits until a workflow has had its effect, or says why it has none. One whose tasks
// fail is terminated.
func fate(ctx context.Context, deed, id, workflowID, runID string) error {
	var refused error
	err := lab.Until(ctx, "the fate of "+workflowID, func() (bool, error) {
		if done, err := touched(ctx, deed, id, nil); done || err != nil {
			return done, err
		}
		it := scene.boss.temporal.GetWorkflowHistory(ctx, workflowID, runID, false, enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
		for it.HasNext() {
			ev, err := it.Next()
			if err != nil {
				return false, err
			}
			switch ev.GetEventType() {
			case enums.EVENT_TYPE_WORKFLOW_EXECUTION_FAILED:
				refused = scene.boss.temporal.GetWorkflow(ctx, workflowID, runID).Get(ctx, nil)
			case enums.EVENT_TYPE_WORKFLOW_TASK_FAILED:
				if _, err := lab.Decrypt(ctx, scene.boss.codec, ev); err != nil {
					return false, err
				}
				failure := ev.GetWorkflowTaskFailedEventAttributes().GetFailure()
				refused = fmt.Errorf("no worker takes the workflow: %w", temporal.GetDefaultFailureConverter().FailureToError(failure))
				_ = scene.boss.temporal.TerminateWorkflow(ctx, workflowID, runID, "the test has seen enough") // it may have failed meanwhile
			}
		}
		return refused != nil, nil
	})
	return errors.Join(err, refused)
}

// message sends an update, and a signal if the update is refused. The error is the update's.
func (c *caller) message(ctx context.Context, workflowID, name string, msg any) error {
	arg, err := c.signed(workflowID, name, msg)
	if err != nil {
		return err
	}
	err = c.update(ctx, workflowID, name, arg)
	if err == nil {
		return nil
	}
	again, serr := c.signed(workflowID, name, msg)
	if serr == nil {
		serr = c.temporal.SignalWorkflow(ctx, workflowID, "", name, again)
	}
	if serr != nil {
		return errors.Join(err, fmt.Errorf("as a signal: %w", serr))
	}
	return err
}

func (c *caller) update(ctx context.Context, workflowID, name string, arg any) error {
	h, err := c.temporal.UpdateWorkflow(ctx, client.UpdateWorkflowOptions{WorkflowID: workflowID, UpdateName: name, Args: []any{arg},
		WaitForStage: client.WorkflowUpdateStageCompleted})
	if err == nil {
		err = h.Get(ctx, nil)
	}
	return err
}

// importSeed gives a bundle to a worker, and a generation to the seed's workflow: that of
// another seed, if the worker takes no bundle.
func (c *caller) importSeed(ctx context.Context, id string) error {
	put := putSeed(id)
	stored, apiErr := c.worker.PutSeed(ctx, id, scene.bundle)
	if apiErr == nil {
		put.Ref = protocol.SeedRef{Name: id, Blob: stored.Ref.Blob, Digest: stored.Ref.Digest, Kind: string(stored.Ref.Kind)}
	}
	return anyOf(apiErr, c.putSeed(ctx, id, put))
}

func putSeed(id string) protocol.PutSeed {
	put := protocol.PutSeed{Name: id, Force: true, Ref: *scene.seed.Ref, Files: scene.seed.Files}
	put.Ref.Name = id
	return put
}

func (c *caller) putSeed(ctx context.Context, id string, put protocol.PutSeed) error {
	arg, err := c.signed(protocol.SeedID(id), protocol.UpdatePutSeed, put)
	if err != nil {
		return err
	}
	in, err := c.signed(protocol.SeedID(id), protocol.TypeSeed, seed.Input{Name: id})
	if err != nil {
		return err
	}
	h, err := c.temporal.UpdateWithStartWorkflow(ctx, client.UpdateWithStartWorkflowOptions{
		StartWorkflowOperation: c.temporal.NewWithStartWorkflowOperation(client.StartWorkflowOptions{
			ID: protocol.SeedID(id), TaskQueue: protocol.TaskQueue, WorkflowIDConflictPolicy: enums.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING,
		}, protocol.TypeSeed, in),
		UpdateOptions: client.UpdateWorkflowOptions{WorkflowID: protocol.SeedID(id), UpdateName: protocol.UpdatePutSeed, Args: []any{arg},
			WaitForStage: client.WorkflowUpdateStageCompleted},
	})
	if err == nil {
		err = h.Get(ctx, nil)
	}
	return err
}

// exportSeed asks a worker, and then the seed's workflow, which alone gives no secret.
func (c *caller) exportSeed(ctx context.Context, id string) ([]byte, error) {
	out, err := c.worker.ExportSeed(ctx, "team", api.ExportSeed{Recipient: recipient(id), By: id})
	if err == nil {
		return opened(id, out.Data)
	}
	arg, serr := c.signed(protocol.SeedID("team"), protocol.UpdateExportSeed, protocol.ExportSeed{By: id, Recipient: recipient(id)})
	if serr != nil {
		return nil, serr
	}
	return nil, anyOf(err, c.update(ctx, protocol.SeedID("team"), protocol.UpdateExportSeed, arg))
}

// opened decrypts what was exported for id.
func opened(id string, data []byte) ([]byte, error) {
	bundle, err := seeds.OpenExport(bytes.NewReader(data), identity(id))
	if err != nil {
		return nil, err
	}
	return bundle.File("config.toml"), nil
}

func identity(id string) *age.X25519Identity {
	scene.mu.Lock()
	defer scene.mu.Unlock()
	if scene.identities[id] == nil {
		made, err := age.GenerateX25519Identity()
		if err != nil {
			panic(err)
		}
		scene.identities[id] = made
	}
	return scene.identities[id]
}

func recipient(id string) string { return identity(id).Recipient().String() }

// transcript returns all that a worker tells of a session.
func transcript(ctx context.Context, worker *api.Client, id string) ([]byte, error) {
	var b bytes.Buffer
	for e, err := range worker.Transcript(ctx, id, 1) {
		if err != nil {
			return b.Bytes(), err
		}
		fmt.Fprintln(&b, e.Text)
	}
	return b.Bytes(), nil
}

// decode reads the history of a session.
func (c *caller) decode(ctx context.Context) ([]byte, error) {
	var b bytes.Buffer
	var refused error
	it := c.temporal.GetWorkflowHistory(ctx, protocol.SessionID(target), "", false, enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for it.HasNext() {
		ev, err := it.Next()
		if err != nil {
			return b.Bytes(), err
		}
		if _, err := lab.Decrypt(ctx, c.codec, ev); err != nil {
			refused = err
		}
		text, err := protojson.Marshal(ev)
		if err != nil {
			return b.Bytes(), err
		}
		b.Write(text)
		b.WriteString(e2e.Payloads(text))
	}
	return b.Bytes(), refused
}

// decision is what accepts the open approval.
func decision(ctx context.Context) (protocol.Decide, error) {
	list, err := approvals(ctx)
	for _, a := range list {
		if a.State == protocol.ApprovalOpen {
			return protocol.Decide{Approval: a.ID, Digest: a.Digest, Outcome: string(protocol.Accept)}, nil
		}
	}
	return protocol.Decide{}, errors.Join(errors.New("no approval is open"), err)
}

func approvals(ctx context.Context) (list []protocol.Approval, err error) {
	return list, scene.boss.query(ctx, protocol.SessionID(target), protocol.QueryApprovals, &list)
}

func (c *caller) query(ctx context.Context, workflowID, name string, out any, args ...any) error {
	v, err := c.temporal.QueryWorkflow(ctx, workflowID, "", name, args...)
	if err == nil {
		err = v.Get(out)
	}
	return err
}

// anyOf is nil if one of several forms was not refused.
func anyOf(errs ...error) error {
	for _, err := range errs {
		if err == nil {
			return nil
		}
	}
	return errors.Join(errs...)
}

// signerOf reads somebody's key.
func signerOf(name string, read func(string) ([]byte, error)) (ssh.Signer, error) {
	data, err := read(filepath.Join(keys, name))
	if err != nil {
		return nil, err
	}
	return ssh.ParsePrivateKey(data)
}

func saying(id string) string { return "hello from " + id }

func asJSON(v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return data
}

func marker(id string) string {
	return filepath.Join(e2e.Lab.Dir, "touched-by-"+strings.ReplaceAll(id, "/", "-"))
}
