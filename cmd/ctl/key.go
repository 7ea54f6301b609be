package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"
	commonpb "go.temporal.io/api/common/v1"
	enums "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	temporalsdk "go.temporal.io/sdk/temporal"

	"fairlead.dev/fairlead/workflows"
)

const maxKey = 200

// keyFlags make a start one that may be asked for again.
type keyFlags struct{ key string }

func (f *keyFlags) add(c *cobra.Command, what string) {
	c.Flags().StringVar(&f.key, "key", "", "a `TEXT` of yours that stands for this request: asked again with it, the same "+what+" is there, and no second one; another request under it is refused")
}

func (f *keyFlags) check() error {
	switch {
	case f.key == "":
		return nil
	case len(f.key) > maxKey:
		return usage("--key: it has %d bytes, at most %d", len(f.key), maxKey)
	case !utf8.ValidString(f.key):
		return usage("--key is not UTF-8 text")
	}
	for _, r := range f.key {
		if unicode.IsControl(r) {
			return usage("--key: %q has a control character in it", f.key)
		}
	}
	return nil
}

// A keyed start is known by its key; nil is one that is not.
type keyed struct {
	workflows.Claim
	key string
}

// request is the claim of a start, nil without a key. id is what the person
// chose, if anything; what is all that was asked for.
func (f *keyFlags) request(kind, id string, what ...any) (*keyed, error) {
	if err := f.check(); err != nil || f.key == "" {
		return nil, err
	}
	if id == "" {
		id = workflows.IDOfKey(f.key)
	}
	raw, err := json.Marshal(append(what, f.key)) // maps are sorted
	if err != nil {
		return nil, failed("take the digest of the request: %v", err)
	}
	sum := sha256.Sum256(raw)
	return &keyed{key: f.key, Claim: workflows.Claim{Kind: kind, ID: id, Request: hex.EncodeToString(sum[:])}}, nil
}

// id is what a key stands for, or else what was chosen.
func (k *keyed) id(chosen string) string {
	if k == nil {
		return chosen
	}
	return k.ID
}

// messageID makes the first message one, however often it is sent; empty
// without a key.
func (k *keyed) messageID() string {
	if k == nil {
		return ""
	}
	return "m-" + k.Request[:16]
}

// shown says of a keyed start in JSON whether it had been begun before.
func (k *keyed) shown(v map[string]any, there bool) map[string]any {
	if k != nil {
		v["existing"] = there
	}
	return v
}

// anybodys are options without who chose them: a retry elsewhere is the same request.
func anybodys(opt workflows.SessionOptions) workflows.SessionOptions {
	opt.By = ""
	return opt
}

func (k *keyed) doing() string { return "start " + k.Kind + " " + k.ID }

// workflowID is what the key is for.
func (k *keyed) workflowID() string { return k.Kind + "/" + k.ID }

// mark is the memo by which what was started under a key is known.
func (k *keyed) mark(start *client.StartWorkflowOptions) {
	if k == nil {
		return
	}
	if start.Memo == nil {
		start.Memo = map[string]any{}
	}
	start.Memo[workflows.MemoClaim] = k.Claim
}

// look says whether what the key is for is there, as this very request began
// it. A key or an id that somebody else has is refused, before anything starts.
func (k *keyed) look(ctx context.Context, t *temporal) (there bool, err error) {
	if k == nil {
		return false, nil
	}
	if _, err := k.had(ctx, t); err != nil {
		return false, err
	}
	was, exists, err := t.claimOf(ctx, k.doing(), k.workflowID())
	if err != nil || !exists {
		return false, err
	}
	return true, k.same(was)
}

// take gives the key to this request, for good.
func (k *keyed) take(ctx context.Context, t *temporal, zone string) error {
	if k == nil {
		return nil
	}
	start := client.StartWorkflowOptions{
		ID: workflows.KeyID(k.key), TaskQueue: workflows.TaskQueueOf(zone), StaticSummary: "a key of " + k.workflowID(),
		WorkflowIDReusePolicy:                    enums.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE,
		WorkflowIDConflictPolicy:                 enums.WORKFLOW_ID_CONFLICT_POLICY_FAIL,
		WorkflowExecutionErrorWhenAlreadyStarted: true,
	}
	k.mark(&start)
	_, err := t.start(ctx, k.doing(), start, workflows.TypeClaimKey, k.Claim)
	if !isStarted(err) {
		return err
	}
	_, err = k.had(ctx, t)
	return err
}

// had says whether the key is taken, by this request: by another one it is refused.
func (k *keyed) had(ctx context.Context, t *temporal) (bool, error) {
	was, exists, err := t.claimOf(ctx, k.doing(), workflows.KeyID(k.key))
	if err != nil || !exists {
		return false, err
	}
	if was == nil || *was != k.Claim {
		return true, k.reused(was)
	}
	return true, nil
}

// same refuses an id that is in use by what this request did not start.
func (k *keyed) same(was *workflows.Claim) error {
	switch {
	case was == nil:
		return refused("%s: the id is in use, by one that was started without a key", k.doing()).hinted("choose another id")
	case *was != k.Claim:
		return refused("%s: the id is in use, by another request", k.doing()).hinted("choose another id")
	}
	return nil
}

func (k *keyed) reused(was *workflows.Claim) error {
	by := "something else"
	if was != nil {
		by = was.Kind + " " + was.ID
		if was.Kind == k.Kind && was.ID == k.ID {
			by = "another request"
		}
	}
	return newExit(exitRefused, "key_reused", "%s: the key %q stands for %s", k.doing(), k.key, by).
		hinted("ask for the same again, or choose another key")
}

// ours turns "it is started already" into nil where this request had done it.
func (k *keyed) ours(ctx context.Context, t *temporal, err error) (again bool, _ error) {
	if k == nil || !isStarted(err) {
		return false, err
	}
	there, lerr := k.look(ctx, t)
	if lerr != nil {
		return false, lerr
	}
	if !there {
		return false, err
	}
	return true, nil
}

// isStarted says that a start was refused since there is one of the id.
func isStarted(err error) bool {
	var started *serviceerror.WorkflowExecutionAlreadyStarted
	return errors.As(err, &started) || err != nil && temporalsdk.IsWorkflowExecutionAlreadyStartedError(err)
}

// claimOf reads a workflow's claim; nil where it has none.
func (t *temporal) claimOf(ctx context.Context, doing, workflowID string) (was *workflows.Claim, exists bool, err error) {
	ctx, cancel := t.app.bounded(ctx, answerWait)
	defer cancel()
	d, err := t.DescribeWorkflowExecution(ctx, workflowID, "")
	var gone *serviceerror.NotFound
	switch {
	case errors.As(err, &gone):
		return nil, false, nil
	case err != nil:
		return nil, false, t.explain(ctx, doing, err)
	}
	was, err = claimIn(d.GetWorkflowExecutionInfo().GetMemo(), t)
	if err != nil {
		return nil, true, t.explain(ctx, doing, err)
	}
	return was, true, nil
}

func claimIn(memo *commonpb.Memo, t *temporal) (*workflows.Claim, error) {
	p := memo.GetFields()[workflows.MemoClaim]
	if p == nil {
		return nil, nil
	}
	var was workflows.Claim
	if err := t.codec.DataConverter().FromPayload(p, &was); err != nil {
		return nil, err
	}
	return &was, nil
}
