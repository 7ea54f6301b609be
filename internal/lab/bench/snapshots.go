package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"fairlead.dev/fairlead/hostexec/hosttest"
)

// treeOptions are the options of measureSnapshots.
type treeOptions struct {
	files  int
	size   int64
	rounds int
	beside string // names of rivals, comma-separated
	lines  string // loopback, far, comma-separated
	parts  string // first, next, restore, comma-separated; first is always done
	nexts  int    // how often in a round a hundredth changes and is kept
}

func (o *treeOptions) has(part string) bool {
	return slices.Contains(strings.Split(o.parts, ","), part)
}

// ways returns Fairlead's keepers and the selected rivals.
func (o *options) ways() ([]keeper, error) {
	all := []keeper{ours(o, false), ours(o, true)}
	for _, name := range strings.Split(o.tree.beside, ",") {
		i := slices.IndexFunc(rivals, func(k keeper) bool { return strings.Fields(k.name)[0] == name })
		if i < 0 {
			return nil, fmt.Errorf("-beside %s: here are rsync, restic and tar", name)
		}
		all = append(all, rivals[i])
	}
	return all, nil
}

// measureSnapshots keeps a tree that is on a host, first as it is and then with
// each hundredth file changed, and restores it, alternating with the rivals.
// Every way starts from nothing each time: Fairlead's dials the host and opens
// the store within the measured time. Separately, Fairlead is measured on a
// connection that exists, as a worker has after a turn.
func measureSnapshots(ctx context.Context, o *options) (err error) {
	for _, need := range []string{"rsync", "restic", "zstd", "tar"} {
		if _, err := exec.LookPath(need); err != nil {
			return fmt.Errorf("%s is missing, which this is measured beside: run `sh deploy/rivals.sh`", need)
		}
	}
	const shm = "/dev/shm"
	var fs unix.Statfs_t
	if err := unix.Statfs(shm, &fs); err != nil || fs.Type != unix.TMPFS_MAGIC {
		return fmt.Errorf("%s is no tmpfs (%v): it would measure the disk", shm, err)
	}
	dir, err := os.MkdirTemp(shm, "fairlead-bench-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	line, err := hosttest.NewDelayLine(ctx, 25*time.Millisecond)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, line.Close()) }()
	for _, far := range []*hosttest.DelayLine{nil, line} {
		if name := map[bool]string{true: "loopback", false: "far"}[far == nil]; !slices.Contains(strings.Split(o.tree.lines, ","), name) {
			continue
		}
		if err := measureSite(ctx, o, dir, far); err != nil {
			return err
		}
	}
	return nil
}

func measureSite(ctx context.Context, o *options, dir string, far *hosttest.DelayLine) (err error) {
	s := &site{name: "loopback", dir: filepath.Join(dir, "loopback"), workerIP: "127.0.0.1"}
	worker := hosttest.Options{}
	if far != nil {
		s.name, s.dir, s.workerIP = "50 ms round trip", filepath.Join(dir, "far"), far.Near()
		worker.Config = []string{"ListenAddress 127.0.0.1", "ListenAddress " + far.Near()}
	}
	for _, d := range []string{"sshd", "worker"} {
		if err := os.MkdirAll(filepath.Join(s.dir, d), 0o755); err != nil {
			return err
		}
	}
	if s.host, err = hosttest.NewSSHD(ctx, filepath.Join(s.dir, "sshd"), hosttest.Options{Name: "web-1", Behind: far}); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.host.Close()) }()
	if s.worker, err = hosttest.NewSSHD(ctx, filepath.Join(s.dir, "worker"), worker); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.worker.Close()) }()
	for _, d := range []*hosttest.SSHD{s.host, s.worker} {
		m, err2 := hosttest.MeterPort(ctx, d.Spec().Port)
		if err2 != nil {
			return err2
		}
		defer func() { err = errors.Join(err, m.Close()) }()
		s.meters = append(s.meters, m)
	}
	if err := s.know(); err != nil {
		return err
	}
	if s.tree, err = newWorkTree(filepath.Join(s.dir, "tree"), o.tree.files, o.tree.size); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(s.dir)) }()
	return s.measure(ctx, o)
}

// measure repeats all ways, starting with another one each time.
func (s *site) measure(ctx context.Context, o *options) error {
	ways, err := o.ways()
	if err != nil {
		return err
	}
	first, next, back := newComparison(ways), newComparison(ways), newComparison(ways)
	// The first round is the warm-up and is not counted.
	for n := range o.tree.rounds + 1 {
		r := round{site: s, ways: ways, n: n, verbose: o.verbose}
		for i := range ways {
			r.dirs = append(r.dirs, filepath.Join(s.dir, fmt.Sprintf("kept-%d-%d", n, i)))
		}
		err := r.captures(ctx, o, first, next)
		if err == nil && o.tree.has("restore") {
			err = r.restores(ctx, back)
		}
		for _, d := range r.dirs {
			err = errors.Join(err, os.RemoveAll(d))
		}
		if err != nil {
			return err
		}
	}
	size, err := sizeOf(s.tree.dir)
	if err != nil {
		return err
	}
	fmt.Printf(" %s: %d files, %d MB; each figure is the median of the rounds (least–most), each ratio that of rounds; CPU is of both sides\n", s.name, len(s.tree.files), size/1e6)
	goal := map[bool]string{false: "goal ≤ 0.35 of rsync", true: "goal ≤ 0.6 of rsync"}[s.name == "loopback"]
	first.print("first capture", "goal ≤ 1.2 of tar | zstd")
	next.print("1 % changed", goal)
	back.print("restore", "goal ≤ 1.1 of tar | zstd")
	return nil
}

