package apiflows

import (
	"context"

	"fairlead.dev/fairlead/internal/access"
	"fairlead.dev/fairlead/internal/audit"
	"fairlead.dev/fairlead/internal/errkind"
	"fairlead.dev/fairlead/internal/protocol"
)

// Bounds of what one request reads.
const (
	mostRecords = 200_000
	mostBytes   = 128 << 20
)

// auditLines reads records, and the heads that writers tell of their chains. Heads are read
// before the store, which may then have later records and must have all earlier ones.
func (b *Backend) auditLines(ctx context.Context, doing string, f audit.Filter) (lines []string, told map[string]protocol.AuditHead, err error) {
	told = map[string]protocol.AuditHead{}
	if h := b.store.AuditHead(); h != nil && h.Seq > 0 {
		told[h.Entity] = *h
	}
	if f.Workflow != "" {
		t, err := b.conn()
		if err != nil {
			return nil, nil, err
		}
		var v protocol.AuditView
		_, err = t.AskEither(ctx, doing, f.Workflow, protocol.QueryAudit, &v)
		switch {
		case ctx.Err() != nil:
			return nil, nil, context.Cause(ctx)
		case err == nil:
			lines = v.Waiting
			if v.Head != nil {
				told[v.Head.Entity] = *v.Head
			}
		default: // nobody can tell which record was its newest
			b.opts.Logger.Debug("api", "doing", doing, "workflow", f.Workflow, "err", err)
		}
	}
	bytes := 0
	for line, err := range b.store.AuditLines(ctx, f.Workflow) {
		if err != nil {
			return nil, nil, err
		}
		if bytes += len(line); len(lines) == mostRecords || bytes > mostBytes {
			return nil, nil, errkind.Refused("%s: there are more than %d records or %d bytes", doing, mostRecords, mostBytes).
				Hinted("name a session or a workflow; `ctl audit` reads more")
		}
		lines = append(lines, line)
	}
	return lines, told, nil
}

// AuditRecords implements httpapi.Auditor.
func (b *Backend) AuditRecords(ctx context.Context, f audit.Filter) ([]audit.Log, error) {
	const doing = "read audit records"
	lines, _, err := b.auditLines(ctx, doing, f)
	if err != nil {
		return nil, err
	}
	logs, fault := audit.Sort(lines)
	if fault != nil {
		return nil, errkind.Failed("%s: %v", doing, fault).Hinted("GET /v1/audit/verify names what does not hold")
	}
	return logs, nil
}

// VerifyAudit implements httpapi.Auditor.
func (b *Backend) VerifyAudit(ctx context.Context, f audit.Filter, proofs bool) (audit.Verified, error) {
	lines, told, err := b.auditLines(ctx, "verify audit records", f)
	if err != nil {
		return audit.Verified{}, err
	}
	var rules *audit.Rules
	if a := b.store.Access(); proofs && a != nil {
		rules = rulesOf(a)
	}
	v, _ := audit.Check(lines, told, nil, f, rules)
	return v, nil
}

func rulesOf(a *access.Access) *audit.Rules {
	return &audit.Rules{Digest: a.Digest, People: a.Signers(), Workers: a.Workers(), Revoked: a.Revoked}
}
