package apiflows

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	enums "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"

	"fairlead.dev/fairlead/cmd/internal/flows"
	"fairlead.dev/fairlead/internal/batchfile"
	"fairlead.dev/fairlead/internal/errkind"
	"fairlead.dev/fairlead/internal/httpapi"
	"fairlead.dev/fairlead/internal/owned"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/batch"
	"fairlead.dev/fairlead/workflows/session"
)

// An activity reads a whole page for each start.
const (
	pageItems = 50
	pageBytes = 2 << 20
)

// spare is for suffixes of session names, such as .t99.
const spare = 4

// many are the items of a batch, checked without Temporal.
type many struct {
	items []httpapi.BatchItem
	spec  protocol.BatchSpec
	sets  []session.Options // the items' options
	of    []int             // the set of each item
}

// manyOf checks the items of a batch whose id has longest letters.
func manyOf(in httpapi.StartBatch, id string, longest int) (*many, error) {
	m := &many{items: in.Items, spec: protocol.BatchSpec{Total: len(in.Items), Window: in.Window, StopAfter: in.StopAfter, Retry: protocol.BatchRetry{Attempts: 1}}}
	if m.spec.Window == 0 {
		m.spec.Window = batchfile.DefaultWindow
	}
	if r := in.Retry; r != nil {
		m.spec.Retry = protocol.BatchRetry{Attempts: r.Attempts, On: r.On, AfterEffects: r.AfterEffects}
		if err := duration("retry.wait", r.Wait, &m.spec.Retry.Wait); err != nil {
			return nil, err
		}
		for _, kind := range r.On {
			if !flows.RetryKind(kind) {
				return nil, errkind.Usage("retry.on: %.40q is not a kind of failure that can be tried again", kind).Hinted("unreachable or network, for example")
			}
		}
	}
	seen, sets := map[string]bool{}, map[string]int{}
	for i, it := range in.Items {
		at := fmt.Sprintf("items[%d]", i)
		switch n := longest + 1 + len(it.ID) + spare; {
		case !protocol.NamePattern.MatchString(it.ID):
			return nil, errkind.Usage("%s.id: %.100q is not the id of an item", at, it.ID).Hinted("1 to 63 of a-z, 0-9, dot, dash and underscore, beginning with a letter or digit")
		case seen[it.ID]:
			return nil, errkind.Usage("%s.id: %s is there twice", at, it.ID)
		case n > 63:
			return nil, errkind.Usage("%s.id: the name of the session of item %s of %s would have %d letters, at most 63", at, it.ID, id, n).Hinted("give shorter ids")
		}
		seen[it.ID] = true
		start := in.Defaults
		if it.Session != nil {
			start = *it.Session
		}
		raw, err := json.Marshal(start)
		if err != nil {
			return nil, errkind.Usage("%s: %v", at, err)
		}
		n, known := sets[string(raw)]
		if !known {
			opt, err := unattended(start)
			if err != nil {
				return nil, within(at, err)
			}
			n = len(m.sets)
			sets[string(raw)] = n
			m.sets = append(m.sets, opt)
		}
		m.of = append(m.of, n)
	}
	return m, nil
}

// unattended returns the options of a session that closes after its one turn.
func unattended(in httpapi.StartSession) (session.Options, error) {
	switch {
	case in.ID != "":
		return session.Options{}, errkind.Usage("session.id: the session gets an id of its own")
	case in.Repo != nil && in.Repo.Token != "":
		return session.Options{}, errkind.Usage("session.repo.token: sessions of a batch or a schedule take no token over HTTP").
			Hinted("`ctl batch run` and `ctl schedule create` keep one that their sessions share (--git-token-file)")
	case in.ParkAfter != "" || in.CloseAfter:
		return session.Options{}, errkind.Usage("session.park_after and session.close_after: the session closes after its turn")
	}
	opt, err := options(in)
	opt.CloseAfter, opt.ParkAfter = true, 0
	return opt, err
}

// within says where in a request something is wrong.
func within(at string, err error) error {
	var e *errkind.Error
	if !errors.As(err, &e) {
		return err
	}
	out := *e
	out.Message = at + ": " + e.Message
	return out.Because(err)
}

