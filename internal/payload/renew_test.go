package payload

import (
	"errors"
	"sync"
	"testing"
	"time"

	commonpb "go.temporal.io/api/common/v1"
)

// A codec takes other keys while it is in use, with all codecs that were made of it. What former
// keys encrypted and marked still counts.
func TestACodecInUseTakesOtherKeys(t *testing.T) {
	old, fresh, workersOld, workersNew := key(t), key(t), key(t), key(t)
	base := NewCodec("ns", old)
	c := base.Since(time.Time{}).ForWorkers(Workers{Keys: []Key{workersOld}, Required: true})
	p := plain(t, "text")
	before := encode(t, c, p)
	if err := c.Renew(); !errors.Is(err, ErrKeyFile) {
		t.Errorf("no keys: %v", err)
	}
	if err := NewCodec("ns").Renew(fresh); err == nil {
		t.Error("a codec without keys took some")
	}
	if err := base.RenewWorkers(workersNew); err == nil {
		t.Error("a codec without keys of workers took some")
	}
	var all sync.WaitGroup
	for range 4 { // for the race detector
		all.Go(func() {
			for range 50 {
				sealed, err := c.Encode([]*commonpb.Payload{p})
				if err == nil {
					_, err = c.Decode(sealed)
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	if err := errors.Join(c.Renew(fresh), c.RenewWorkers(workersNew)); err != nil {
		t.Fatal(err)
	}
	all.Wait()
	for name, codec := range map[string]*Codec{"the first codec": base, "the workers' codec": c} {
		if id, _ := codec.Encrypts(); id != fresh.ID() {
			t.Errorf("%s encrypts with %s", name, id)
		}
	}
	after := encode(t, c, p)
	if id := string(after.Metadata[metadataWorkerKey]); id != workersNew.ID() {
		t.Errorf("marked with %s", id)
	}
	if both, err := c.Decode([]*commonpb.Payload{before, after}); err != nil || len(both) != 2 {
		t.Errorf("what former and new keys encrypted: %v", err)
	}
	for _, q := range []*commonpb.Payload{before, after} {
		if ok, err := c.marked(q, ""); !ok || err != nil {
			t.Errorf("the mark of what was encrypted with %s: %v, %v", q.Metadata[metadataKeyID], ok, err)
		}
	}
}
