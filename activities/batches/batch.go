package batches

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	enums "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"

	"fairlead.dev/fairlead/activities/internal/kit"
	"fairlead.dev/fairlead/activities/overseer"
	"fairlead.dev/fairlead/activities/site"
	"fairlead.dev/fairlead/internal/command"
	"fairlead.dev/fairlead/internal/owned"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/internal/store"
)

// Activities start batches' sessions and keep results. The messages are in the store, in no
// history.
type Activities struct{ site *site.Site }

// New makes the activities of a worker.
func New(s *site.Site) *Activities { return &Activities{site: s} }

// MaxBatchPage limits a page, in bytes.
const MaxBatchPage = 32 << 20

// CheckBatchPage returns why a page cannot be kept.
func CheckBatchPage(p protocol.BatchPage) error {
	if len(p.Items) == 0 {
		return errors.New("the page has no items")
	}
	for _, it := range p.Items {
		switch {
		case kit.CheckID("item", it.ID) != nil:
			return kit.CheckID("item", it.ID)
		case it.Options < 0 || it.Options >= len(p.Options):
			return fmt.Errorf("item %s has no options", it.ID)
		case len(it.First) == 0:
			return fmt.Errorf("item %s has no message", it.ID)
		}
	}
	return nil
}

// StartItemsInput names items of one page.
type StartItemsInput struct {
	Batch string `json:"batch"`
	// Notify is the workflow that learns of a session's end.
	Notify string `json:"notify"`
	// By is who starts the sessions, whoever the page names. It was judged.
	By     string      `json:"by,omitempty"`
	Origin string      `json:"origin"`
	Blob   string      `json:"blob"`
	Items  []StartItem `json:"items"`
	// Look only finds sessions that were started before.
	Look bool `json:"look,omitempty"`
	// Groups are those of the person for whom sessions are started, as the login named them.
	Groups []string `json:"groups,omitempty"`
}

// StartItem is a try of an item.
type StartItem struct {
	N    int `json:"n"`    // in the batch
	Page int `json:"page"` // in the page
	Try  int `json:"try"`
}

// StartItemsResult has each item's outcome.
type StartItemsResult struct {
	Started []StartedItem `json:"started"`
}

// StartedItem is a started session, or the reason why there never will be one.
type StartedItem struct {
	N       int               `json:"n"`
	ID      string            `json:"id"`
	Session string            `json:"session"`
	Run     string            `json:"run,omitempty"`
	Problem *protocol.Problem `json:"problem,omitempty"`
	// Missing says that Look found no session.
	Missing bool `json:"missing,omitempty"`
}

// ItemSession names the session of an item's try.
func ItemSession(batch, item string, try int) string {
	name := batch + "-" + item
	if try > 1 {
		name += fmt.Sprintf(".t%d", try)
	}
	return name
}

// StartItems starts sessions in order. A repeated call finds the sessions that it started:
// the name tells item and try, the origin the batch.
func (b *Activities) StartItems(ctx context.Context, in StartItemsInput) (StartItemsResult, error) {
	out, err := startItems(ctx, b.site, in)
	return out, kit.Failing{}.Failure(ctx, "batch "+in.Batch+": start sessions", err)
}

func startItems(ctx context.Context, s *site.Site, in StartItemsInput) (StartItemsResult, error) {
	var out StartItemsResult
	ctx = command.WithPrincipal(command.WithGroups(ctx, in.Groups), in.By)
	page, err := pageOf(ctx, s, in.Blob)
	if err != nil {
		return out, err
	}
	for _, item := range in.Items {
		if item.Page < 0 || item.Page >= len(page.Items) {
			return out, kit.BadInput("the page has %d items, and none with index %d", len(page.Items), item.Page)
		}
		started, err := startItem(ctx, s, in, page, item)
		if err != nil {
			return out, err
		}
		out.Started = append(out.Started, started)
		activity.RecordHeartbeat(ctx, len(out.Started))
	}
	return out, nil
}

