package audit

import (
	"fmt"
	"time"

	"fairlead.dev/fairlead/internal/protocol"
)

// Bounds of the records that wait for the store.
const (
	// Enough is how many records are worth an activity of their own.
	Enough      = 32
	enoughBytes = 48 << 10
	// maxWaiting and maxBytes bound the records that wait. Refused ones may take half of it,
	// so that a flood of them does not keep accepted ones out.
	maxWaiting = 100
	maxBytes   = 128 << 10
)

// A Chain is the newest part of an entity's records. It is carried in the state of its
// writer. The zero value of all but Entity is the beginning.
type Chain struct {
	Entity string `json:"entity,omitempty"`
	Seq    int64  `json:"seq,omitempty"`  // of the newest record
	Head   string `json:"head,omitempty"` // digest of its line
	// Waiting are the newest lines, which may not be in the store.
	Waiting []string `json:"waiting,omitempty"`
	// Left counts records that came when too many waited.
	Left *Left `json:"left,omitempty"`
}

// Left tells of records that were too many. They become one record.
type Left struct {
	Accepted int       `json:"accepted,omitempty"`
	Refused  int       `json:"refused,omitempty"`
	Digest   string    `json:"digest"` // over all of them, in their order
	Since    time.Time `json:"since"`
}

// A Batch is records to be written, the oldest first.
type Batch = protocol.AuditBatch

// Written is the report of an activity that wrote a batch.
type Written struct {
	Entity string `json:"entity,omitempty"`
	Seq    int64  `json:"seq"` // of the newest record that is in the store
}

// Add appends a record, and sets its entity, seq and prev.
func (c *Chain) Add(r Record) {
	r.Entity, r.Seq, r.Prev = c.Entity, c.Seq+1, c.Head
	line := r.line()
	share := 1
	if r.Outcome == Refused {
		share = 2
	}
	if len(c.Waiting) >= maxWaiting/share || c.bytes()+len(line) > maxBytes/share {
		c.Leave(r)
		return
	}
	c.admit(line)
}

func (c *Chain) admit(line string) {
	c.Seq++
	c.Head = digest(line)
	c.Waiting = append(c.Waiting, line)
}

// Leave counts a record, and does not keep it.
func (c *Chain) Leave(r Record) {
	r.Seq, r.Prev = 0, ""
	if c.Left == nil {
		at, _ := time.Parse(time.RFC3339Nano, r.At) // as TimeText wrote it
		c.Left = &Left{Since: at}
	}
	if r.Outcome == Refused {
		c.Left.Refused++
	} else {
		c.Left.Accepted++
	}
	c.Left.Digest = digest(c.Left.Digest + r.line())
}

func (c *Chain) bytes() (n int) {
	for _, l := range c.Waiting {
		n += len(l)
	}
	return n
}

// Empty reports whether all records are in the store.
func (c *Chain) Empty() bool { return len(c.Waiting) == 0 && c.Left == nil }

// Due reports whether the records that wait are enough to be written by themselves.
func (c *Chain) Due() bool {
	return len(c.Waiting) >= Enough || c.Left != nil || c.bytes() >= enoughBytes
}

// Batch returns what waits, or nil.
func (c *Chain) Batch() *Batch {
	if len(c.Waiting) == 0 {
		return nil
	}
	return &Batch{Entity: c.Entity, First: c.Seq - int64(len(c.Waiting)) + 1, Lines: append([]string(nil), c.Waiting...)}
}

// Wrote drops records up to a seq, which are in the store. What was left out becomes a
// record then.
func (c *Chain) Wrote(seq int64) {
	n := min(seq-(c.Seq-int64(len(c.Waiting))), int64(len(c.Waiting)))
	if n <= 0 {
		return
	}
	if c.Waiting = c.Waiting[n:]; len(c.Waiting) == 0 {
		c.Waiting = nil
	}
	c.Settle()
}

// Settle makes one record of those that were left out, if there is room.
func (c *Chain) Settle() {
	if l := c.Left; l != nil && len(c.Waiting) < maxWaiting {
		c.Left = nil
		c.admit(Record{
			Entity: c.Entity, Seq: c.Seq + 1, Prev: c.Head, At: TimeText(l.Since), Source: Workflow, Verb: Omitted, Object: c.Entity, Outcome: Accepted,
			Reason:   fmt.Sprintf("%d accepted and %d refused commands and events were too many for the record: they are counted, and not kept", l.Accepted, l.Refused),
			Evidence: Evidence{Args: l.Digest},
		}.line())
	}
}

// Stored returns the head of what is in the store, or nil if nothing is.
func (c *Chain) Stored() *protocol.AuditHead {
	head := &protocol.AuditHead{Entity: c.Entity, Seq: c.Seq - int64(len(c.Waiting)), Hash: c.Head}
	if head.Seq < 1 {
		return nil
	}
	if len(c.Waiting) > 0 {
		r, err := Parse(c.Waiting[0])
		if err != nil { // not reached: Add wrote it
			return nil
		}
		head.Hash = r.Prev
	}
	return head
}

// Newest returns the head of a chain, or nil if there are no records.
func (c *Chain) Newest() *protocol.AuditHead {
	if c.Seq == 0 {
		return nil
	}
	return &protocol.AuditHead{Entity: c.Entity, Seq: c.Seq, Hash: c.Head, Waiting: len(c.Waiting)}
}