// A round is one run of every way, each from nothing.
type round struct {
	*site
	ways    []keeper
	dirs    []string // what each way keeps
	n       int
	verbose bool
}

// each calls do once for every way, in another order each time.
func (r *round) each(c *comparison, turn int, do func(k keeper, dir string) (outcome, error)) error {
	for j := range r.ways {
		i := (j + r.n + turn) % len(r.ways)
		k, dir := r.ways[i], r.dirs[i]
		was, err := k.stored(dir)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		if k.whole {
			was = 0
		}
		got, err := do(k, dir)
		if err != nil {
			return fmt.Errorf("%s, %s: %w", r.name, k.name, err)
		}
		is, err := k.stored(dir)
		if err != nil {
			return err
		}
		if r.n > 0 {
			c.add(i, got, is-was)
		}
		if r.verbose {
			fmt.Printf("  %d %-28s %8v  CPU %v\n", r.n, k.name, got.took.Round(time.Millisecond), got.cpu)
		}
	}
	return nil
}

func (r *round) captures(ctx context.Context, o *options, first, next *comparison) error {
	for _, d := range r.dirs {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return err
		}
	}
	err := r.each(first, 0, func(k keeper, dir string) (outcome, error) { return k.keep(ctx, r.site, dir, 0) })
	if !o.tree.has("next") {
		return err
	}
	for i := range o.tree.nexts {
		if err == nil {
			err = r.tree.change()
		}
		if err == nil {
			err = r.each(next, i, func(k keeper, dir string) (outcome, error) { return k.keep(ctx, r.site, dir, 1) })
		}
	}
	return err
}

func (r *round) restores(ctx context.Context, back *comparison) error {
	return r.each(back, 0, func(k keeper, dir string) (outcome, error) {
		to := filepath.Join(r.dir, "back")
		got, err := k.back(ctx, r.site, dir, to)
		if err == nil {
			err = r.tree.sameAs(to)
		}
		return got, errors.Join(err, os.RemoveAll(to))
	})
}

// A comparison is what each way took for one task, in each round.
type comparison struct {
	ways   []keeper
	took   [][]outcome
	stored [][]int64
}

func newComparison(ways []keeper) *comparison {
	return &comparison{ways, make([][]outcome, len(ways)), make([][]int64, len(ways))}
}

func (c *comparison) add(way int, o outcome, stored int64) {
	c.took[way] = append(c.took[way], o)
	c.stored[way] = append(c.stored[way], stored)
}

func (c *comparison) print(task, goal string) {
	if len(c.took[0]) == 0 {
		return
	}
	fmt.Printf("  %-28s %-22s %8s %8s %8s   %-18s  %s\n", fmt.Sprintf("%s, n %d", task, len(c.took[0])), "seconds", "wire MB", "store MB", "peak MB", "CPU seconds", "ours to it, time and CPU; connected, time; "+goal)
	for i, k := range c.ways {
		var took, cpu []float64
		var wire, memory []int64
		for _, o := range c.took[i] {
			took, cpu = append(took, o.took.Seconds()), append(cpu, o.cpu.Seconds())
			wire, memory = append(wire, o.wire), append(memory, o.memory)
		}
		against := ""
		if !k.ours {
			against = spread(c.ratio(0, i, seconds)) + "  " + spread(c.ratio(0, i, processor)) + "  " + spread(c.ratio(1, i, seconds))
		}
		fmt.Printf("    %-26s %-22s %8.1f %8.1f %8.0f   %-18s  %s\n", k.name, spread(took), float64(middle(wire))/1e6, float64(middle(c.stored[i]))/1e6, float64(slices.Max(memory))/1e6, spread(cpu), against)
	}
}

func seconds(o outcome) time.Duration   { return o.took }
func processor(o outcome) time.Duration { return o.cpu }

// ratio returns, for each round, the ratio of way a to way b.
func (c *comparison) ratio(a, b int, of func(outcome) time.Duration) (ratios []float64) {
	for n := range c.took[a] {
		ratios = append(ratios, of(c.took[a][n]).Seconds()/of(c.took[b][n]).Seconds())
	}
	return ratios
}

func spread(v []float64) string {
	return fmt.Sprintf("%.2f (%.2f–%.2f)", middle(v), slices.Min(v), slices.Max(v))
}

func middle[T int64 | float64](v []T) T {
	v = slices.Sorted(slices.Values(v))
	return v[len(v)/2]
}
