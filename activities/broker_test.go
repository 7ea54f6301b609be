package activities

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.temporal.io/sdk/temporal"

	"fairlead.dev/fairlead/activities/folder"
	"fairlead.dev/fairlead/activities/inquiry"
	"fairlead.dev/fairlead/activities/internal/kit"
	"fairlead.dev/fairlead/activities/logins"
	"fairlead.dev/fairlead/activities/places"
	"fairlead.dev/fairlead/activities/site"
	"fairlead.dev/fairlead/conversation"
	"fairlead.dev/fairlead/hostexec/process"
	"fairlead.dev/fairlead/internal/lab/scriptedauth"
	"fairlead.dev/fairlead/internal/lab/scriptedmodel"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/seeds"
)

// A desk plays the workflow of one seed: it refreshes at a real issuer, saves, and
// only then answers. An unexpected request fails the test.
type desk struct {
	b      *bed
	auth   *scriptedauth.Server
	holder string

	mu    sync.Mutex
	ref   protocol.SeedRef
	asked []inquiry.RefreshSeed
	no    error         // if set, refreshes fail with this error
	block chan struct{} // if set, refreshes wait for it
	begun chan struct{} // gets a value for each requested refresh
}

const deskEpoch = 4

func (d *desk) Now(_ context.Context, seed string) (inquiry.SeedNow, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if seed != d.ref.Name {
		d.b.t.Errorf("asked for seed %q", seed)
	}
	ref := d.ref
	return inquiry.SeedNow{Generation: ref.Generation, Ref: &ref, Holders: map[string]int64{d.holder: deskEpoch}}, nil
}

func (d *desk) Refresh(ctx context.Context, seed string, what inquiry.RefreshSeed) (inquiry.SeedNow, error) {
	d.mu.Lock()
	d.asked = append(d.asked, what)
	no, block := d.no, d.block
	d.mu.Unlock()
	d.begun <- struct{}{}
	if what.Holder != d.holder || what.Epoch != deskEpoch {
		d.b.t.Errorf("refresh asked by %+v", what)
	}
	if no != nil {
		return inquiry.SeedNow{}, no
	}
	if block != nil {
		select {
		case <-block:
		case <-ctx.Done():
			return inquiry.SeedNow{}, ctx.Err()
		}
	}
	if err := d.rotate(what.From); err != nil {
		return inquiry.SeedNow{}, err
	}
	return d.Now(ctx, seed)
}

func (d *desk) Rotated(_ context.Context, _ string, what inquiry.RotatedSeed) (inquiry.SeedNow, error) {
	d.b.t.Errorf("a login is said to be rotated on the host: %+v", what)
	return inquiry.SeedNow{}, errors.New("there is none on the host")
}

func (d *desk) Save(_ context.Context, _ string, what inquiry.SaveSeed) (inquiry.SeedNow, error) {
	d.b.t.Errorf("a login is saved from the host: %+v", what)
	return inquiry.SeedNow{}, errors.New("there is none on the host")
}

// rotate makes the generation after from, unless there is one.
func (d *desk) rotate(from int64) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ref.Generation > from {
		return nil
	}
	bundle, err := seeds.Load(d.b.t.Context(), d.b.store, d.ref.Blob)
	if err != nil {
		return err
	}
	var auth map[string]any
	if err := json.Unmarshal(bundle.File("auth.json"), &auth); err != nil {
		return err
	}
	tokens := auth["tokens"].(map[string]any)
	body, err := json.Marshal(map[string]any{"client_id": scriptedauth.ClientID, "grant_type": "refresh_token", "refresh_token": tokens["refresh_token"]})
	if err != nil {
		return err
	}
	res, err := http.Post(d.auth.TokenEndpoint(), "application/json", bytes.NewReader(body))
	if err != nil {
		return err
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != 200 {
		return fmt.Errorf("refreshing: %s, %w", res.Status, err)
	}
	var next map[string]any
	if err := json.Unmarshal(answer, &next); err != nil {
		return err
	}
	for k, v := range next {
		tokens[k] = v
	}
	auth["last_refresh"] = time.Now()
	data, err := json.Marshal(auth)
	if err != nil {
		return err
	}
	d.keep(data, bundle.File("config.toml"))
	return nil
}

// keep makes a generation of the seed. The caller holds mu.
func (d *desk) keep(auth, config []byte) {
	t := d.b.t
	t.Helper()
	dir, err := os.MkdirTemp(t.TempDir(), "seed")
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{"auth.json": auth, "config.toml": config} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	bundle, err := seeds.Pack(dir)
	if err != nil {
		t.Fatal(err)
	}
	ref, err := seeds.Save(context.Background(), d.b.store, "login", d.ref.Generation+1, bundle)
	if err != nil {
		t.Fatal(err)
	}
	d.ref = protocol.SeedRef{Name: ref.Name, Generation: ref.Generation, Blob: ref.Blob, Digest: ref.Digest, Kind: string(ref.Kind), Epoch: deskEpoch}
}

