package flows

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"strconv"
	"time"
	"unicode"
	"unicode/utf8"

	enums "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/sdk/client"
	temporalsdk "go.temporal.io/sdk/temporal"

	"fairlead.dev/fairlead/internal/errkind"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/session"
)

const maxKey = 200

// CheckKey refuses a key that is too long or not readable. what, such as "--key", is for the
// message.
func CheckKey(what, key string) error {
	switch {
	case len(key) > maxKey:
		return errkind.Usage("%s: it has %d bytes, at most %d", what, len(key), maxKey)
	case !utf8.ValidString(key):
		return errkind.Usage("%s is not UTF-8 text", what)
	}
	for _, r := range key {
		if unicode.IsControl(r) {
			return errkind.Usage("%s: %q has a control character in it", what, key)
		}
	}
	return nil
}

// A Keyed is a start with a key, which identifies a repetition. nil means a start without a
// key.
type Keyed struct {
	protocol.KeyClaim
	// Doing is what is done under the key, for errors; by default, start Kind ID.
	Doing string
	// Called is what the user calls the key; by default, its text.
	Called string
	key    string
}

// RequestOf returns the claim of a request with a key, or nil without a key. id is the
// user's choice, or empty. what lists all values that identify the request.
func RequestOf(key, kind, id string, what ...any) (*Keyed, error) {
	if key == "" {
		return nil, nil
	}
	if id == "" {
		id = protocol.IDOfKey(key)
	}
	raw, err := json.Marshal(append(what, key)) // maps are sorted, so equal requests have equal digests
	if err != nil {
		return nil, errkind.Failed("take the digest of the request: %v", err)
	}
	sum := sha256.Sum256(raw)
	return &Keyed{key: key, KeyClaim: protocol.KeyClaim{Kind: kind, ID: id, Request: hex.EncodeToString(sum[:])}}, nil
}

// IDOr returns the key's id, or chosen without a key.
func (k *Keyed) IDOr(chosen string) string {
	if k == nil {
		return chosen
	}
	return k.ID
}

// MessageID returns an id for the first message, the same at each repetition, so that the
// session takes it once. It is empty without a key.
func (k *Keyed) MessageID() string {
	if k == nil {
		return ""
	}
	return "m-" + k.Request[:16]
}

// Shown adds to a keyed start's JSON whether an earlier call had started it.
func (k *Keyed) Shown(v map[string]any, there bool) map[string]any {
	if k != nil {
		v["existing"] = there
	}
	return v
}

// Anybodys clears the user in options, so that another user's retry is the same request.
func Anybodys(opt session.Options) session.Options {
	opt.By = ""
	return opt
}

func (k *Keyed) doing() string {
	if k.Doing != "" {
		return k.Doing
	}
	return "start " + k.Kind + " " + k.ID
}

func (k *Keyed) workflowID() string { return k.Kind + "/" + k.ID }

// Mark adds the claim as a memo, by which a repetition recognizes the workflow.
func (k *Keyed) Mark(start *client.StartWorkflowOptions) {
	if k == nil {
		return
	}
	if start.Memo == nil {
		start.Memo = map[string]any{}
	}
	start.Memo[protocol.MemoClaim] = k.KeyClaim
}

// Look reports whether this request has already started its workflow. It refuses a key or
// id of another request, before anything starts.
func (k *Keyed) Look(ctx context.Context, t *Conn) (there bool, err error) {
	if k == nil {
		return false, nil
	}
	if _, err := k.had(ctx, t); err != nil {
		return false, err
	}
	was, exists, err := t.ClaimOf(ctx, k.doing(), k.workflowID())
	if err != nil || !exists {
		return false, err
	}
	if k.Kind == protocol.ClaimSession && t.RefusedStart(ctx, k.workflowID()) {
		return false, nil
	}
	return true, k.same(was)
}

// Take binds the key to this request, permanently.
func (k *Keyed) Take(ctx context.Context, t *Conn, zone string) error {
	if k == nil {
		return nil
	}
	_, err := k.Bind(ctx, t, zone)
	return err
}

