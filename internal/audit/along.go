package audit

import (
	"slices"

	"fairlead.dev/fairlead/internal/protocol"
)

// A worker may write the record of an update and die before Temporal has its workflow task. Then
// the update comes again, in another task, and gets another record. So the store may have several
// records with one number, of which one is in the chain: the one that the next record, or the
// writer's head, has the digest of.

// Along returns the chain that ends with a head, or with the newest record if head is nil, and the
// records beside it in Strays.
func (l Log) Along(head *protocol.AuditHead) Log {
	if len(l.Strays) > 0 {
		return l
	}
	chain := Log{Entity: l.Entity}
	want := ""
	for end := len(l.Records); end > 0; {
		begin := end - 1
		for begin > 0 && l.Records[begin-1].Seq == l.Records[begin].Seq {
			begin--
		}
		seq := l.Records[begin].Seq
		if head != nil && head.Seq == seq {
			want = head.Hash
		}
		at := begin
		if end-begin > 1 {
			if i := slices.IndexFunc(l.Lines[begin:end], func(line string) bool { return digest(line) == want }); i >= 0 {
				at = begin + i
			} else if want == "" {
				chain.unsure = true
			}
		}
		for i := end - 1; i >= begin; i-- {
			if i != at {
				chain.Strays = append(chain.Strays, l.Records[i])
			}
		}
		chain.Records, chain.Lines = append(chain.Records, l.Records[at]), append(chain.Lines, l.Lines[at])
		want, end = l.Records[at].Prev, begin
	}
	slices.Reverse(chain.Records)
	slices.Reverse(chain.Lines)
	slices.Reverse(chain.Strays)
	return chain
}

// Unsure reports whether several records could be the newest one, because no head says which.
func (l Log) Unsure() bool { return l.unsure }

// stray returns a fault unless a record beside the chain can be what a worker wrote that died: it
// follows a record of the chain, and it is about a command that is in the chain, too, or that its
// principal has signed.
func (l Log) stray(r Record) *Fault {
	fault := &Fault{Entity: l.Entity, Seq: r.Seq, Reason: "there is another record of this number: one of them was added or changed"}
	prev := ""
	if n := r.Seq - 1; n < 0 || n > int64(len(l.Lines)) {
		return fault
	} else if n > 0 {
		prev = digest(l.Lines[n-1])
	}
	if r.Prev != prev || r.Outcome != Accepted {
		return fault
	}
	if (r.Source == Key || r.Source == Certificate) && r.Reason == "" && r.proven() == nil {
		return nil
	}
	for _, other := range l.Records[r.Seq-1:] {
		if r.sameCommand(other) {
			return nil
		}
	}
	return fault
}

// sameCommand reports whether two records are of one command, which may have been refused when it
// came again.
func (r Record) sameCommand(o Record) bool {
	reason := o.Reason
	if o.Outcome == Refused {
		reason = "" // that is why it was refused
	}
	return r.Reason == reason && r.Principal == o.Principal && r.Source == o.Source && r.Verb == o.Verb && r.Object == o.Object && r.Evidence == o.Evidence
}