// loginMark is in every token of the login that the tests use.
const loginMark = "leakmark"

// brokered returns a session whose host gets no credential.
func (b *bed) brokered(id string, model *scriptedmodel.Server) (*talk, *desk) {
	b.t.Helper()
	auth := scriptedauth.Serve(b.t)
	login := auth.Login(scriptedauth.Account{Mark: loginMark})
	d := &desk{b: b, auth: auth, holder: id, begun: make(chan struct{}, 100)}
	var planted map[string]any
	if err := json.Unmarshal(login.AuthJSON(), &planted); err != nil {
		b.t.Fatal(err)
	}
	planted["last_refresh"] = time.Now().Add(-time.Hour)
	data, err := json.Marshal(planted)
	if err != nil {
		b.t.Fatal(err)
	}
	d.keep(data, []byte(scriptedmodel.LoginConfigTOML(model.BaseURL())))
	b.set.site.Tokens, b.set.site.Desk = d, d
	ref := d.ref
	k := &talk{bed: b, claim: protocol.Claim{Session: id, Host: b.spec, Generation: 1}, seed: &ref, credentials: protocol.CredentialsBroker}
	out, err := b.prepare(places.PrepareSessionInput{Claim: k.next(), Seed: k.seed, Sandbox: "workspace-write", Credentials: protocol.CredentialsBroker})
	if err != nil {
		b.t.Fatalf("prepare: %v", err)
	}
	k.layout, k.permissions = out.Layout, out.Permissions
	b.t.Cleanup(k.kill)
	return k, d
}

// access returns the digest of the access token of ref.
func (d *desk) access(ref protocol.SeedRef) string {
	d.b.t.Helper()
	bundle, err := seeds.Load(d.b.t.Context(), d.b.store, ref.Blob)
	if err != nil {
		d.b.t.Fatal(err)
	}
	a, err := seeds.AccessOf(bundle)
	if err != nil {
		d.b.t.Fatal(err)
	}
	return scriptedauth.Digest(a.Token.Reveal())
}

func (d *desk) newest() protocol.SeedRef {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.ref
}

// leaks searches for the mark in every file of the session on its host, and in the
// environment and arguments of all processes there.
func (k *talk) leaks() string {
	k.t.Helper()
	return k.sh(`for d in "$1" "$3"; do [ ! -e "$d" ] || grep -rlaF -e "$2" -- "$d" || :; done
for p in /proc/[0-9]*; do
	[ "$(readlink "$p/cwd" 2>/dev/null)" != "$3/work" ] || { echo looked >&2; grep -laF -e "$2" "$p/environ" "$p/cmdline" 2>/dev/null || :; }
done`, k.layout.Dir, loginMark, k.layout.Seen())
}

func tokensSeen(model *scriptedmodel.Server) (seen []string) {
	for _, r := range model.Requests() {
		if strings.HasSuffix(r.Path, "/responses") {
			seen = append(seen, r.TokenSHA256)
		}
	}
	return seen
}

