// Command bench measures Fairlead and prints each figure beside its goal. If
// there is a plain way of doing the same, it is measured too, interleaved in
// one run, and printed as a ratio, because absolute times depend on the
// machine. Slowness is never a failure.
//
// Some figures are of the real codex. Those of crowds are of a stand-in
// (internal/lab/standin), because a real one takes a hundred megabytes. A crowd
// shares the machine with everything that it needs, including the hosts; the
// figures say which processes used the processors.
//
//	go run ./internal/lab/bench                        all, an hour or more
//	go run ./internal/lab/bench -only kill -kills 20   one, longer
//	go run ./internal/lab/bench -only streams -streams 300 -profile DIR
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
	"strings"
	"syscall"
	"time"

	"fairlead.dev/fairlead/hostexec/hosttest"
	"fairlead.dev/fairlead/internal/lab"
)

type bench struct {
	name  string
	about string
	run   func(context.Context, *options) error
}

var benches = []bench{
	{"trips", "a round trip through the attached pipe beside plain ssh", inPlainLab((*setup).roundTrips)},
	{"words", "`ctl run` to the first words beside the same by hand", inPlainLab((*setup).firstWords)},
	{"events", "events of a real history", inPlainLab((*setup).events)},
	{"kill", "kill -9 of the worker, or of one of two, until events flow again", measureKill},
	{"stop", "a worker, or one of two, that stops in good order until events flow again", measureStop},
	{"rolling", "three workers replaced one after another under a hundred turns: the longest gap of each turn's text", measureRolling},
	{"drop", "a network that drops in silence: until it is noticed, until events flow again", measureDrop},
	{"decide", "a decision given until codex has acknowledged it, nobody attached", measureDecisions},
	{"console", "a request on record until an open inbox has its card, and a card's button until the decision is on record and acknowledged", measureConsole},
	{"inbox", "the inbox with two hundred cards in Chromium, which has nothing of it yet: until it is usable, and bytes over the wire", measureInbox},
	{"transcript", "the page of a session with a long transcript in Chromium: until it is loaded, and its frames while the session streams", measureTranscript},
	{"authority", "what a signature and the access file add to a decision", measureAuthority},
	{"waiting", "sessions with an open request per worker, and what they cost", measureWaiting},
	{"snapshots", "a work tree kept and brought back beside rsync, restic, and tar with zstd", measureSnapshots},
	{"parked", "a message to a parked session beside one to an idle session, to the first words", measureParked},
	{"pool", "slots of a zone: grants a second, events of each, and from a slot that is freed to the next session's words", measurePool},
	{"batch", "a batch of trivial items through 20 slots: what an item costs", measureBatch},
	{"window", "a batch of ten thousand items in a wide window: what its history holds", measureWindow},
	{"list", "`ctl session list` and the API's list among ten thousand sessions, beside the page alone", measureList},
	{"gateway", "asking the model through its gateway beside asking it directly, and its crowd of streams", measureGateway},
	{"viewers", "programs that follow streaming sessions of one worker: how late words are, and what each costs", measureViewers},
	{"streams", "simultaneously streaming sessions per worker", measureStreams},
}

// options are the command-line options.
type options struct {
	repo      string
	keep      bool
	trips     int
	turns     int
	kills     int
	drops     int
	rolling   int
	decide    int
	waiting   int
	streams   int
	ramp      int
	streamed  time.Duration
	asked     int
	profile   string
	tree      treeOptions
	parked    int
	grants    int
	handovers int
	items     int
	window    int
	listed    int
	lists     int
	entries   int
	cards     int
	rest      time.Duration

	windowItems int
	viewers     int
	viewed      int
	verbose     bool
}

