package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"
)

// A snapResult is what became of one row.
type snapResult struct {
	fault, step, id string
	nth             int
	took            bool

	lost, half, two, history, wrong []string
}

func (r *snapResult) clean() bool {
	return r.took && len(r.lost)+len(r.half)+len(r.two)+len(r.history)+len(r.wrong) == 0
}

// trySnapshots runs the rows and prints their matrix.
func trySnapshots(ctx context.Context, o options) (err error) {
	if o.repo, err = o.repository(); err != nil {
		return err
	}
	times := max(1, o.runs/200) // as those of seeds
	if o.short {
		times = 1
	}
	s, err := newStage(ctx, o, 1, (&writer{w: o.out}).printf)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	began := time.Now()
	var results []snapResult
	for nth := range times {
		for _, i := range random(o.seed, "snapshots", nth).Perm(len(snapRows)) {
			row := snapRows[i]
			named := strings.EqualFold(o.only, "snapshots: "+row.fault)
			switch {
			case ctx.Err() != nil:
				return ctx.Err()
			case o.short && !row.short, o.only != "" && o.only != "snapshots" && !named:
				continue
			case o.moment != "" && !strings.EqualFold(o.moment, row.step), o.nth >= 0 && o.nth != nth:
				continue
			}
			results = append(results, s.snapRow(ctx, o, row, nth))
		}
	}
	fmt.Fprintf(o.out, "\n%s\nsnapshots: seed %d, %d runs in %s\n", plainTable(snapTable(results)), o.seed, len(results), time.Since(began).Round(time.Second))
	if o.markdown != "" {
		f, err := os.OpenFile(o.markdown, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(f, "\nSnapshots, by the step that is struck:\n\n%s", markdownTable(snapTable(results)))
		if err = errors.Join(err, f.Close()); err != nil {
			return err
		}
	}
	if len(results) == 0 || slices.ContainsFunc(results, func(r snapResult) bool { return !r.clean() }) {
		return errNotClean
	}
	return nil
}

func snapTable(results []snapResult) [][]string {
	rows := [][]string{{"fault", "step", "runs", "work lost", "half, said to be whole", "two codexes", "history", "wrong"}}
	line := func(fault, step string, of func(snapResult) bool) {
		runs, tried, n := 0, 0, [5]int{}
		for _, r := range results {
			if !of(r) {
				continue
			}
			tried++
			if r.took {
				runs++
			}
			for i, what := range [][]string{r.lost, r.half, r.two, r.history, r.wrong} {
				n[i] += len(what)
			}
		}
		if tried == 0 {
			return
		}
		row := []string{fault, step, fmt.Sprint(runs)}
		if runs != tried {
			row[2] = fmt.Sprintf("%d of %d", runs, tried)
		}
		for _, x := range n {
			row = append(row, fmt.Sprint(x))
		}
		rows = append(rows, row)
	}
	for _, r := range snapRows {
		line(r.fault, r.step, func(x snapResult) bool { return x.fault == r.fault && x.step == r.step })
	}
	line("all", "", func(snapResult) bool { return true })
	return rows
}

// snapRow runs one and judges it.
func (s *stage) snapRow(ctx context.Context, o options, row snapRow, nth int) (res snapResult) {
	rng := random(o.seed, "snapshots", row.fault, row.step, nth)
	res = snapResult{fault: row.fault, step: row.step, nth: nth, id: fmt.Sprintf("s%08x-%d", rng.Uint32(), nth)}
	k := &snapRun{stage: s, rng: rng, res: &res, options: snapOptions, states: map[string]int{}}
	began := time.Now()
	wrong := func(what string, err error) {
		if err != nil {
			res.wrong = append(res.wrong, what+": "+err.Error())
		}
	}
	for _, name := range []string{"p1", "p2"} {
		h, err := s.host(ctx, name)
		if err != nil {
			wrong("the hosts", err)
			return res
		}
		k.hosts = append(k.hosts, h)
	}
	k.options.Host = k.hosts[0].name
	k.run = &run{stage: s, host: k.hosts[0], fault: faults[0], moment: moments[0], id: res.id, rng: rng}
	defer func() { k.report(o, time.Since(began)) }()
	watched := k.watch(ctx)
	if err := row.go_(ctx, k); err != nil {
		wrong("the run", err)
	} else {
		res.took = true
	}
	if err := k.close(ctx); err != nil {
		wrong("the close", err)
	} else {
		wrong("the judge", k.judge(ctx))
	}
	watched()
	return res
}

func (s *snapRun) report(o options, took time.Duration) {
	res := s.res
	var b strings.Builder
	verdict := "ok"
	if !res.clean() {
		verdict = "FAILED"
		for _, part := range []struct {
			name  string
			words []string
		}{{"work lost", res.lost}, {"half a snapshot", res.half}, {"two codexes", res.two}, {"history", res.history}, {"wrong", res.wrong}} {
			for _, word := range part.words {
				fmt.Fprintf(&b, "\n    %s: %.1500s", part.name, word)
			}
		}
		fmt.Fprintf(&b, "\n    again: go run ./deploy/faults -seed %d -only %q -moment %q -nth %d", o.seed, "snapshots: "+res.fault, res.step, res.nth)
		for _, line := range s.run.trace {
			fmt.Fprintf(&b, "\n      %s %s", s.run.id, line)
		}
	}
	s.say("%s snapshots: %-32s %-8s %s, %s%s", time.Now().UTC().Format("15:04:05"), res.fault, res.step, verdict, took.Round(100*time.Millisecond), b.String())
}

// untar unpacks an archive with the machine's own tar: a second opinion.
func untar(ctx context.Context, archive, dir string) error {
	out, err := exec.CommandContext(ctx, "tar", "-C", dir, "-xpf", archive).CombinedOutput()
	if err != nil {
		return fmt.Errorf("tar: %w: %s", err, out)
	}
	return nil
}
