package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"fairlead.dev/fairlead/internal/lab/scenario"
	"fairlead.dev/fairlead/internal/lab/standin"
)

// A storm strikes again and again, until every limit on attempts of the struck
// operation would be exceeded, and then ends.
type storm struct {
	name string
	// together is how many phases it strikes at the same time; 0: all.
	together int
	// strike strikes the sessions of a wave and returns when the storm is over.
	strike func(ctx context.Context, w *stormWave) error
}

// several is the storm of several kinds of faults on many sessions at once;
// fromNew is its only phase.
const (
	several = "workers, wires and Temporal at random"
	fromNew = "from the first second"
)

// blows is how often a storm strikes one moment in a row; away is how long a
// storm lasts that strikes once. Both exceed the attempts after which
// anything gave up.
const (
	blows = 10
	away  = 4 * time.Minute
)

var storms = []*storm{
	{name: fmt.Sprintf("worker killed %d times", blows), together: 7, strike: killAgainAndAgain("worker")},
	{name: fmt.Sprintf("Temporal killed %d times", blows), together: 7, strike: killAgainAndAgain("devserver")},
	{name: fmt.Sprintf("connections reset %d times", blows), together: 7, strike: resetAgainAndAgain},
	{name: fmt.Sprintf("all three at once %d times", blows), together: 7, strike: allAgainAndAgain},
	{name: fmt.Sprintf("host away for %.0f min", away.Minutes()), strike: hostsAway},
	{name: fmt.Sprintf("bastion away for %.0f min", away.Minutes()), strike: bastionAway},
	{name: fmt.Sprintf("store away for %.0f min", away.Minutes()), strike: storeAwayForLong},
}

// What must not happen in a storm. What has no column of its own is wrong.
const (
	notCompleted   = "not completed"
	effectLost     = "effects lost"
	effectRepeated = "repeated"
	messageVoid    = "messages void"
)

var stormCounts = []string{notCompleted, effectLost, effectRepeated, messageVoid, leftOver, wrong}

// A stormResult is the outcome of the sessions of one phase in one storm.
type stormResult struct {
	scenario.Result // Recovered is the time from the end of the storm
	sessions        int
	planned, struck int // strikes; a lasting one counts as 1
	within          int // strikes that were seen to hit the phase
	attempts        int // highest attempt number that was seen
}

func (r *stormResult) enough() bool { return 2*r.struck >= r.planned && r.struck > 0 }

func (r *stormResult) clean() bool { return r.Result.Clean() && r.enough() }

const stormFile = "docs/reference/storm-matrix.md"

func namesStorms(only string) bool {
	name, _, _ := strings.Cut(only, ":")
	return strings.EqualFold(name, "storms")
}

func (o options) wantsStorm(name, phase string) bool {
	return (o.only == "" || strings.EqualFold(o.only, "storms") || strings.EqualFold(o.only, "storms: "+name)) &&
		(o.moment == "" || strings.EqualFold(o.moment, phase))
}

// tryStorms runs the selected storms and prints their table. The short form is
// only a small storm of several kinds.
func tryStorms(ctx context.Context, o options) (err error) {
	if o.repo, err = o.repository(); err != nil {
		return err
	}
	began, busy := time.Now(), load()
	var results []stormResult
	say := scenario.Printer(o.out)
	if o.wantsStorm(several, fromNew) {
		one, serr := tryMany(ctx, o, say)
		results, err = append(results, one), errors.Join(err, serr)
	}
	if !o.short && ctx.Err() == nil {
		some, serr := tryPhases(ctx, o, say)
		results, err = append(results, some...), errors.Join(err, serr)
	}
	if !o.short && ctx.Err() == nil {
		some, serr := tryPlaces(ctx, o, say)
		results, err = append(results, some...), errors.Join(err, serr)
	}
	table := stormTable(results)
	summary := fmt.Sprintf("seed %d, %d rows in %s, %s, on %d cores whose load was %s when it began and %s when it ended",
		o.seed, len(results), time.Since(began).Round(time.Second), began.UTC().Format(time.DateOnly), runtime.NumCPU(), busy, load())
	fmt.Fprintf(o.out, "\n%s\nstorms: %s\n", table.Plain(), summary)
	text := fmt.Sprintf("%s (`%s`):\n\n%s", summary, o.command(), table.Markdown())
	if o.write && ctx.Err() == nil {
		whole := "# What survives a storm\n\nWritten by this program; `go doc ./internal/lab/faults` says what the columns mean.\n\n" + strings.ToUpper(text[:1]) + text[1:]
		err = errors.Join(err, os.WriteFile(filepath.Join(o.repo, stormFile), []byte(whole), 0o644))
	}
	err = errors.Join(err, ctx.Err(), o.append("\nStorms: "+text))
	if err == nil && (len(results) == 0 || slices.ContainsFunc(results, func(r stormResult) bool { return !r.clean() })) {
		err = scenario.ErrNotClean
	}
	return err
}

