package main

import (
	"context"
	"fmt"
	"strings"

	"fairlead.dev/fairlead/internal/lab/scenario"
)

// once fails unless each message was asked about once: a turn that was run again would ask the
// model from its first step. The schedule says the same in each of its sessions.
func (p *play) once(ctx context.Context) error {
	want := map[string]int{scheduled: phases}
	for _, said := range p.said {
		for _, text := range said {
			want[text]++
		}
	}
	for i := range 2 * phases {
		want[fmt.Sprintf("wait at gate batch-%d please, item %d", i/2+1, i+1)]++
	}
	return scenario.Again(ctx, "the model heard everything", func(context.Context) error {
		got := map[string]int{}
		for _, r := range p.lab.Model.Requests() {
			if n := len(r.UserMessages); n > 0 && r.Step == 0 && !strings.HasPrefix(r.UserMessages[n-1], reviewing) {
				got[r.UserMessages[n-1]]++
			}
		}
		for text, n := range want {
			if got[text] > n {
				return scenario.Hopeless(fmt.Errorf("the model was asked %d times about %q, not %d times", got[text], text, n))
			}
			if got[text] < n {
				return fmt.Errorf("the model was asked %d times about %q, not %d times", got[text], text, n)
			}
		}
		for text := range got {
			if want[text] == 0 {
				return scenario.Hopeless(fmt.Errorf("the model was asked about %q, which nobody said", text))
			}
		}
		return nil
	})
}
