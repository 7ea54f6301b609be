package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"go.temporal.io/sdk/client"

	"fairlead.dev/fairlead/deploy/scriptedauth"
	"fairlead.dev/fairlead/deploy/scriptedmodel"
	"fairlead.dev/fairlead/internal/store"
	"fairlead.dev/fairlead/seeds"
	"fairlead.dev/fairlead/workflows"
)

// A loginRun is one row, once: a login of its own at an issuer of its own, and
// the sessions that use it.
type loginRun struct {
	*stage
	host   *host
	rng    *rand.Rand
	seed   string // its name, and the beginning of its sessions'
	issuer *scriptedauth.Server
	first  scriptedauth.Login
	res    *seedResult

	mu   sync.Mutex
	runs []*run
}

// A seedResult is what became of one.
type seedResult struct {
	fault, step, id string
	nth             int
	took            bool

	twoHolders, lostRotations, deadMarks, credentialsLeft, wrong []string
}

func (r *seedResult) clean() bool {
	return r.took && len(r.twoHolders)+len(r.lostRotations)+len(r.deadMarks)+len(r.credentialsLeft)+len(r.wrong) == 0
}

// trySeeds runs the rows and prints their matrix.
func trySeeds(ctx context.Context, o options) (err error) {
	if o.repo, err = o.repository(); err != nil {
		return err
	}
	times := max(1, o.runs/200) // once, unless more is asked for than by default
	if o.short {
		times = 1
	}
	s, err := newStage(ctx, o, 1, (&writer{w: o.out}).printf)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	began := time.Now()
	var results []seedResult
	for nth := range times {
		order := random(o.seed, "seeds", nth).Perm(len(seedRows))
		for _, i := range order {
			row := seedRows[i]
			named := o.only != "seeds" && strings.EqualFold(o.only, "seeds: "+row.fault)
			switch {
			case ctx.Err() != nil:
				return ctx.Err()
			case o.short && !row.short, o.only != "" && o.only != "seeds" && !named:
				continue
			case o.moment != "" && !strings.EqualFold(o.moment, row.step), o.nth >= 0 && o.nth != nth:
				continue
			}
			results = append(results, s.row(ctx, o, row, nth))
		}
	}
	fmt.Fprintf(o.out, "\n%s\nseeds: seed %d, %d runs in %s\n", plainTable(seedTable(results)), o.seed, len(results), time.Since(began).Round(time.Second))
	if o.markdown != "" {
		f, err := os.OpenFile(o.markdown, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(f, "\nSeeds (a login that rotates), by the step that is struck:\n\n%s", markdownTable(seedTable(results)))
		if err = errors.Join(err, f.Close()); err != nil {
			return err
		}
	}
	if len(results) == 0 || slices.ContainsFunc(results, func(r seedResult) bool { return !r.clean() }) {
		return errNotClean
	}
	return nil
}

func seedTable(results []seedResult) [][]string {
	rows := [][]string{{"fault", "step", "runs", "two holders", "lost rotations", "dead marks", "credentials left", "wrong"}}
	line := func(fault, step string, of func(seedResult) bool) {
		runs, tried, n := 0, 0, [5]int{}
		for _, r := range results {
			if !of(r) {
				continue
			}
			tried++
			if r.took {
				runs++
			}
			for i, what := range [][]string{r.twoHolders, r.lostRotations, r.deadMarks, r.credentialsLeft, r.wrong} {
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
	for _, r := range seedRows {
		line(r.fault, r.step, func(x seedResult) bool { return x.fault == r.fault && x.step == r.step })
	}
	line("all", "", func(seedResult) bool { return true })
	return rows
}

// row runs one and judges it.
func (s *stage) row(ctx context.Context, o options, row seedRow, nth int) (res seedResult) {
	rng := random(o.seed, "seeds", row.fault, row.step, nth)
	l := &loginRun{stage: s, rng: rng, seed: fmt.Sprintf("l%08x-%d", rng.Uint32(), nth), res: &res}
	res = seedResult{fault: row.fault, step: row.step, nth: nth, id: l.seed}
	began := time.Now()
	defer func() { l.report(o, time.Since(began)) }()
	wrong := func(what string, err error) {
		if err != nil {
			res.wrong = append(res.wrong, what+": "+err.Error())
		}
	}
	var err error
	if l.host, err = s.host(ctx, "h1"); err != nil {
		wrong("the host", err)
		return res
	}
	stop, err := l.furnish(ctx)
	defer stop()
	if err != nil {
		wrong("before the fault", err)
		return res
	}
	watched := l.watch(ctx)
	if err := row.go_(ctx, l); err != nil {
		wrong("the run", err)
	} else {
		res.took = true
	}
	for _, r := range l.runs {
		wrong("the close", l.close(ctx, r))
	}
	wrong("the judge", l.judge(ctx))
	watched()
	return res
}

// furnish makes the issuer, the login and the seed.
func (l *loginRun) furnish(ctx context.Context) (stop func(), err error) {
	l.issuer = scriptedauth.New(slog.New(slog.DiscardHandler))
	stop = func() { _ = l.issuer.Close() } // nobody asks it any more
	if err := l.issuer.Start("127.0.0.1:0"); err != nil {
		return stop, err
	}
	guard := httptest.NewServer(l.issuer.Guard(l.Model))
	stop = func() { guard.CloseClientConnections(); guard.Close(); _ = l.issuer.Close() }
	l.first = l.issuer.Login(scriptedauth.Account{ID: "acct-" + l.seed})
	dir := filepath.Join(l.Dir, "login-"+l.seed)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return stop, err
	}
	defer os.RemoveAll(dir)
	err = errors.Join(
		os.WriteFile(filepath.Join(dir, "auth.json"), l.first.AuthJSON(), 0o600),
		os.WriteFile(filepath.Join(dir, "config.toml"), []byte(scriptedmodel.LoginConfigTOML(guard.URL+"/v1")), 0o600))
	if err == nil {
		_, err = l.Out(ctx, "seed", "import", l.seed, dir)
	}
	return stop, err
}

func (l *loginRun) session(name string) *run {
	r := &run{stage: l.stage, host: l.host, fault: faults[0], moment: moments[0], id: l.seed + "-" + name, rng: l.rng}
	l.mu.Lock()
	defer l.mu.Unlock()
	if name != "a" { // sources of their own for those that run beside each other
		r.rng = rand.New(rand.NewPCG(l.rng.Uint64(), 1))
	}
	l.runs = append(l.runs, r)
	return r
}

// open starts a session with the login.
func (l *loginRun) open(ctx context.Context, r *run) error {
	r.logf("start")
	return again(ctx, "start "+r.id, func(ctx context.Context) error {
		got := r.Ctl(ctx, nil, "session", "start", "--host", l.host.name, "--seed", l.seed, "--id", r.id)
		if got.Code == 0 || got.Code == 6 {
			return nil
		}
		return got
	})
}

// begun is a session that had a turn.
func (l *loginRun) begun(ctx context.Context, r *run) error {
	if err := l.open(ctx, r); err != nil {
		return err
	}
	return r.hello(ctx)
}

// rotates has codex refresh its login in a turn.
func (l *loginRun) rotates(ctx context.Context, r *run) error {
	before := l.issuer.Newest(l.first).Refresh
	l.issuer.Expire("")
	if err := l.goesOn(ctx, r); err != nil {
		return err
	}
	if l.issuer.Newest(l.first).Refresh == before {
		return fmt.Errorf("codex of %s rotated nothing", r.id)
	}
	return nil
}

// goesOn has a turn completed; where it is honestly said that nobody knows what
// became of one, or that it was cut off, a person says it again.
func (l *loginRun) goesOn(ctx context.Context, r *run) error {
	if n := len(r.said); n > 0 {
		// A message that comes before the end of a turn that was cut off waits
		// in the queue for yet another one.
		if _, err := r.turn(ctx, n); err != nil {
			return err
		}
	}
	for try := 1; ; try++ {
		if err := r.send(ctx, fmt.Sprintf("hello, are you there? (%d)", len(r.said)+1)); err != nil {
			return err
		}
		t, err := r.turn(ctx, len(r.said))
		switch {
		case err != nil:
			return err
		case t.Status == "completed":
			return nil
		case t.Status != "unknown" && t.Status != "interrupted" || try == 3:
			return fmt.Errorf("turn %d of %s is %s (%+v)", t.N, r.id, t.Status, t.Error)
		}
	}
}

func (l *loginRun) strike(ctx context.Context, r *run, f *fault) error {
	r.logf("the fault strikes: %s", f.name)
	sw := &struckWave{stage: l.stage, host: l.host, runs: []*run{r}, rng: l.rng, struck: func() {}}
	return errors.Join(f.strike(ctx, sw), l.healthy(ctx))
}

// close ends a session, and waits until it is.
func (l *loginRun) close(ctx context.Context, r *run) error {
	over := func(d workflows.SessionDetail) bool {
		return d.View.State == workflows.Closed || d.View.State == workflows.Failed && d.View.Close != nil
	}
	d, err := l.detail(ctx, r.id)
	if err != nil || over(d) {
		return err
	}
	if d.View.State != workflows.Closing {
		if err := r.signal(ctx, r.id, workflows.SignalClose, workflows.Close{By: "faults"}); err != nil {
			return err
		}
	}
	if d, err = r.until(ctx, r.id, "to be closed", over); err != nil {
		return err
	}
	if c := d.View.Close; c == nil || !c.Wiped {
		l.res.credentialsLeft = append(l.res.credentialsLeft, fmt.Sprintf("%s closed with %+v, error %+v", r.id, c, d.View.Error))
	}
	return nil
}

// successor is another session that gets the seed afterwards, and rotates it.
func (l *loginRun) successor(ctx context.Context) error {
	return l.follows(ctx, l.session("z"))
}

func (l *loginRun) follows(ctx context.Context, r *run) error {
	if err := l.begun(ctx, r); err != nil {
		return fmt.Errorf("the next one: %w", err)
	}
	if err := l.rotates(ctx, r); err != nil {
		return fmt.Errorf("the next one: %w", err)
	}
	return l.close(ctx, r)
}

// auth is what lies on the host.
func (r *run) auth() []byte {
	data, _ := os.ReadFile(filepath.Join(r.dir(), "codex-home", "auth.json")) // none is told by nothing
	return data
}

func refreshIn(auth []byte) string {
	var a struct {
		Tokens struct {
			Refresh string `json:"refresh_token"`
		} `json:"tokens"`
	}
	_ = json.Unmarshal(auth, &a) // half written: not there yet
	return a.Tokens.Refresh
}

func (l *loginRun) view(ctx context.Context) (v workflows.SeedView, err error) {
	err = again(ctx, "ask for seed "+l.seed, func(ctx context.Context) error {
		q, err := l.temporal.QueryWorkflow(ctx, workflows.SeedID(l.seed), "", workflows.QuerySeed)
		if err != nil {
			return err
		}
		v = workflows.SeedView{}
		return q.Get(&v)
	})
	return v, err
}

func (l *loginRun) update(ctx context.Context, name string, arg any) error {
	h, err := l.temporal.UpdateWorkflow(ctx, client.UpdateWorkflowOptions{WorkflowID: workflows.SeedID(l.seed), UpdateName: name,
		Args: []any{arg}, WaitForStage: client.WorkflowUpdateStageCompleted})
	if err != nil {
		return err
	}
	return h.Get(ctx, nil)
}

// watch looks all along who holds the seed.
func (l *loginRun) watch(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	seen := map[string]bool{}
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			q, err := l.temporal.QueryWorkflow(ctx, workflows.SeedID(l.seed), "", workflows.QuerySeed)
			var v workflows.SeedView
			if err == nil && q.Get(&v) == nil && len(v.HeldBy) > 1 {
				seen[strings.Join(v.HeldBy, " and ")] = true
			}
			sleep(ctx, 250*time.Millisecond)
		}
	}()
	return func() {
		cancel()
		<-done
		for who := range seen {
			l.res.twoHolders = append(l.res.twoHolders, "held by "+who)
		}
	}
}

// refusals are the answers that say that a login is gone.
var refusals = []string{"invalid_grant", "expired", "invalidated", "reused", "revoked"}

// judge: the newest token that the issuer gave out, and nobody spent, is in
// the store; nobody spent one twice; nothing is on the host.
func (l *loginRun) judge(ctx context.Context) error {
	var v workflows.SeedView
	err := again(ctx, "the seed to be free", func(ctx context.Context) (err error) {
		if v, err = l.view(ctx); err == nil && (v.State != workflows.SeedFree || v.Rotated != nil) {
			err = fmt.Errorf("it is %s (%s), held by %v, rotated %+v, recovery %+v", v.State, v.Health, v.HeldBy, v.Rotated, v.Recovery)
		}
		return err
	})
	if err != nil {
		return err
	}
	gone := ""
	for _, r := range l.issuer.Refreshes() {
		if slices.ContainsFunc(refusals, func(w string) bool { return strings.Contains(r.Answer, w) }) {
			gone = r.Answer
		}
	}
	if v.Health == "dead" && gone == "" {
		l.res.deadMarks = append(l.res.deadMarks, "the seed is dead: "+v.Reason)
	}
	if n := l.issuer.MostUses(); n > 1 {
		l.res.twoHolders = append(l.res.twoHolders, fmt.Sprintf("a refresh token was used %d times", n))
	}
	newest := l.issuer.Newest(l.first)
	if why := l.issuer.Revoked(l.first); why != "" {
		l.res.lostRotations = append(l.res.lostRotations, "the issuer revoked the login: "+why)
	}
	kept, err := l.kept(ctx, v)
	if err != nil {
		return err
	}
	if refreshIn(kept) != newest.Refresh || l.issuer.Uses(newest.Refresh) != 0 {
		l.res.lostRotations = append(l.res.lostRotations, fmt.Sprintf("generation %d in the store is not the issuer's newest token (used %d times)", v.Generation, l.issuer.Uses(newest.Refresh)))
	}
	for _, r := range l.runs {
		if len(r.auth()) > 0 {
			l.res.credentialsLeft = append(l.res.credentialsLeft, "auth.json of "+r.id+" is on the host")
		}
	}
	for _, what := range l.issuer.Surprises() {
		l.res.wrong = append(l.res.wrong, "the issuer was surprised: "+what)
	}
	return nil
}

// kept is the auth.json that the seed names.
func (l *loginRun) kept(ctx context.Context, v workflows.SeedView) ([]byte, error) {
	ids, err := store.LoadIdentities(filepath.Join(l.State, "identity.txt"))
	if err != nil {
		return nil, err
	}
	to, err := store.RecipientsOf(ids)
	if err != nil {
		return nil, err
	}
	st, err := store.Open(ctx, store.Options{URL: "file://" + l.storeDir(), Recipients: to, Identities: ids})
	if err != nil {
		return nil, err
	}
	defer st.Close()
	b, err := seeds.Load(ctx, st, v.Ref.Blob)
	if err != nil {
		return nil, err
	}
	return b.Auth(), nil
}

func (l *loginRun) report(o options, took time.Duration) {
	res := l.res
	var b strings.Builder
	if !res.clean() {
		for _, part := range []struct {
			name  string
			words []string
		}{{"two holders", res.twoHolders}, {"lost rotation", res.lostRotations}, {"dead mark", res.deadMarks}, {"credential left", res.credentialsLeft}, {"wrong", res.wrong}} {
			for _, word := range part.words {
				fmt.Fprintf(&b, "\n    %s: %.1500s", part.name, word)
			}
		}
		fmt.Fprintf(&b, "\n    again: go run ./deploy/faults -seed %d -only %q -moment %q -nth %d", o.seed, "seeds: "+res.fault, res.step, res.nth)
		for _, r := range l.runs {
			for _, line := range r.trace {
				fmt.Fprintf(&b, "\n      %s %s", r.id, line)
			}
		}
		for _, q := range l.issuer.Requests() {
			fmt.Fprintf(&b, "\n      issuer %s %s n=%d %s rotated=%v", q.Time.Format("15:04:05.000"), q.Endpoint, q.N, q.Answer, q.Rotated)
		}
	}
	verdict := "ok"
	if !res.clean() {
		verdict = "FAILED"
	}
	l.say("%s seeds: %-32s %-8s %s, %s%s", time.Now().UTC().Format("15:04:05"), res.fault, res.step, verdict, took.Round(100*time.Millisecond), b.String())
}
