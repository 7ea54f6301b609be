package activities

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fairlead.dev/fairlead/activities/internal/kit"
	"fairlead.dev/fairlead/activities/pumps"
	"fairlead.dev/fairlead/conversation"
	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/hostexec/process"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/internal/store"
	"fairlead.dev/fairlead/seeds"
	"fairlead.dev/fairlead/snapshots"
)

func TestErrorsOfDomainsGetTheirType(t *testing.T) {
	ours := hostexec.Epoch{Generation: 2, Pump: 3, Attempt: 1}
	for _, c := range []struct {
		err   error
		kind  string
		retry bool
	}{
		{hostexec.ErrUnreachable, protocol.ErrTypeUnreachable, true},
		{hostexec.ErrOutcomeUnknown, protocol.ErrTypeWireLost, true},
		{hostexec.ErrAuth, protocol.ErrTypeAuth, false},
		{hostexec.ErrHostKeyUnknown, protocol.ErrTypeHostKey, false},
		{hostexec.ErrHostKeyChanged, protocol.ErrTypeHostKey, false},
		{hostexec.ErrNoSpace, protocol.ErrTypeNoSpace, false},
		{&hostexec.FloodError{What: "it", Limit: 1}, protocol.ErrTypeHostFlood, false},
		{fmt.Errorf("%w: %w", hostexec.ErrOutcomeUnknown, &hostexec.FloodError{What: "it", Limit: 1}), protocol.ErrTypeHostFlood, false},
		{hostexec.ErrLocked, protocol.ErrTypeInternal, true},
		{hostexec.ErrUnsupported, protocol.ErrTypeInternal, false},
		{&hostexec.FencedError{Ours: ours, Host: hostexec.Epoch{Generation: 2, Pump: 4}}, protocol.ErrTypeFenced, false},
		{&hostexec.FencedError{Ours: ours, Host: hostexec.Epoch{Generation: 2, Pump: 3, Attempt: 2}}, protocol.ErrTypeFenced, true},
		{store.ErrUnreachable, protocol.ErrTypeStore, true},
		{store.ErrWrongKey, protocol.ErrTypeStore, false},
		{&kit.SeedError{Name: "team", Err: store.ErrUnreachable}, protocol.ErrTypeStore, true},
		{&kit.SeedError{Name: "team", Err: store.ErrWrongKey}, protocol.ErrTypeSeed, false},
		{&kit.SeedError{Name: "team", Err: store.ErrTorn}, protocol.ErrTypeSeed, false},
		{snapshots.ErrIncomplete, protocol.ErrTypeSnapshot, false},
		{snapshots.ErrNewer, protocol.ErrTypeSnapshot, false},
		{&snapshots.LineageError{Thread: "t", Of: "t", Why: "is missing"}, protocol.ErrTypeSnapshot, false},
		{&snapshots.UpstreamError{Remote: "origin"}, protocol.ErrTypeSnapshot, false},
		{&snapshots.GitSecretError{Host: "web"}, protocol.ErrTypeSnapshot, false},
		{snapshots.ErrGit, protocol.ErrTypeSnapshot, false},
		{seeds.ErrNotWiped, protocol.ErrTypeInternal, true},
		{errors.New("anything"), protocol.ErrTypeInternal, true},
		{kit.BadInput("no"), protocol.ErrTypeBadInput, false},
		{kit.ErrHandOver, protocol.ErrTypeWireLost, true},
	} {
		err := kit.Failing{Epoch: ours}.Failure(t.Context(), "do it", fmt.Errorf("with care: %w", c.err))
		app := appError(t, err)
		if app.Type() != c.kind || app.NonRetryable() == c.retry || !strings.HasPrefix(app.Message(), "do it: with care: ") {
			t.Errorf("%v became %s, non-retryable %v: %s", c.err, app.Type(), app.NonRetryable(), app.Message())
		}
	}
}

func TestCancelledAttemptEndsAsCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := kit.Failing{}.Failure(ctx, "do it", fmt.Errorf("%w: stopped waiting: %w", hostexec.ErrOutcomeUnknown, context.Canceled))
	if err != context.Canceled {
		t.Errorf("ended as %v", err)
	}
}

func TestErrorsAndResultsHoldNoSecret(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "auth.json"), fmt.Appendf(nil, `{"auth_mode":"apikey","OPENAI_API_KEY":%q}`, madeUpKey), 0o600); err != nil {
		t.Fatal(err)
	}
	b, err := seeds.Pack(dir)
	if err != nil {
		t.Fatal(err)
	}
	hide := seeds.NewRedactor("team", seeds.KnownSecrets(b))
	app := appError(t, kit.Failing{Hide: hide}.Failure(t.Context(), "do it", errors.New("bad key "+madeUpKey)))
	var p protocol.Problem
	if app.Details(&p) != nil || strings.Contains(app.Error()+p.Message+p.Hint, madeUpKey) {
		t.Errorf("the error holds the key: %v %+v", app, p)
	}
	out := pumps.RunPumpResult{
		Pump: conversation.PumpResult{
			Requests: []protocol.Request{{Command: "echo " + madeUpKey, Changes: []protocol.Change{{Diff: "+" + madeUpKey}}}},
			Turn:     &conversation.TurnEnd{FinalText: madeUpKey, Problem: &protocol.Problem{Message: madeUpKey}},
			State:    conversation.PumpState{FinalText: madeUpKey},
		},
		Process: &pumps.ProcessGone{StderrTail: madeUpKey},
	}
	kit.HideIn(hide, &out)
	if s := fmt.Sprintf("%+v %+v %+v %+v", out, *out.Pump.Turn, *out.Pump.Turn.Problem, *out.Process); strings.Contains(s, madeUpKey) {
		t.Errorf("the result holds the key: %s", s)
	}
	e := protocol.Entry{Text: madeUpKey, Data: map[string]string{"k": madeUpKey}}
	kit.HideIn(hide, &e)
	if s := fmt.Sprint(e); strings.Contains(s, madeUpKey) {
		t.Errorf("the entry holds the key: %s", s)
	}
}

// Only the end of codex's error log is read, and secrets are searched for after this
// cut.
func TestNoHalfOfASecretIsLeftWhereAnErrorLogIsCut(t *testing.T) {
	hide := conversation.NewRedactor(madeUpKey)
	for _, c := range []struct{ behind, want string }{
		{" was refused\nand that was all", "…and that was all"},
		{" was refused", "…was refused"},
		{"", "…"},
	} {
		behind := c.behind
		if pad := 2<<10 - len(madeUpKey)/2 - len(behind); behind != "" {
			behind += strings.Repeat("!", pad)
			c.want += strings.Repeat("!", pad)
		} else {
			behind = strings.Repeat("!", pad)
		}
		got := hide.String(pumps.GoneOf(process.Status{StderrTail: strings.Repeat("x", 1000) + " key " + madeUpKey + behind}).StderrTail)
		if got != c.want {
			t.Errorf("%q…, want %q…", got[:min(len(got), 80)], c.want[:min(len(c.want), 80)])
		}
	}
}