// checkNames refuses unknown hosts and seeds.
func (m *many) checkNames(ctx context.Context, t *flows.Conn) error {
	for i := range m.sets {
		if err := t.CheckNames(ctx, &m.sets[i]); err != nil {
			for at, n := range m.of {
				if n == i {
					return within(fmt.Sprintf("items[%d]", at), err)
				}
			}
		}
	}
	return nil
}

// pack keeps the items in the store, for a request of an owner.
func (m *many) pack(ctx context.Context, b *Backend, owner owned.Owner, request string) (protocol.BatchSpec, error) {
	spec := m.spec
	for i := range m.sets {
		if err := b.keepAllGiven(ctx, owner, request, &m.sets[i]); err != nil {
			return spec, err
		}
	}
	var page protocol.BatchPage
	numbers, size := map[int]int{}, 0
	flush := func(next int) error {
		blob, err := b.store.KeepPage(ctx, owner, request, page)
		if err != nil {
			return err
		}
		spec.Pages = append(spec.Pages, protocol.BatchPages{First: next - len(page.Items), Blob: blob})
		page, numbers, size = protocol.BatchPage{}, map[int]int{}, 0
		return nil
	}
	for i, it := range m.items {
		n, known := numbers[m.of[i]]
		if !known {
			opt := m.sets[m.of[i]]
			raw, err := json.Marshal(opt)
			made := protocol.BatchOptions{Queue: protocol.TaskQueueOf(opt.Zone)}
			if err == nil {
				err = json.Unmarshal(raw, &made.Session)
			}
			if err != nil {
				return spec, errkind.Failed("pack item %s: %v", it.ID, err)
			}
			n = len(page.Options)
			numbers[m.of[i]] = n
			page.Options = append(page.Options, made)
			size += len(raw)
		}
		first, err := b.messageOf(ctx, owner, request, "item", it.Message)
		if err != nil {
			return spec, within(fmt.Sprintf("items[%d].message", i), err)
		}
		raw, err := json.Marshal(first)
		if err != nil {
			return spec, errkind.Failed("pack item %s: %v", it.ID, err)
		}
		size += len(raw)
		page.Items = append(page.Items, protocol.BatchItem{ID: it.ID, Options: n, First: raw})
		if len(page.Items) == pageItems || size > pageBytes || i == len(m.items)-1 {
			if err := flush(i + 1); err != nil {
				return spec, err
			}
		}
	}
	return spec, nil
}

// requestOr returns the key of a request, or a random one.
func requestOr(key string) string {
	if key == "" {
		return protocol.RandomID()
	}
	return key
}

// StartBatch implements httpapi.Batches.
func (b *Backend) StartBatch(ctx context.Context, key, id string, in httpapi.StartBatch) (out httpapi.StartedBatch, err error) {
	m, err := manyOf(in, "batch "+id, len(id))
	if err != nil {
		return out, err
	}
	k, err := flows.RequestOf(key, protocol.ClaimBatch, id, "start a batch over HTTP", in)
	if err != nil {
		return out, err
	}
	if k != nil {
		k.Called = idempotencyKey
	}
	t, err := b.conn()
	if err != nil {
		return out, err
	}
	out = httpapi.StartedBatch{ID: id, Total: len(in.Items)}
	if out.Existing, err = k.Look(ctx, t); err != nil || out.Existing {
		return out, err
	}
	if err := m.checkNames(ctx, t); err != nil {
		return out, err
	}
	spec, err := m.pack(ctx, b, owned.Owner{Kind: owned.Batch, ID: id}, requestOr(key))
	if err == nil {
		err = k.Take(ctx, t, "")
	}
	if err != nil {
		return out, err
	}
	start := client.StartWorkflowOptions{
		ID: protocol.BatchID(id), TaskQueue: protocol.TaskQueue,
		WorkflowIDReusePolicy:                    enums.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE,
		WorkflowIDConflictPolicy:                 enums.WORKFLOW_ID_CONFLICT_POLICY_FAIL,
		WorkflowExecutionErrorWhenAlreadyStarted: true,
		StaticSummary:                            "batch " + id,
	}
	k.Mark(&start)
	_, err = t.Start(ctx, "start batch "+id, start, protocol.TypeBatch, batch.Input{ID: id, Spec: spec, By: b.by(ctx)})
	out.Existing, err = k.Ours(ctx, t, err)
	return out, err
}

// wait is a time of a request, or def without one.
func wait(field, text string, def time.Duration) (time.Duration, error) {
	err := duration(field, text, &def)
	return def, err
}
