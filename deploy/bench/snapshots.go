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

// treeOptions say what is measured of snapshots, and how often.
type treeOptions struct {
	files  int
	size   int64
	rounds int
	beside string // names of rivals, with commas
}

// ways are ours and those that it is measured beside.
func (o *options) ways() ([]keeper, error) {
	all := []keeper{ours(o)}
	for _, name := range strings.Split(o.tree.beside, ",") {
		i := slices.IndexFunc(rivals, func(k keeper) bool { return strings.Fields(k.name)[0] == name })
		if i < 0 {
			return nil, fmt.Errorf("-beside %s: here are rsync, restic and tar", name)
		}
		all = append(all, rivals[i])
	}
	return all, nil
}

// measureSnapshots keeps a tree that is on a host, as it is and then with each
// hundredth file changed, and brings it back, in turn with what else there is.
// Every way begins from nothing each time: ours dials the host and opens the
// store within what is measured.
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

// measure goes round the ways again and again, beginning with another each time.
func (s *site) measure(ctx context.Context, o *options) error {
	ways, err := o.ways()
	if err != nil {
		return err
	}
	first, next, back := newComparison(ways), newComparison(ways), newComparison(ways)
	// The first run of all warms the machine and counts for nothing.
	for n := range o.tree.rounds + 1 {
		dirs := make([]string, len(ways))
		for i := range ways {
			dirs[i] = filepath.Join(s.dir, fmt.Sprintf("kept-%d-%d", n, i))
			if err := os.MkdirAll(dirs[i], 0o755); err != nil {
				return err
			}
		}
		phase := func(c *comparison, do func(k keeper, dir string, i int) (outcome, error)) error {
			for j := range ways {
				i := (j + n) % len(ways)
				was, err := ways[i].stored(dirs[i])
				if err != nil && !errors.Is(err, os.ErrNotExist) {
					return err
				}
				if ways[i].whole {
					was = 0
				}
				got, err := do(ways[i], dirs[i], i)
				if err != nil {
					return fmt.Errorf("%s, %s: %w", s.name, ways[i].name, err)
				}
				is, err := ways[i].stored(dirs[i])
				if err != nil {
					return err
				}
				if n > 0 {
					c.add(i, got, is-was)
				}
				if o.verbose {
					fmt.Printf("  %d %-28s %v\n", n, ways[i].name, got.took.Round(time.Millisecond))
				}
			}
			return nil
		}
		if err := phase(first, func(k keeper, dir string, _ int) (outcome, error) { return k.keep(ctx, s, dir, 0) }); err != nil {
			return err
		}
		if err := s.tree.change(); err != nil {
			return err
		}
		if err := phase(next, func(k keeper, dir string, _ int) (outcome, error) { return k.keep(ctx, s, dir, 1) }); err != nil {
			return err
		}
		err := phase(back, func(k keeper, dir string, i int) (outcome, error) {
			to := filepath.Join(s.dir, fmt.Sprintf("back-%d", i))
			got, err := k.back(ctx, s, dir, to)
			if err == nil {
				err = s.tree.sameAs(to)
			}
			return got, errors.Join(err, os.RemoveAll(to))
		})
		if err != nil {
			return err
		}
		for _, d := range dirs {
			if err := os.RemoveAll(d); err != nil {
				return err
			}
		}
	}
	size, err := sizeOf(s.tree.dir)
	if err != nil {
		return err
	}
	fmt.Printf(" %s: %d files, %d MB; each figure is the median of %d (least–most), each ratio that of rounds\n", s.name, len(s.tree.files), size/1e6, o.tree.rounds)
	goal := map[bool]string{false: "goal ≤ 0.35 of rsync", true: "goal ≤ 0.6 of rsync"}[s.name == "loopback"]
	first.print("first capture", "goal ≤ 1.2 of tar | zstd")
	next.print("1 % changed", goal)
	back.print("restore", "")
	return nil
}

// A comparison is what each way took at one task, round by round.
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
	fmt.Printf("  %-28s %-22s %8s %8s %8s   %s\n", task, "seconds", "wire MB", "store MB", "peak MB", "ours to it; "+strings.TrimSpace(goal))
	for i, k := range c.ways {
		var took, ratio []float64
		var wire, memory []int64
		for n, o := range c.took[i] {
			took = append(took, o.took.Seconds())
			ratio = append(ratio, c.took[0][n].took.Seconds()/o.took.Seconds())
			wire, memory = append(wire, o.wire), append(memory, o.memory)
		}
		against := ""
		if i > 0 {
			against = spread(ratio)
		}
		fmt.Printf("    %-26s %-22s %8.1f %8.1f %8.0f   %s\n", k.name, spread(took), float64(middle(wire))/1e6, float64(middle(c.stored[i]))/1e6, float64(slices.Max(memory))/1e6, against)
	}
}

func spread(v []float64) string {
	return fmt.Sprintf("%.2f (%.2f–%.2f)", middle(v), slices.Min(v), slices.Max(v))
}

func middle[T int64 | float64](v []T) T {
	v = slices.Sorted(slices.Values(v))
	return v[len(v)/2]
}