func pageOf(ctx context.Context, s *site.Site, blob string) (protocol.BatchPage, error) {
	var page protocol.BatchPage
	if !owned.Is(blob, owned.Pages) {
		return page, kit.BadInput("%.100q is not a page of a batch", blob)
	}
	data, err := s.Store.Get(ctx, blob)
	if errors.Is(err, store.ErrNotFound) {
		return page, &kit.TypedError{Kind: protocol.ErrTypeBadInput, Hint: "run the batch anew", Err: errors.New("its items are not in the store any more")}
	}
	if err != nil {
		return page, err
	}
	if err := json.Unmarshal(data, &page); err != nil {
		return page, kit.BadInput("a page of the batch cannot be read: %v", err)
	}
	if err := CheckBatchPage(page); err != nil {
		return page, kit.BadInput("a page of the batch: %v", err)
	}
	return page, nil
}

// originAttribute names what started a session.
var originAttribute = temporal.NewSearchAttributeKeyKeyword("FairleadOrigin")

func startItem(ctx context.Context, s *site.Site, in StartItemsInput, page protocol.BatchPage, item StartItem) (StartedItem, error) {
	it := page.Items[item.Page]
	opt := page.Options[it.Options]
	out := StartedItem{N: item.N, ID: it.ID, Session: ItemSession(in.Batch, it.ID, item.Try)}
	if err := kit.CheckID("session", out.Session); err != nil {
		out.Problem = &protocol.Problem{Kind: protocol.ErrTypeBadInput, Message: err.Error(), Hint: "choose shorter ids of the batch and its items"}
		return out, nil
	}
	if in.Look {
		return startedBefore(ctx, s, in, out)
	}
	input, err := sessionInput(in, it, opt, out.Session)
	if err != nil { // others of the page may still start
		out.Problem = &protocol.Problem{Kind: protocol.ErrTypeBadInput, Message: fmt.Sprintf("item %s: %v", it.ID, err)}
		return out, nil
	}
	if err := holdBlobs(ctx, s, out.Session, it, opt); errors.Is(err, owned.ErrGone) {
		out.Problem = &protocol.Problem{Kind: protocol.ErrTypeBadInput, Message: fmt.Sprintf("item %s: %v", it.ID, err), Hint: "run the batch anew"}
		return out, nil
	} else if err != nil {
		return out, fmt.Errorf("keep what session %s begins with: %w", out.Session, err)
	}
	run, err := s.Temporal.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
		ID: protocol.SessionID(out.Session), TaskQueue: opt.Queue,
		WorkflowIDReusePolicy:                    enums.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE,
		WorkflowIDConflictPolicy:                 enums.WORKFLOW_ID_CONFLICT_POLICY_FAIL,
		WorkflowExecutionErrorWhenAlreadyStarted: true,
		TypedSearchAttributes:                    temporal.NewSearchAttributes(originAttribute.ValueSet(in.Origin)),
		StaticSummary:                            "codex session " + out.Session,
	}, sessionType, input)
	var there *serviceerror.WorkflowExecutionAlreadyStarted
	var refused *serviceerror.InvalidArgument
	switch {
	case err == nil:
		out.Run = run.GetRunID()
		return out, nil
	case errors.As(err, &there):
		return startedBefore(ctx, s, in, out)
	case errors.Is(err, command.ErrNotJudged):
		out.Problem = &protocol.Problem{Kind: protocol.RefusedForbidden, Message: err.Error(), Hint: "`ctl batch retry " + in.Batch + "` starts it for whoever says so"}
		return out, nil
	case errors.As(err, &refused):
		out.Problem = &protocol.Problem{Kind: protocol.ErrTypeBadInput, Message: "Temporal refused to start the session: " + refused.Message}
		return out, nil
	}
	return out, fmt.Errorf("start session %s: %w", out.Session, err)
}

const sessionType = "Session"

func sessionInput(in StartItemsInput, it protocol.BatchItem, opt protocol.BatchOptions, session string) (json.RawMessage, error) {
	options := make(map[string]any, len(opt.Session)+2)
	for k, v := range opt.Session {
		options[k] = v
	}
	options["origin"], options["notify"] = in.Origin, in.Notify
	if in.By != "" {
		options["by"] = in.By
	}
	out := map[string]any{"id": session, "options": options, "first": it.First}
	if requires := protocol.Requires(options); len(requires) > 0 {
		out["requires"] = requires
	}
	return json.Marshal(out)
}