// Bind is Take, and reports whether this call has bound the key. Of all calls for a request, at most
// one has.
func (k *Keyed) Bind(ctx context.Context, t *Conn, zone string) (first bool, err error) {
	start := client.StartWorkflowOptions{
		ID: protocol.KeyID(k.key), TaskQueue: protocol.TaskQueueOf(zone), StaticSummary: "a key of " + k.workflowID(),
		WorkflowIDReusePolicy:                    enums.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE,
		WorkflowIDConflictPolicy:                 enums.WORKFLOW_ID_CONFLICT_POLICY_FAIL,
		WorkflowExecutionErrorWhenAlreadyStarted: true,
	}
	k.Mark(&start)
	_, err = t.Start(ctx, k.doing(), start, protocol.TypeClaimKey, k.KeyClaim)
	if !isStarted(err) {
		return err == nil, err
	}
	_, err = k.had(ctx, t)
	return false, err
}

// Claimed returns what took the key, or nil if nothing has.
func (k *Keyed) Claimed(ctx context.Context, t *Conn) (*protocol.KeyClaim, error) {
	was, there, err := t.ClaimOf(ctx, k.doing(), protocol.KeyID(k.key))
	if err == nil && there && was == nil {
		was = &protocol.KeyClaim{} // of nobody
	}
	return was, err
}

// had reports whether this request has taken the key. If another one has, it fails.
func (k *Keyed) had(ctx context.Context, t *Conn) (bool, error) {
	was, exists, err := t.ClaimOf(ctx, k.doing(), protocol.KeyID(k.key))
	if err != nil || !exists {
		return false, err
	}
	if was == nil || *was != k.KeyClaim {
		return true, k.reused(was)
	}
	return true, nil
}

// same refuses an id that belongs to another request.
func (k *Keyed) same(was *protocol.KeyClaim) error {
	switch {
	case was == nil:
		return errkind.Refused("%s: the id is in use, by one that was started without a key", k.doing()).Hinted("choose another id")
	case *was != k.KeyClaim:
		return errkind.Refused("%s: the id is in use, by another request", k.doing()).Hinted("choose another id")
	}
	return nil
}

func (k *Keyed) reused(was *protocol.KeyClaim) error {
	by := "something else"
	if was != nil {
		by = was.Kind + " " + was.ID
		if was.Kind == k.Kind && was.ID == k.ID {
			by = "another request"
		}
	}
	return errkind.New(errkind.ExitRefused, errkind.KeyReused, "%s: the key %s stands for %s", k.doing(), cmp.Or(k.Called, strconv.Quote(k.key)), by).
		Hinted("ask for the same again, or choose another key")
}

// Ours handles the error of a start whose id is in use. If this request started the
// workflow, again is true and the error is nil.
func (k *Keyed) Ours(ctx context.Context, t *Conn, err error) (again bool, _ error) {
	if k == nil || !isStarted(err) {
		return false, err
	}
	there, lerr := k.Look(ctx, t)
	if lerr != nil {
		return false, lerr
	}
	if !there {
		return false, err
	}
	return true, nil
}

func isStarted(err error) bool {
	var started *serviceerror.WorkflowExecutionAlreadyStarted
	return errors.As(err, &started) || err != nil && temporalsdk.IsWorkflowExecutionAlreadyStartedError(err)
}

// ClaimOf reads the claim of a workflow, nil for none.
func (t *Conn) ClaimOf(ctx context.Context, doing, workflowID string) (was *protocol.KeyClaim, exists bool, err error) {
	ctx, cancel := t.Bounded(ctx, AnswerWait)
	defer cancel()
	d, err := t.DescribeWorkflowExecution(ctx, workflowID, "")
	var gone *serviceerror.NotFound
	switch {
	case errors.As(err, &gone):
		return nil, false, nil
	case err != nil:
		return nil, false, t.Explain(ctx, doing, err)
	}
	was, err = claimIn(d.GetWorkflowExecutionInfo(), t)
	if err != nil {
		return nil, true, t.Explain(ctx, doing, err)
	}
	return was, true, nil
}

func claimIn(info *workflowpb.WorkflowExecutionInfo, t *Conn) (*protocol.KeyClaim, error) {
	p := info.GetMemo().GetFields()[protocol.MemoClaim]
	if p == nil {
		return nil, nil
	}
	var was protocol.KeyClaim
	// A later run has the memo of the first, which may have begun before an upgrade.
	if err := t.Codec.Of(info.GetExecution().GetWorkflowId(), time.Time{}).FromPayload(p, &was); err != nil {
		return nil, err
	}
	return &was, nil
}
