package payload

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/workflow"
)

// Metadata of a payload that a worker wrote: the id of a key that only workers have, and a
// tag made with it. The tag covers the namespace, the place, the purpose and the encrypted
// content.
const (
	metadataWorkerKey = "fairlead-worker-key"
	metadataWorkerTag = "fairlead-worker-tag"
	// metadataOrigin is in the plain payload of a signal, which no other program sees.
	metadataOrigin = "fairlead-origin"
)

// Workers says how a worker marks what it writes, and what it takes from workers only.
type Workers struct {
	Keys []Key // the first marks, and all verify
	// Required refuses what only workers may write, if it has no valid tag: inputs, results
	// and heartbeats of activities, recorded side effects, and the messages for which
	// Internal is true. A client refuses answers of workflows.
	Required bool
	// Since is when all workers had a key. Workflows and activities that began earlier may
	// have payloads without a tag. If it is zero, none may.
	Since    time.Time
	Internal func(Message) bool
}

// A Message is a signal or an update to a workflow.
type Message struct {
	Update bool
	Name   string
}

// An Origin says who wrote a payload.
type Origin int

// The origins.
const (
	// Unknown means that nothing is required of the workflow: the program has no key of
	// workers, or the workflow began before all workers had one.
	Unknown Origin = iota
	FromWorker
	FromOthers
)

// A workersKey is a key of workers, for tags.
type workersKey struct {
	id     string
	secret []byte
}

type workers struct {
	Workers
	tags *atomic.Pointer[[]workersKey]
}

// keys are those of this moment; the first marks.
func (w *workers) keys() []workersKey { return *w.tags.Load() }

func workersKeysOf(keys []Key) (all []workersKey) {
	for _, k := range keys {
		mac := hmac.New(sha256.New, k.secret[:])
		mac.Write([]byte("fairlead worker tag\x00"))
		all = append(all, workersKey{k.id, mac.Sum(nil)})
	}
	return all
}

// RenewWorkers gives a codec that ForWorkers made the keys of workers that a file has now. The
// first marks. Keys that are no longer in the file still verify, until the program ends.
func (c *Codec) RenewWorkers(keys ...Key) error {
	switch {
	case c.workers == nil:
		return errors.New("change the workers' payload keys: this worker began without any, and must start again to use some")
	case len(keys) == 0:
		return fmt.Errorf("change the workers' payload keys: %w", ErrKeyFile)
	}
	all := workersKeysOf(keys)
	for _, k := range c.workers.keys() {
		if !slices.ContainsFunc(all, func(n workersKey) bool { return n.id == k.id }) {
			all = append(all, k)
		}
	}
	c.workers.tags.Store(&all)
	return nil
}

// ForWorkers returns the codec of a worker. It marks what it encrypts as written by a
// worker. A program without such a key reads the same payloads, and verifies no tag.
func (c *Codec) ForWorkers(w Workers) *Codec {
	other := *c
	other.workers = nil
	if len(w.Keys) > 0 {
		other.workers = &workers{Workers: w, tags: &atomic.Pointer[[]workersKey]{}}
		tags := workersKeysOf(w.Keys)
		other.workers.tags.Store(&tags)
	}
	return &other
}

func (k workersKey) tag(namespace, at, purpose string, p *commonpb.Payload) []byte {
	mac := hmac.New(sha256.New, k.secret)
	for _, part := range []string{"fairlead worker 2", namespace, k.id, at, purpose, string(p.GetMetadata()[metadataKeyID])} {
		mac.Write(binary.BigEndian.AppendUint64(nil, uint64(len(part))))
		mac.Write([]byte(part))
	}
	mac.Write(p.GetData())
	return mac.Sum(nil)
}

// mark adds a worker's tag to an encrypted payload.
func (c *Codec) mark(at, purpose string, p *commonpb.Payload) {
	if c.workers == nil {
		return
	}
	k := c.workers.keys()[0]
	p.Metadata[metadataWorkerKey], p.Metadata[metadataWorkerTag] = []byte(k.id), k.tag(c.namespace, at, purpose, p)
}