func main() {
	if spec := os.Getenv(serveViewed); spec != "" {
		if err := beViewed(spec); err != nil {
			fmt.Fprintln(os.Stderr, "bench:", err)
			os.Exit(1)
		}
		return
	}
	var o options
	var only string
	flag.StringVar(&only, "only", "", "measure just these, by `names` with commas: "+strings.Join(names(), " "))
	flag.BoolVar(&o.keep, "keep", false, "leave the stacks' folders behind")
	flag.BoolVar(&o.verbose, "v", false, "say how it goes")
	flag.IntVar(&o.trips, "trips", 500, "round trips of each kind")
	flag.IntVar(&o.turns, "runs", 10, "turns of each kind")
	flag.IntVar(&o.kills, "kills", 8, "how often a worker is killed, or stopped, under three sessions")
	flag.IntVar(&o.drops, "drops", 1, "how often the network is dropped")
	flag.IntVar(&o.rolling, "rolling", 100, "turns that run while three workers are replaced")
	flag.IntVar(&o.decide, "decisions", 100, "decisions to deliver")
	flag.IntVar(&o.waiting, "waiting", 2000, "sessions that wait")
	flag.IntVar(&o.streams, "streams", 500, "sessions that stream")
	flag.IntVar(&o.ramp, "ramp", 10, "how many of them begin each second")
	flag.DurationVar(&o.streamed, "streamed", time.Minute, "how long they stream")
	flag.IntVar(&o.viewers, "viewers", 1000, "programs that follow sessions")
	flag.IntVar(&o.viewed, "viewed", 100, "sessions that they follow")
	flag.IntVar(&o.asked, "asked", 10, "how often a round asks through the model gateway, and directly")
	flag.DurationVar(&o.rest, "rest", 45*time.Second, "how long those that wait come to rest first")
	flag.IntVar(&o.tree.files, "tree-files", 20_000, "files of the tree that is kept")
	flag.Int64Var(&o.tree.size, "tree-bytes", 400_000_000, "bytes of it")
	flag.IntVar(&o.tree.rounds, "tree-rounds", 5, "how often each way keeps it and brings it back")
	flag.StringVar(&o.tree.beside, "beside", "rsync,restic,tar", "what it is measured beside, by `names` with commas (restic takes minutes over the long line)")
	flag.StringVar(&o.tree.lines, "tree-lines", "loopback,far", "over which `lines`")
	flag.StringVar(&o.tree.parts, "tree-parts", "first,next,restore", "what is measured of it")
	flag.IntVar(&o.tree.nexts, "tree-nexts", 1, "how often a round changes one in a hundred and keeps it")
	flag.IntVar(&o.parked, "parked", 10, "how often a session is parked and spoken to")
	flag.IntVar(&o.grants, "grants", 2000, "slots that a pool gives")
	flag.IntVar(&o.handovers, "handovers", 20, "sessions that wait for one slot")
	flag.IntVar(&o.items, "items", 1000, "items of a batch that goes through 20 slots")
	flag.IntVar(&o.windowItems, "window-items", 10_000, "items of a batch with a wide window")
	flag.IntVar(&o.window, "window", 200, "how wide it is")
	flag.IntVar(&o.listed, "listed", 10_000, "sessions among which a list is made")
	flag.IntVar(&o.lists, "lists", 20, "how often")
	flag.IntVar(&o.entries, "entries", 20_000, "entries of a long transcript")
	flag.IntVar(&o.cards, "cards", 200, "cards of the inbox")
	flag.StringVar(&o.profile, "profile", "", "`folder` for profiles of the worker, from its /debug/pprof")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	do := func() error { return measure(ctx, only, &o) }
	if os.Getenv(asChild) != "" {
		do = func() error { return beChild(ctx) }
	}
	if os.Getenv(asGateEnd) != "" {
		do = func() error { return beGateEnd(ctx) }
	}
	err := do()
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "bench: %v\n", err)
		os.Exit(1)
	}
}

func names() []string {
	var all []string
	for _, b := range benches {
		all = append(all, b.name)
	}
	return all
}

func measure(ctx context.Context, only string, o *options) (err error) {
	if o.repo, err = os.Getwd(); err != nil {
		return err
	}
	wanted := names()
	if only != "" {
		wanted = strings.Split(only, ",")
	}
	for _, name := range wanted {
		i := slices.IndexFunc(benches, func(b bench) bool { return b.name == name })
		if i < 0 {
			return fmt.Errorf("-only %s: here are %s", name, strings.Join(names(), ", "))
		}
		fmt.Printf("\n%s: %s\n", name, benches[i].about)
		begin := time.Now()
		if err := benches[i].run(ctx, o); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		fmt.Printf("  (took %v)\n", time.Since(begin).Round(time.Second))
	}
	return nil
}

// script makes the model answer with a word at once, and ask for a command on
// request.
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

// inPlainLab measures on one host, with one worker and the real codex.
func inPlainLab(run func(*setup, context.Context) error) func(context.Context, *options) error {
	return func(ctx context.Context, o *options) (err error) {
		l, err := lab.New(ctx, lab.Options{Repo: o.repo, Script: []byte(script), Keep: o.keep})
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
		return run(&setup{options: o, lab: l, host: host, codex: filepath.Join(o.repo, ".tools", "codex", "bin", "codex")}, ctx)
	}
}

type setup struct {
	*options
	lab   *lab.Lab
	host  *hosttest.SSHD
	codex string
}

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

// against prints the series beside its goal.
func (s series) against(what string, goal time.Duration) {
	verdict := "reached"
	if s.at(.95) > goal {
		verdict = "missed"
	}
	ms := func(q float64) time.Duration { return s.at(q).Round(time.Millisecond) }
	fmt.Printf("  %-46s n %-3d  p50 %-8v p95 %-8v max %-8v goal p95 ≤ %v: %s\n", what, len(s), ms(.5), ms(.95), ms(1), goal, verdict)
}

func compare(ours, plain series) {
	fmt.Printf("  ours   %v\n  plain  %v\n  ratio  %.2f   difference %v\n", ours, plain,
		float64(ours.at(.5))/float64(plain.at(.5)), (ours.at(.5) - plain.at(.5)).Round(time.Microsecond))
}
