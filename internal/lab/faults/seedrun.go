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

	"fairlead.dev/fairlead/internal/lab/scenario"
	"fairlead.dev/fairlead/internal/lab/scriptedauth"
	"fairlead.dev/fairlead/internal/lab/scriptedmodel"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/seeds"
)

// seedKind are the rows of a login that rotates.
var seedKind = &kind{
	name: "seeds", title: "Seeds (a login that rotates), by the step that is struck",
	counts: []string{twoHolders, lostRotations, deadMarks, credentialsLeft, wrong},
	rows:   seedRows,
	after:  func(context.Context, *stage) error { return nil }, // each row has its own issuer
}

// What must not happen to a seed.
const (
	twoHolders      = "two holders"
	lostRotations   = "lost rotations"
	deadMarks       = "dead marks"
	credentialsLeft = "credentials left"
)

// A loginRun is one execution of a row: a login at an issuer, both its own, and
// the sessions that use it.
type loginRun struct {
	*rowRun
	host   *host
	seed   string // its name, and the prefix of its sessions' ids
	issuer *scriptedauth.Server
	first  scriptedauth.Login

	mu   sync.Mutex
	runs []*run
}

// ofSeed makes a login, calls do, and judges the outcome.
func ofSeed(do func(context.Context, *loginRun) error) func(context.Context, *rowRun) {
	return func(ctx context.Context, r *rowRun) {
		l := &loginRun{rowRun: r, seed: r.id}
		r.traces = append(r.traces, l.trace)
		var err error
		if l.host, err = r.host(ctx, "h1"); err != nil {
			r.res.Must("the host", err)
			return
		}
		stop, err := l.furnish(ctx)
		defer stop()
		if err != nil {
			r.res.Must("before the fault", err)
			return
		}
		watched := l.watch(ctx)
		err = do(ctx, l)
		r.res.Took = err == nil
		r.res.Must("the run", err)
		for _, one := range l.runs {
			r.res.Must("the close", l.close(ctx, one))
		}
		r.res.Must("the judge", l.judge(ctx))
		watched()
	}
}

func (l *loginRun) furnish(ctx context.Context) (stop func(), err error) {
	l.issuer = scriptedauth.New(slog.New(slog.DiscardHandler))
	stop = func() { _ = l.issuer.Close() } // nobody uses it any more
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
	if name != "a" { // sessions that run concurrently need their own random sources
		r.rng = rand.New(rand.NewPCG(l.rng.Uint64(), 1))
	}
	l.runs = append(l.runs, r)
	return r
}

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

func (l *loginRun) begun(ctx context.Context, r *run) error {
	if err := l.open(ctx, r); err != nil {
		return err
	}
	return r.hello(ctx)
}

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