// marked reports whether a worker wrote a payload for a purpose and for the place in the
// payload's metadata. An error means that this program lacks the key.
func (c *Codec) marked(p *commonpb.Payload, purpose string) (bool, error) {
	meta := p.GetMetadata()
	if c.workers == nil || len(meta[metadataWorkerTag]) == 0 || formOf(p) != boundForm {
		return false, nil
	}
	id, keys := string(meta[metadataWorkerKey]), c.workers.keys()
	for _, k := range keys {
		if k.id == id {
			return hmac.Equal(meta[metadataWorkerTag], k.tag(c.namespace, string(meta[metadataPlace]), purpose, p)), nil
		}
	}
	e := &Error{KeyID: known(id), Err: ErrNoKey, worker: true}
	for _, k := range keys {
		e.Have = append(e.Have, k.id)
	}
	return false, e
}

// ByWorkers reports whether workers wrote the input of a workflow. A codec without a key of
// workers cannot tell, and reports true.
func (c *Codec) ByWorkers(workflowType string, payloads []*commonpb.Payload) bool {
	if c.workers == nil {
		return true
	}
	o, err := c.origin(time.Time{}, forInput(workflowType), payloads)
	return err == nil && o == FromWorker
}

// requires reports whether tags are required of what began at that time; zero if unknown.
func (c *Codec) requires(began time.Time) bool {
	w := c.workers
	return w != nil && w.Required && (w.Since.IsZero() || !began.IsZero() && !began.Before(w.Since))
}

// internal returns an error unless a worker wrote a payload, or no tag is required.
func (c *Codec) internal(at place, purpose string, began time.Time, p *commonpb.Payload) error {
	if !c.requires(began) {
		return nil
	}
	ok, err := c.marked(p, purpose)
	if err == nil && !ok {
		err = &Error{Err: ErrForged, at: at, began: began, since: c.workers.Since}
	}
	return err
}

// origin says who wrote all these payloads for a workflow that began at that time. If the
// workflow needs no marks, a mark that was made with an unknown key is ignored.
func (c *Codec) origin(began time.Time, purpose string, payloads []*commonpb.Payload) (Origin, error) {
	all := len(payloads) > 0
	for _, p := range payloads {
		ok, err := c.marked(p, purpose)
		if err != nil && c.requires(began) {
			return FromOthers, err
		}
		all = all && ok
	}
	switch {
	case all:
		return FromWorker, nil
	case c.requires(began):
		return FromOthers, nil
	}
	return Unknown, nil
}

// takesFrom returns an error if a message must come from a worker and does not.
func (c *Codec) takesFrom(o Origin, at place, began time.Time, m Message) error {
	if o != FromOthers || !c.workers.Internal(m) {
		return nil
	}
	return &Error{Err: ErrForged, at: at, began: began, since: c.workers.Since}
}

type startKey struct{}

// StartedBy says who wrote the input of a workflow.
func StartedBy(ctx workflow.Context) Origin {
	o, _ := ctx.Value(startKey{}).(Origin)
	return o
}

// SignalledBy says who sent a signal. The payload is that of a converter.RawValue from the
// signal's channel.
func SignalledBy(p *commonpb.Payload) Origin {
	switch string(p.GetMetadata()[metadataOrigin]) {
	case "worker":
		return FromWorker
	case "others":
		return FromOthers
	}
	return Unknown
}

// signalled writes the origin into the plain payloads of a signal.
func signalled(o Origin, opened []*commonpb.Payload) {
	for _, p := range opened {
		delete(p.GetMetadata(), metadataOrigin) // the sender may claim anything
		word := map[Origin]string{FromWorker: "worker", FromOthers: "others"}[o]
		if word == "" {
			continue
		}
		if p.Metadata == nil {
			p.Metadata = map[string][]byte{}
		}
		p.Metadata[metadataOrigin] = []byte(word)
	}
}
