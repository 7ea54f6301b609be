package batches

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"fairlead.dev/fairlead/activities/inquiry"
	"fairlead.dev/fairlead/activities/internal/kit"
	"fairlead.dev/fairlead/activities/records"
	"fairlead.dev/fairlead/activities/site"
	"fairlead.dev/fairlead/internal/owned"
	"fairlead.dev/fairlead/internal/protocol"
)

// Blobs of messages, batches and schedules are in their owners' folders (see package
// owned). Others take a hold on a blob that they begin with.

// holdBlobs holds an item's blobs for its session.
func holdBlobs(ctx context.Context, s *site.Site, session string, it protocol.BatchItem, opt protocol.BatchOptions) error {
	var first struct {
		Blob       string           `json:"blob"`
		SchemaBlob string           `json:"output_schema_blob"`
		Inputs     []protocol.Input `json:"inputs"`
	}
	if err := json.Unmarshal(it.First, &first); err != nil {
		return nil // the session reports the fault
	}
	var work struct {
		Repo struct {
			Token string `json:"token"`
		} `json:"repo"`
	}
	if raw := opt.Session["workspace"]; len(raw) > 0 && json.Unmarshal(raw, &work) != nil {
		return nil
	}
	keys := []string{first.Blob, first.SchemaBlob, work.Repo.Token}
	for _, in := range first.Inputs {
		keys = append(keys, in.Blob)
	}
	for _, name := range []string{"agents", "base_instructions", "team_tools"} {
		var given *protocol.GivenText
		if raw := opt.Session[name]; len(raw) > 0 && json.Unmarshal(raw, &given) != nil {
			return nil
		}
		keys = append(keys, given.BlobKey())
	}
	return owned.Hold(ctx, s.Store, owned.Owner{Kind: owned.Session, ID: session}, keys...)
}

// HoldBlobsInput names blobs, and who will begin with them.
type HoldBlobsInput struct {
	Kind  string   `json:"kind"` // session, batch
	ID    string   `json:"id"`
	Blobs []string `json:"blobs"`
}

// HoldBlobs keeps blobs for a session or batch as long as Temporal knows it. If one is
// gone, the error is final.
func (b *Activities) HoldBlobs(ctx context.Context, in HoldBlobsInput) error {
	err := owned.Hold(ctx, b.site.Store, owned.Owner{Kind: in.Kind, ID: in.ID}, in.Blobs...)
	if errors.Is(err, owned.ErrGone) {
		err = &kit.TypedError{Kind: protocol.ErrTypeBadInput, Err: err, Hint: "give it anew"}
	}
	return kit.Failing{}.Failure(ctx, fmt.Sprintf("keep what %s %s begins with", in.Kind, in.ID), err)
}

// TidyStoreResult says what was deleted.
type TidyStoreResult = owned.Swept

// tidyMost limits one run's deletions.
const tidyMost = 20_000

// TidyStore deletes blobs of messages, batches and schedules that nobody can ask for any
// more. It may run at any time, be killed, and be repeated.
func (s *Activities) TidyStore(ctx context.Context) (TidyStoreResult, error) {
	var f kit.Failing
	far := kit.StoreWork{Now: protocol.SnapshotsProgress{Step: "beginning"}}
	defer far.Beat(ctx)()
	dropped, late := records.DropModelBodies(ctx, s.site.Store, time.Now()) // also where the rest fails
	out, err := owned.Sweep{
		Store: s.site.Store, Most: tidyMost, Tell: far.Tell,
		Ask:   func(ctx context.Context, o owned.Owner) (bool, error) { return AskOwner(ctx, s.site.Temporal, o) },
		Alone: func(ctx context.Context) error { return owned.Alone(ctx, s.site.Store, s.site.Namespace) },
	}.Run(ctx)
	if err == nil {
		err = tidyClaims(ctx, s.site.Store, time.Now())
	}
	if err == nil {
		err = recordSweep{
			store: s.site.Store, now: time.Now(), most: tidyMost,
			ask:   func(ctx context.Context, o owned.Owner) (bool, error) { return AskOwner(ctx, s.site.Temporal, o) },
			alone: func(ctx context.Context) error { return owned.Alone(ctx, s.site.Store, s.site.Namespace) },
		}.run(ctx, &out)
	}
	out.Records += dropped
	err = errors.Join(err, late)
	return out, f.Failure(ctx, "tidy the store", err)
}

// AskOwner reports whether Temporal knows an owner: a running or ended workflow, or a
// Schedule. An error means that this is not known now.
func AskOwner(ctx context.Context, c client.Client, o owned.Owner) (there bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, inquiry.AskTimeout)
	defer cancel()
	if c == nil {
		return false, errors.New("this worker has no connection to Temporal")
	}
	if o.Kind == owned.Schedule {
		_, err = c.ScheduleClient().GetHandle(ctx, o.TemporalID()).Describe(ctx)
	} else {
		_, err = c.DescribeWorkflowExecution(ctx, o.TemporalID(), "")
	}
	var gone *serviceerror.NotFound
	if errors.As(err, &gone) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("look for %s: %w", o.TemporalID(), err)
	}
	return true, nil
}

// NamespaceID tells namespaces of the same name on two servers apart.
func NamespaceID(ctx context.Context, c client.Client, namespace string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	d, err := c.WorkflowService().DescribeNamespace(ctx, &workflowservice.DescribeNamespaceRequest{Namespace: namespace})
	if err != nil {
		return "", fmt.Errorf("look at namespace %s: %w", namespace, err)
	}
	return d.GetNamespaceInfo().GetId(), nil
}