func TestBrokeredSessionWorksAndItsHostNeverHasACredential(t *testing.T) {
	model := scriptedmodel.Serve(t, `
rules:
  - when: {turn: 1}
    steps:
      - shell: echo begun
      - - fail: {kind: unauthorized}
        - say: all is well
  - when: {turn: 2}
    reply: "Before that you said {{ .FirstUser }}"
`)
	b := newBed(t, readyHost(t))
	k, d := b.brokered("brokered", model)
	first := d.newest()
	if got := b.sh(`ls -A "$1"`, k.layout.CodexHome); strings.Contains(got, "auth.json") || !strings.Contains(got, "config.toml") {
		t.Fatalf("planted %s", got)
	}
	k.start()
	out := k.pump(conversation.TurnEnded, k.message("I am Ada"))
	if got := out.Pump.Turn; got.Status != "completed" || got.FinalText != "all is well" {
		t.Fatalf("turn %+v, problem %+v", got, got.Problem)
	}
	second := d.newest()
	if second.Generation != first.Generation+1 || len(d.asked) != 1 || d.asked[0].From != first.Generation {
		t.Errorf("generation %d; asked to refresh %+v", second.Generation, d.asked)
	}
	if got, want := tokensSeen(model), []string{d.access(first), d.access(first), d.access(second)}; strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("the model saw %q, want %q", got, want)
	}
	if got := k.leaks(); got != "" {
		t.Errorf("on the host: %s", got)
	}

	// kill -9 of codex: its token is lost, and the next process gets one before it
	// resumes the thread.
	st, err := process.Inspect(t.Context(), k.host(), folder.ServerDir(k.layout, 1))
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(st.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	// A pump that finds codex still alive would return at once, because it has
	// nothing to wait for.
	for st.State == process.Running {
		if st, err = process.Inspect(t.Context(), k.host(), folder.ServerDir(k.layout, 1)); err != nil {
			t.Fatal(err)
		}
	}
	k.pump(conversation.ProcessEnded)
	k.start()
	out = k.pump(conversation.TurnEnded, k.message("And now?"))
	if got := out.Pump.Turn; got.Status != "completed" || got.FinalText != "Before that you said I am Ada" {
		t.Fatalf("turn %+v, problem %+v", got, got.Problem)
	}
	if seen := tokensSeen(model); seen[len(seen)-1] != d.access(second) {
		t.Errorf("the model saw %s last, want %s", seen[len(seen)-1], d.access(second))
	}
	if len(d.asked) != 1 || d.auth.MostUses() != 1 {
		t.Errorf("refreshed %d times, a refresh token was used %d times", len(d.asked), d.auth.MostUses())
	}
	if got := k.leaks(); got != "" {
		t.Errorf("on the host: %s", got)
	}
	all, err := json.Marshal([]any{out, readAll(t, k.store, "brokered", 1)})
	if err != nil || bytes.Contains(all, []byte(loginMark)) {
		t.Errorf("on record (%v): %s", err, all)
	}

	got, err := k.close(k.closing())
	if err != nil || !got.Wiped || !got.Removed {
		t.Errorf("closed: %+v, %v", got, err)
	}
	if got := k.leaks(); got != "" {
		t.Errorf("on the host after the close: %s", got)
	}
}

func TestDeadLoginOfABrokerFailsTheTurnAsAuth(t *testing.T) {
	model := scriptedmodel.Serve(t, `
rules:
  - steps: [[{fail: {kind: unauthorized, times: -1}}, {say: never}]]
`)
	b := newBed(t, readyHost(t))
	k, d := b.brokered("broker-dead", model)
	k.start()
	d.no = temporal.NewNonRetryableApplicationError("seed login is dead", protocol.RefusedDead, nil)
	out := k.pump(conversation.TurnEnded, k.message("go"))
	if len(d.asked) != 1 {
		t.Errorf("a dead login was refreshed %d times", len(d.asked))
	}
	if p := out.Pump.Turn.Problem; out.Pump.Turn.Status != "failed" || p == nil || p.Kind != "auth" || !strings.Contains(p.Hint, "log in") {
		t.Errorf("turn %+v, problem %+v", out.Pump.Turn, p)
	}
}

func TestSeedThatWasTakenAwayCallsThePumpBack(t *testing.T) {
	model := scriptedmodel.Serve(t, `
rules:
  - steps: [[{fail: {kind: unauthorized, times: -1}}, {say: never}]]
`)
	fenced := temporal.NewNonRetryableApplicationError("session has no lease on seed login", protocol.RefusedFenced, nil)
	for name, c := range map[string]struct {
		session string
		take    func(*desk)
	}{
		"before codex is logged in": {"broker-taken", func(d *desk) { d.holder = "somebody-else" }},
		"while a turn runs":         {"broker-fenced", func(d *desk) { d.no = fenced }},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, readyHost(t))
			k, d := b.brokered(c.session, model)
			k.start()
			c.take(d)
			out := k.pump(conversation.PumpCancelled, k.message("go"))
			if p := out.SeedLost; p == nil || p.Kind != protocol.ErrTypeSeedFenced || p.Hint == "" || strings.Contains(p.Message, loginMark) {
				t.Errorf("the seed is lost: %+v", p)
			}
			if out.Pump.Turn != nil {
				t.Errorf("codex was told, and ended its turn: %+v", out.Pump.Turn)
			}
		})
	}
}

// A pump without the seed reads the output of a stopped codex to its end.
func TestPumpThatReadsOnWithoutTheSeedIsNotCalledBack(t *testing.T) {
	model := scriptedmodel.Serve(t, "rules: [{reply: never}]")
	b := newBed(t, readyHost(t))
	k, d := b.brokered("broker-unkept", model)
	k.start()
	d.holder = "somebody-else"
	in := k.input(k.message("go"))
	in.Unkept = true
	got := <-k.pumpBeside(t.Context(), b, in, quiet(1))
	if got.err != nil {
		t.Fatal(got.err)
	}
	k.took(got.out, conversation.Refused)
	if p := got.out.Pump.Problem; p.Kind != "auth" || !strings.Contains(p.Message, "no longer holds the seed") || got.out.SeedLost != nil {
		t.Errorf("problem %+v, the seed is lost: %+v", p, got.out.SeedLost)
	}
}

