package authority

import (
	"slices"

	"go.temporal.io/sdk/workflow"

	"fairlead.dev/fairlead/internal/audit"
	"fairlead.dev/fairlead/internal/command"
)

type begunKey struct{}

// A begun is an update that its handler is about to take, with its record. A nil begun has none.
type begun struct {
	ledger *Ledger
	record *audit.Record
}

// begun puts an update on record. If the handler waits, the record says that it was accepted.
// Otherwise it says what the handler answered. judged is the digest of the access file that
// judged the update.
func (l *Ledger) begun(name string, r rule, args []any, judged string) *begun {
	if l == nil || len(args) != 1 {
		return nil
	}
	raw, err := command.Marshal(args[0])
	if err != nil {
		return nil // the judge has marshalled it
	}
	who := ""
	if a := authIn(args); a != nil {
		who = a.Principal
	}
	rec := l.record(workflow.GetInfo(l.ctx).WorkflowExecution.ID, name, r.verb, raw, who, nil)
	rec.Access = judged
	l.pending = append(l.pending, &rec)
	l.due = true
	return &begun{l, &rec}
}

// waits reports whether the record is in no chain yet.
func (b *begun) waits() bool { return b != nil && slices.Contains(b.ledger.pending, b.record) }

// take moves the record from those that wait to the chain.
func (b *begun) take() {
	l := b.ledger
	i := slices.Index(l.pending, b.record)
	l.pending = slices.Delete(l.pending, i, i+1)
	l.add(*b.record)
}

// fails says that the handler answers with an error.
func (b *begun) fails(err error) {
	if b.waits() && err != nil {
		b.record.Outcome, b.record.Reason = audit.Refused, err.Error()
	}
}

func (b *begun) answered(err error) {
	if b.waits() {
		b.fails(err)
		b.take()
	}
}

// batch returns the records that wait in the chain, with this one; nil if it is not in a chain
// afterwards.
func (b *begun) batch() *audit.Batch {
	if !b.waits() {
		return nil
	}
	c := *b.ledger.chain
	c.Waiting, c.Left = slices.Clone(c.Waiting), nil
	//workflowcheck:ignore // JSON and digests are pure functions
	c.Add(*b.record)
	if c.Left != nil { // too many wait
		return nil
	}
	return c.Batch()
}

// written says that the store has what batch returned.
func (b *begun) written() {
	if !b.waits() {
		return
	}
	l := b.ledger
	b.take()
	l.chain.Wrote(l.chain.Seq)
	l.due = len(l.pending) > 0 || !l.chain.Empty()
}