func load() string {
	data, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	first, _, _ := strings.Cut(string(data), " ")
	return first
}

func stormTable(results []stormResult) scenario.Table {
	columns := append(scenario.Counts(stormCounts), scenario.Column{Title: "all done after", Cell: func(rs []*scenario.Result) string {
		if !rs[0].Took {
			return "never"
		}
		return fmt.Sprintf("%.0f s", rs[0].Recovered.Seconds())
	}})
	t := scenario.NewTable([]string{"storm", "moment", "sessions", "strikes", "within", "attempts"}, columns)
	for _, r := range results {
		strikes := fmt.Sprint(r.struck)
		if r.struck < r.planned {
			strikes = fmt.Sprintf("%d of %d", r.struck, r.planned)
		}
		t.Add([]string{r.Subject, r.Moment, fmt.Sprint(r.sessions), strikes, fmt.Sprint(r.within), fmt.Sprint(r.attempts)}, columns, []*scenario.Result{&r.Result})
	}
	return t
}

// sayStorm prints the outcome of a row and, if it failed, all that is known.
func sayStorm(o options, say func(string, ...any), r *stormResult, took time.Duration, trace []string) {
	verdict, found := "ok", ""
	if !r.clean() {
		verdict = "FAILED"
		found = r.Report(stormCounts, fmt.Sprintf("go run ./internal/lab/faults -seed %d -only %q -moment %q", o.seed, "storms: "+r.Subject, r.Moment), trace)
	}
	say("%s storms: %s, %s: %d sessions, %d of %d strikes, %d within, %d attempts, %s, %s%s", time.Now().UTC().Format("15:04:05"), r.Subject, r.Moment, r.sessions, r.struck, r.planned, r.within, r.attempts, verdict, took.Round(100*time.Millisecond), found)
}

// stormScript makes the model do what a message says line by line, as the
// stand-in for codex does by itself.
const stormScript = `
pace: 5ms
rules:
- name: ask
  when: {matches: '(?m)^ask (.+)$'}
  steps:
  - - shell: {cmd: '{{ index .Match 1 }}', escalate: true, justification: "to see it run", yield: 20s}
  - say: It ran.
- name: run
  when: {matches: '(?m)^run (.+)$'}
  steps:
  - - shell: {cmd: '{{ index .Match 1 }}', yield: 20s}
  - say: It ran.
- name: hello
  reply: 'You said: {{ .LastUser }}'
`

// packStandin makes a package of the stand-in for codex with so many
// incompressible bytes, so that uploading it to a host takes a while.
func packStandin(ctx context.Context, o options, bytes int) (dir string, err error) {
	if dir, err = os.MkdirTemp("/var/tmp", "fairlead-standin-"); err != nil {
		return "", err
	}
	if err := standin.Pack(ctx, o.repo, dir); err != nil {
		return dir, err
	}
	rng := scenario.Random(o.seed, "padding")
	padding := make([]byte, bytes)
	for i := range padding {
		padding[i] = byte(rng.Uint32())
	}
	return dir, os.WriteFile(filepath.Join(dir, "padding"), padding, 0o644)
}
