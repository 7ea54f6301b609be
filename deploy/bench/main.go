// Command bench measures Fairlead beside the plain way of doing the same, in
// one run, interleaved, and prints ratios: absolute times say only what machine
// this is. Goals stand beside the figures; nothing fails for being slow.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"time"

	"fairlead.dev/fairlead/deploy/lab"
	"fairlead.dev/fairlead/hostexec/hosttest"
)

func main() {
	trips := flag.Int("trips", 500, "round trips of each kind")
	runs := flag.Int("runs", 10, "turns of each kind")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := bench(ctx, *trips, *runs)
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "bench: %v\n", err)
		os.Exit(1)
	}
}

// script answers with a word at once, and asks for a command where asked to.
const script = `
pace: 1ms
rules:
- name: approval
  when: {contains: approval}
  steps:
  - - shell: {cmd: "printf done", escalate: true, justification: "bench"}
  - say: Done.
- name: any
  reply: Yes.
`

func bench(ctx context.Context, trips, runs int) (err error) {
	repo, err := os.Getwd()
	if err != nil {
		return err
	}
	l, err := lab.New(ctx, lab.Options{Repo: repo, Script: []byte(script)})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	host, err := l.AddHost(ctx, "web-1", hosttest.Options{Root: filepath.Join(l.Dir, "root")})
	if err != nil {
		return err
	}
	if err := l.ImportSeed(ctx, "bench"); err != nil {
		return err
	}
	if _, err := l.Out(ctx, "host", "provision", "web-1"); err != nil {
		return err
	}
	b := &setup{lab: l, host: host, codex: filepath.Join(repo, ".tools", "codex", "bin", "codex")}
	fmt.Printf("round trip through the attached pipe / plain ssh to the same server (median of %d, goal ≤ 1.3)\n", trips)
	if err := b.roundTrips(ctx, trips); err != nil {
		return fmt.Errorf("round trips: %w", err)
	}
	fmt.Printf("\nctl run to the first words / the same by hand over ssh, warm host (median of %d, goal ≤ 0.5 s more)\n", runs)
	if err := b.firstWords(ctx, runs); err != nil {
		return fmt.Errorf("first words: %w", err)
	}
	fmt.Printf("\nTemporal events on a real history (goals: plain turn ≤ 14, an approval ≤ 15 more)\n")
	if err := b.events(ctx); err != nil {
		return fmt.Errorf("events: %w", err)
	}
	return nil
}

type setup struct {
	lab   *lab.Lab
	host  *hosttest.SSHD
	codex string
}

// A series is what was measured of one kind.
type series []time.Duration

func (s series) at(q float64) time.Duration {
	if len(s) == 0 {
		return 0
	}
	sorted := slices.Clone(s)
	slices.Sort(sorted)
	return sorted[min(len(sorted)-1, int(q*float64(len(sorted))))]
}

func (s series) String() string {
	return fmt.Sprintf("median %v, p90 %v", s.at(.5).Round(time.Microsecond), s.at(.9).Round(time.Microsecond))
}

func compare(ours, plain series) {
	fmt.Printf("  ours   %v\n  plain  %v\n  ratio  %.2f   difference %v\n", ours, plain,
		float64(ours.at(.5))/float64(plain.at(.5)), (ours.at(.5) - plain.at(.5)).Round(time.Microsecond))
}