func TestAnotherWorkerAnswersTheRefreshOfOneThatDied(t *testing.T) {
	model := scriptedmodel.Serve(t, `
rules:
  - steps: [[{fail: {kind: unauthorized}}, {say: all is well}]]
`)
	b := newBed(t, readyHost(t))
	k, d := b.brokered("broker-worker", model)
	k.start()
	d.block = make(chan struct{})
	in := k.input(k.message("go"))
	dying := b.another()
	dying.set.site.Tokens = d
	first := k.pumpBeside(context.Background(), dying, in, quiet(1))
	<-d.begun
	// The first worker is not heard of any more: its connections break.
	if err := dying.pool.Close(); err != nil {
		t.Fatal(err)
	}
	d.mu.Lock()
	block := d.block
	d.block = nil
	d.mu.Unlock()
	got := <-k.pumpBeside(t.Context(), b, in, quiet(2))
	close(block)
	<-first
	if got.err != nil {
		t.Fatal(got.err)
	}
	k.took(got.out, conversation.TurnEnded)
	if turn := got.out.Pump.Turn; turn.Status != "completed" || turn.FinalText != "all is well" {
		t.Errorf("turn %+v, problem %+v", turn, turn.Problem)
	}
	if n := d.auth.MostUses(); n != 1 || len(d.auth.Refreshes()) != 1 {
		t.Errorf("a refresh token was used %d times, %d refreshes", n, len(d.auth.Refreshes()))
	}
}

func TestOnlyAChatGPTLoginCanBeBrokered(t *testing.T) {
	for _, seed := range []*protocol.SeedRef{nil, {Name: "team", Kind: "api_key"}, {Name: "team", Kind: "provider"}} {
		err := logins.CheckBroker(protocol.CredentialsBroker, seed)
		var typed *kit.TypedError
		if !errors.As(err, &typed) || typed.Kind != protocol.ErrTypeBadInput {
			t.Errorf("%+v: %v", seed, err)
		}
		if err := logins.CheckBroker("", seed); err != nil {
			t.Errorf("%+v without a broker: %v", seed, err)
		}
	}
}

func TestCodexThatWritesTokensDownIsRefused(t *testing.T) {
	for version, ok := range map[string]bool{"0.125.0": false, "0.147.0": false, "0.150.9": false, "0.151.0": true, "0.169.0": true, "": false} {
		err := logins.CheckBrokerCodex(protocol.CredentialsBroker, version)
		if (err == nil) != ok {
			t.Errorf("codex %q: %v", version, err)
		}
		if err := logins.CheckBrokerCodex("", version); err != nil {
			t.Errorf("codex %q without a broker: %v", version, err)
		}
	}
}

func TestTokenIsRefreshedOnlyWhereThatCanHelp(t *testing.T) {
	now := time.Now()
	b := &logins.Brokering{Site: &site.Site{Deps: site.Deps{Now: func() time.Time { return now }}}}
	for name, c := range map[string]struct {
		access seeds.Access
		ask    conversation.TokenAsk
		want   bool
	}{
		"login with a good one":             {seeds.Access{Expires: now.Add(time.Hour)}, conversation.TokenAsk{}, false},
		"login with one that says nothing":  {seeds.Access{}, conversation.TokenAsk{}, false},
		"login with one that is over":       {seeds.Access{Expires: now.Add(-time.Hour)}, conversation.TokenAsk{}, true},
		"refused, and there is no other":    {seeds.Access{Expires: now.Add(time.Hour)}, conversation.TokenAsk{Reason: "refresh", Have: 7}, true},
		"refused, and there is a newer one": {seeds.Access{Expires: now.Add(time.Hour)}, conversation.TokenAsk{Reason: "refresh", Have: 6}, false},
	} {
		if got := b.Spent(c.access, inquiry.SeedNow{Generation: 7}, c.ask); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	refused := conversation.TokenAsk{Reason: "refresh", Have: 7}
	b.Made(7)
	if b.Spent(seeds.Access{}, inquiry.SeedNow{Generation: 7}, refused) {
		t.Error("what was refreshed a moment ago is refreshed again")
	}
	now = now.Add(logins.JustRefreshed)
	if !b.Spent(seeds.Access{}, inquiry.SeedNow{Generation: 7}, refused) {
		t.Error("what was refreshed long ago is not refreshed again")
	}
}
