package main

import (
	"context"
	"fmt"
	"path/filepath"
	"reflect"
	"time"

	"fairlead.dev/fairlead/internal/lab"
	"fairlead.dev/fairlead/internal/protocol"
)

// A stretch is the work under certain workers.
type stretch struct {
	name  string
	from  string // folder of the programs that are put in
	n     int    // workers that run the one of this folder
	knows bool   // all workers are of N+1
	also  func(context.Context) error
}

// through goes through all phases. Before and after each change of workers, workflows go on as
// new runs, so that their states pass from one build to the other.
func (s *stage) through(ctx context.Context, p *play, old, next string) error {
	var kept map[string]carry
	all := []stretch{
		{name: "N"},
		{name: "N beside N+1", from: next, n: 1},
		{name: "N+1", from: next, n: workers, knows: true, also: p.beginNovel},
		{name: "back to N", from: old, n: workers, also: p.missNovel},
		{name: "N+1 again", from: next, n: workers, knows: true, also: p.meetNovel},
	}
	for i, now := range all {
		began := time.Now()
		err := func() error {
			if i > 0 {
				was := all[i-1]
				must, except := p.idle(), novels
				if was.knows {
					must, except = append(must, novels...), nil
				}
				before, err := renewed(ctx, s.lab, must, except)
				if err != nil {
					return err
				}
				if was.knows {
					kept = before
				}
				if err := s.change(ctx, now); err != nil {
					return err
				}
				after, err := renewed(ctx, s.lab, p.idle(), novels)
				if err != nil {
					return err
				}
				if err := equal(before, after); err != nil {
					return err
				}
			}
			if now.also != nil {
				if err := now.also(ctx); err != nil {
					return err
				}
			}
			return p.use(ctx)
		}()
		if err != nil {
			return fmt.Errorf("%s: %w", now.name, err)
		}
		fmt.Printf("upgrade: %s: as expected, %s\n", now.name, time.Since(began).Round(time.Second))
	}
	return s.outlasted(ctx, kept)
}

// change puts other programs in. ctl is the last to be brought up to date.
func (s *stage) change(ctx context.Context, to stretch) error {
	if err := s.replace(ctx, filepath.Join(to.from, "worker"), to.n); err != nil || to.n < workers {
		return err
	}
	return lab.PlaceProgram(filepath.Join(to.from, "ctl"), filepath.Join(s.dir, "bin", "ctl"))
}

// idle returns the workflows in which nothing goes on while workers are replaced.
func (p *play) idle() (ids []string) {
	for i := range p.n {
		ids = append(ids, protocol.SessionID(fmt.Sprintf("%s-%d", waits, i+1)))
	}
	return ids
}

// outlasted fails unless the fields that N does not know are still in the states that had them.
func (s *stage) outlasted(ctx context.Context, before map[string]carry) error {
	after, err := renewed(ctx, s.lab, novels, nil)
	if err != nil {
		return err
	}
	for id, field := range map[string]func(map[string]any) any{
		novels[0]: func(state map[string]any) any {
			follow, _ := state["follow"].(map[string]any)
			return follow["rules"]
		},
		novels[1]: func(state map[string]any) any { return state["follow_ups"] },
	} {
		was, is := field(before[id].state), field(after[id].state)
		if was == nil || !reflect.DeepEqual(was, is) {
			return fmt.Errorf("%s: what N does not know was %s and is %s", id, text(was), text(is))
		}
	}
	fmt.Println("upgrade: what N does not know has outlasted N, in the state of a session and of a seed")
	return nil
}