// goesOn completes a turn. If a turn is reported as unknown or interrupted, the
// message is sent again, as a person would do.
func (l *loginRun) goesOn(ctx context.Context, r *run) error {
	if n := len(r.said); n > 0 {
		// A message that arrives before an interrupted turn has ended stays
		// queued for a further turn.
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

func (l *loginRun) close(ctx context.Context, r *run) error {
	over := func(d protocol.SessionDetail) bool {
		return d.View.State == protocol.Closed || d.View.State == protocol.Failed && d.View.Close != nil
	}
	d, err := l.detail(ctx, r.id)
	if err != nil || over(d) {
		return err
	}
	if d.View.State != protocol.Closing {
		if err := r.signal(ctx, r.id, protocol.SignalClose, protocol.Close{By: "faults"}); err != nil {
			return err
		}
	}
	if d, err = r.until(ctx, r.id, "to be closed", over); err != nil {
		return err
	}
	if c := d.View.Close; c == nil || !c.Wiped {
		l.res.Find(credentialsLeft, "%s closed with %+v, error %+v", r.id, c, d.View.Error)
	}
	return nil
}

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

// auth returns codex's auth.json on the host; nil if there is none.
func (r *run) auth() []byte {
	data, _ := os.ReadFile(filepath.Join(r.dir(), "codex-home", "auth.json"))
	return data
}

func refreshIn(auth []byte) string {
	var a struct {
		Tokens struct {
			Refresh string `json:"refresh_token"`
		} `json:"tokens"`
	}
	_ = json.Unmarshal(auth, &a) // partly written: not there yet
	return a.Tokens.Refresh
}

func (l *loginRun) view(ctx context.Context) (v protocol.SeedView, err error) {
	err = again(ctx, "ask for seed "+l.seed, func(ctx context.Context) error {
		q, err := l.temporal.QueryWorkflow(ctx, protocol.SeedID(l.seed), "", protocol.QuerySeed)
		if err != nil {
			return err
		}
		v = protocol.SeedView{}
		return q.Get(&v)
	})
	return v, err
}

func (l *loginRun) update(ctx context.Context, name string, arg any) error {
	h, err := l.temporal.UpdateWorkflow(ctx, client.UpdateWorkflowOptions{WorkflowID: protocol.SeedID(l.seed), UpdateName: name,
		Args: []any{arg}, WaitForStage: client.WorkflowUpdateStageCompleted})
	if err != nil {
		return err
	}
	return h.Get(ctx, nil)
}

func (l *loginRun) watch(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	seen := map[string]bool{}
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			q, err := l.temporal.QueryWorkflow(ctx, protocol.SeedID(l.seed), "", protocol.QuerySeed)
			var v protocol.SeedView
			if err == nil && q.Get(&v) == nil && len(v.HeldBy) > 1 {
				seen[strings.Join(v.HeldBy, " and ")] = true
			}
			scenario.Sleep(ctx, 250*time.Millisecond)
		}
	}()
	return func() {
		cancel()
		<-done
		for who := range seen {
			l.res.Find(twoHolders, "held by %s", who)
		}
	}
}

// refusals are the answers that say that a login is dead.
var refusals = []string{"invalid_grant", "expired", "invalidated", "reused", "revoked"}

// judge checks that the newest unspent token that the issuer gave out is in the
// store, that no token was spent twice, and that nothing is left on the host.
func (l *loginRun) judge(ctx context.Context) error {
	var v protocol.SeedView
	err := again(ctx, "the seed to be free", func(ctx context.Context) (err error) {
		if v, err = l.view(ctx); err == nil && (v.State != protocol.SeedFree || v.Rotated != nil) {
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
		l.res.Find(deadMarks, "the seed is dead: %s", v.Reason)
	}
	if n := l.issuer.MostUses(); n > 1 {
		l.res.Find(twoHolders, "a refresh token was used %d times", n)
	}
	newest := l.issuer.Newest(l.first)
	if why := l.issuer.Revoked(l.first); why != "" {
		l.res.Find(lostRotations, "the issuer revoked the login: %s", why)
	}
	kept, err := l.kept(ctx, v)
	if err != nil {
		return err
	}
	if refreshIn(kept) != newest.Refresh || l.issuer.Uses(newest.Refresh) != 0 {
		l.res.Find(lostRotations, "generation %d in the store is not the issuer's newest token (used %d times)", v.Generation, l.issuer.Uses(newest.Refresh))
	}
	for _, r := range l.runs {
		if len(r.auth()) > 0 {
			l.res.Find(credentialsLeft, "%s", "auth.json of "+r.id+" is on the host")
		}
	}
	for _, what := range l.issuer.Surprises() {
		l.res.Find(wrong, "the issuer was surprised: %s", what)
	}
	return nil
}

// kept returns the auth.json that the seed names.
func (l *loginRun) kept(ctx context.Context, v protocol.SeedView) ([]byte, error) {
	st, err := l.readStore(ctx)
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

func (l *loginRun) trace() (out []string) {
	for _, r := range l.runs {
		out = append(out, r.told()...)
	}
	if l.issuer != nil {
		for _, q := range l.issuer.Requests() {
			out = append(out, fmt.Sprintf("issuer %s %s n=%d %s rotated=%v", q.Time.Format("15:04:05.000"), q.Endpoint, q.N, q.Answer, q.Rotated))
		}
	}
	return out
}
