package api

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"fairlead.dev/fairlead/activities/records"
	"fairlead.dev/fairlead/internal/protocol"
)

// Both streams of a command arrive whole, once and in order. This holds for connections
// that break, for viewers that join late, and for output from memory and from the store.
func TestOutputOfACommandArrivesWholeAndOnce(t *testing.T) {
	b := serve(t, nil)
	rnd := rand.New(rand.NewPCG(3, 4))
	want := map[string][]byte{}
	for _, s := range []string{records.Stdout, records.Stderr} {
		want[s] = make([]byte, 3*keepOutput/2)
		for i := range want[s] {
			want[s][i] = byte(rnd.Uint32())
		}
	}
	result := protocol.ExecResult{State: "exited", Code: 3, Stdout: int64(len(want[records.Stdout])), Stderr: int64(len(want[records.Stderr]))}
	var wg sync.WaitGroup
	watch := func(name, endpoint string) {
		c := b.client(endpoint)
		wg.Go(func() {
			got := map[string][]byte{}
			var end *protocol.ExecResult
			for ev, err := range c.Exec(t.Context(), "h1", "e1", 0, 0) {
				switch {
				case err != nil:
					t.Errorf("%s: %v", name, err)
					return
				case ev.Kind == KindEnd:
					end = ev.Result
				case ev.Kind == KindOutput:
					if o := ev.Output; o.At != int64(len(got[o.Stream])) {
						t.Errorf("%s: %s at %d, want %d", name, o.Stream, o.At, len(got[o.Stream]))
					} else {
						got[o.Stream] = append(got[o.Stream], o.Data...)
					}
				}
			}
			for s := range want {
				if !bytes.Equal(got[s], want[s]) {
					t.Errorf("%s: %s has %d bytes of %d, or others", name, s, len(got[s]), len(want[s]))
				}
			}
			if end == nil || *end != result {
				t.Errorf("%s: the end is %+v, want %+v", name, end, result)
			}
		})
	}
	watch("steady", "")
	watch("rough", roughly(t, b.server.Address(), 1, 2<<20))
	topic := records.ExecTopic("e1")
	at, kept := map[string]int64{}, map[string]int64{}
	for at[records.Stdout] < result.Stdout || at[records.Stderr] < result.Stderr {
		s := []string{records.Stdout, records.Stderr}[rnd.IntN(2)]
		n := min(int64(1+rnd.IntN(32<<10)), int64(len(want[s]))-at[s])
		if n == 0 {
			continue
		}
		b.show(topic, records.LiveOutput, 0, protocol.ExecChunk{Stream: s, At: at[s], Data: want[s][at[s] : at[s]+n]})
		at[s] += n
		if at[s]-kept[s] > 256<<10 || at[s] == int64(len(want[s])) {
			key := fmt.Sprintf("exec/e1/%s-%016d", s, kept[s])
			if err := b.store.Create(context.Background(), key, want[s][kept[s]:at[s]]); err != nil {
				t.Fatal(err)
			}
			kept[s] = at[s]
		}
	}
	watch("late", roughly(t, b.server.Address(), 2, 2<<20))
	data, err := json.Marshal(result)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.store.Create(t.Context(), "exec/e1/end", data); err != nil {
		t.Fatal(err)
	}
	b.show(topic, records.LiveState, 0, records.ExecLive{Ended: true, Result: result})
	watch("after the end", "")
	wg.Wait()
	wait(t, "topics are forgotten", func() bool { return b.hub.Topics() == 0 })
}