// startedBefore finds out whether this activity started the session, or something else did.
func startedBefore(ctx context.Context, s *site.Site, in StartItemsInput, out StartedItem) (StartedItem, error) {
	d, err := s.Temporal.DescribeWorkflowExecution(ctx, protocol.SessionID(out.Session), "")
	if gone := (*serviceerror.NotFound)(nil); in.Look && errors.As(err, &gone) {
		out.Missing = true
		return out, nil
	}
	if err != nil {
		return out, fmt.Errorf("look at session %s: %w", out.Session, err)
	}
	info := d.GetWorkflowExecutionInfo()
	var origin string
	if p := info.GetSearchAttributes().GetIndexedFields()[originAttribute.GetName()]; p != nil {
		_ = converter.GetDefaultDataConverter().FromPayload(p, &origin) // unreadable: not ours
	}
	if origin != in.Origin && in.Look {
		out.Missing = true
		return out, nil
	}
	if origin != in.Origin {
		out.Problem = &protocol.Problem{Kind: "id_in_use", Message: "there is a session " + out.Session + ", and this batch did not start it",
			Hint: "give the batch another id"}
		return out, nil
	}
	out.Run = info.GetFirstRunId()
	return out, nil
}

// RecordResultsInput are items' results, each one JSON object.
type RecordResultsInput struct {
	Batch string            `json:"batch"`
	Lines []json.RawMessage `json:"lines"`
}

// RecordResultsResult names the blob of the results.
type RecordResultsResult struct {
	Blob string `json:"blob"`
}

// RecordResults keeps results as JSON lines. A repeat gives the same blob.
func (b *Activities) RecordResults(ctx context.Context, in RecordResultsInput) (RecordResultsResult, error) {
	var buf bytes.Buffer
	for _, line := range in.Lines {
		buf.Write(line)
		buf.WriteByte('\n')
	}
	// one folder, so that equal results are stored once
	folder := owned.Owner{Kind: owned.Batch, ID: in.Batch}.RunFolder(activity.GetInfo(ctx).WorkflowExecution.RunID)
	blob, err := b.site.Store.PutContent(ctx, owned.In(folder, owned.Results), buf.Bytes())
	return RecordResultsResult{Blob: blob}, kit.Failing{}.Failure(ctx, "batch "+in.Batch+": keep results", err)
}

// ErrNoResults says that there is no such part of a batch's results.
var ErrNoResults = errors.New("no such results")

// ReadResults returns a part of a batch's results.
func ReadResults(ctx context.Context, st *store.Store, blob string) ([]byte, error) {
	if !owned.Is(blob, owned.Results) {
		return nil, ErrNoResults
	}
	data, err := st.Get(ctx, blob)
	if errors.Is(err, store.ErrNotFound) {
		return nil, ErrNoResults
	}
	return data, err
}

// An EndedSession did not report its end.
type EndedSession struct {
	overseer.Holder
	Kind    string `json:"kind"`
	Message string `json:"message"`
}

// FindSilentResult names the ended sessions.
type FindSilentResult struct {
	Ended []EndedSession `json:"ended,omitempty"`
}

// FindSilent finds how sessions ended. A terminated one could not report it.
func (b *Activities) FindSilent(ctx context.Context, in overseer.FindEndedInput) (FindSilentResult, error) {
	var out FindSilentResult
	ended, err := (&overseer.Engine{Client: b.site.Temporal}).FindEnded(ctx, in)
	if err != nil {
		return out, kit.Failing{}.Failure(ctx, "look for sessions that have ended", err)
	}
	for _, h := range ended.Ended {
		e := EndedSession{Holder: h, Kind: "terminated", Message: "its workflow was ended from outside; nothing was cleaned up on the host"}
		err := b.site.Temporal.GetWorkflow(ctx, h.WorkflowID, "").Get(ctx, nil)
		var app *temporal.ApplicationError
		switch {
		case err == nil:
			e.Kind, e.Message = protocol.ErrTypeOutcomeUnknown, "it ended, and did not say how: see `ctl session show`"
		case errors.As(err, &app):
			e.Kind, e.Message = app.Type(), app.Message()
		}
		out.Ended = append(out.Ended, e)
	}
	return out, nil
}
