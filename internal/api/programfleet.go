package api

import (
	"context"
	"encoding/json"
	"iter"
	"net/http"
	"strings"

	"fairlead.dev/fairlead/activities/batches"
	"fairlead.dev/fairlead/activities/records"
	"fairlead.dev/fairlead/activities/workspaces"
	"fairlead.dev/fairlead/internal/access"
	"fairlead.dev/fairlead/internal/audit"
	"fairlead.dev/fairlead/internal/owned"
	"fairlead.dev/fairlead/internal/protocol"
)

// May reports whether the caller may do something to an object that a handler knows.
func (p *Records) May(ctx context.Context, verb access.Verb, o access.Object) bool {
	c := callerOf(ctx)
	return c == nil || p.s.opts.Authority == nil || p.s.callers.judge(c, need{verb: verb, object: o}).Allowed
}

// MayReadBatch reports whether the caller may read a batch.
func (p *Records) MayReadBatch(ctx context.Context, id string) bool {
	if p.s.opts.Authority == nil {
		return true
	}
	_, err := p.s.callers.allow(ctx, callerOf(ctx), need{verb: access.SessionRead, batch: id})
	return err == nil
}

// Access returns the access file that counts now, or nil without authority.
func (p *Records) Access() *access.Access {
	if p.s.opts.Authority == nil {
		return nil
	}
	return p.s.opts.Authority.Current()
}

// AuditHead returns the newest record of this worker's own chain, or nil.
func (p *Records) AuditHead() *protocol.AuditHead {
	if p.s.opts.Status == nil {
		return nil
	}
	return p.s.opts.Status().Audit
}

// AuditLines returns the audit records of a workflow or Schedule and those of all workers, or
// all if workflow is empty. Nothing of them is verified. Some may come twice, and some may be
// of others.
func (p *Records) AuditLines(ctx context.Context, workflow string) iter.Seq2[string, error] {
	entities := []string{""}
	if workflow != "" {
		entities = []string{workflow, "worker"}
		if strings.HasPrefix(workflow, protocol.ScheduleOrigins) {
			entities[0] = strings.TrimSuffix(protocol.ScheduleOrigins, "/")
		}
	}
	return func(yield func(string, error) bool) {
		for _, entity := range entities {
			for line, err := range records.ReadAudit(ctx, p.s.opts.Store, entity) {
				if len(line) > audit.MaxLine { // it is no record, and no reader takes it for one
					line = line[:audit.MaxLine+1]
				}
				if !yield(line, err) || err != nil {
					return
				}
			}
		}
	}
}

// BatchResults returns a part of a batch's results: JSON lines.
func (p *Records) BatchResults(ctx context.Context, blob string) ([]byte, error) {
	data, err := batches.ReadResults(ctx, p.s.opts.Store, blob)
	if err != nil {
		return nil, storeProblem(err, "the results are gone")
	}
	return data, nil
}

// folderOf returns a folder of the caller's for one request: the same for a repetition.
func (p *Records) folderOf(ctx context.Context, owner owned.Owner, request string) (string, error) {
	folder := owner.RunFolder(request)
	if c := callerOf(ctx); c != nil {
		mine, ok := owned.FolderOf(folder, c.principal)
		if !ok {
			return "", foreignFolder(folder, c.principal)
		}
		folder = mine
	}
	return folder, nil
}

// KeepPage puts items of a batch or of a schedule's batches into the store, under the same name
// for the same request of the caller.
func (p *Records) KeepPage(ctx context.Context, owner owned.Owner, request string, page protocol.BatchPage) (string, error) {
	if err := batches.CheckBatchPage(page); err != nil {
		return "", badInput("%v", err)
	}
	data, err := json.Marshal(page)
	if err != nil {
		return "", badInput("%v", err)
	}
	if len(data) > batches.MaxBatchPage {
		return "", badInput("the items take %d bytes, at most %d", len(data), batches.MaxBatchPage)
	}
	folder, err := p.folderOf(ctx, owner, request)
	if err != nil {
		return "", err
	}
	return p.s.putOwned(ctx, folder, owned.Pages, data)
}

// KeepText puts a long text into the store, under the same name for the same request of the
// caller.
func (p *Records) KeepText(ctx context.Context, owner owned.Owner, request, text string) (string, error) {
	if err := checkMessage([]byte(text)); err != nil {
		return "", err
	}
	folder, err := p.folderOf(ctx, owner, request)
	if err != nil {
		return "", err
	}
	return p.s.putOwned(ctx, folder, owned.Messages, []byte(text))
}

// KeepToken keeps a token for the git server of a session's repository.
func (p *Records) KeepToken(ctx context.Context, session, repo, token string) (string, error) {
	if !p.s.secure {
		return "", problem(http.StatusForbidden, ErrRefused, openToListener).hinted(listenPrivate)
	}
	who, _, _ := Principal(ctx)
	blob, err := workspaces.StoreToken(ctx, p.s.opts.Store, session, "", repo, token, who)
	if err != nil {
		return "", ownedProblem(err)
	}
	return blob, nil
}
