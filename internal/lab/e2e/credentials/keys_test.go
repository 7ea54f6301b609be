package credentials

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"filippo.io/age"

	"fairlead.dev/fairlead/internal/lab"
	"fairlead.dev/fairlead/internal/lab/e2e"
	"fairlead.dev/fairlead/internal/payload"
	"fairlead.dev/fairlead/internal/protocol"
)

// The key of a stack's store is changed: first the new identity is added to the
// old one, while a session runs and a worker is killed; then the old one is
// removed.
func TestTheStoresKeyIsChangedUnderARunningSession(t *testing.T) {
	ctx := e2e.Within(t)
	identities := filepath.Join(t.TempDir(), "identities.txt")
	var ids []*age.X25519Identity
	for range 2 {
		id, err := age.GenerateX25519Identity()
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
	}
	give := func(ids ...*age.X25519Identity) {
		t.Helper()
		var b bytes.Buffer
		for _, id := range ids {
			fmt.Fprintln(&b, id)
		}
		if err := os.WriteFile(identities, b.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	config := func(to *age.X25519Identity) string {
		return fmt.Sprintf("limits: {watch: 1s}\nstore: {identity: %q, recipients: [%s]}\n", identities, to.Recipient())
	}
	give(ids[0])
	l, run := e2e.Own(t, config(ids[0]))
	run("session", "start", "--host", "web-1", "--seed", "team", "--id", "long")
	run("session", "send", "long", "hello")
	for i := range 3 {
		if err := l.ImportSeed(ctx, fmt.Sprintf("other-%d", i)); err != nil {
			t.Fatal(err)
		}
	}
	run("seed", "delete", "other-0", "--purge")

	// With the new recipients but without the old identity nothing can be read.
	restart := func(to *age.X25519Identity) lab.Result {
		t.Helper()
		if err := l.Down(ctx); err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(l.Dir, "fairlead.yaml")
		if err := os.WriteFile(file, []byte(config(to)), 0o600); err != nil {
			t.Fatal(err)
		}
		return l.Ctl(ctx, nil, "up", "--detach", "--config", file)
	}
	give(ids[1])
	if r := restart(ids[1]); r.Code == 0 || !strings.Contains(r.Stderr, "encrypted for another key") {
		t.Errorf("a stack with another key: %v", r)
	}
	give(ids[0], ids[1])
	if err := os.WriteFile(filepath.Join(l.Dir, "fairlead.yaml"), []byte(config(ids[1])), 0o600); err != nil {
		t.Fatal(err)
	}
	run("up", "--detach", "--config", filepath.Join(l.Dir, "fairlead.yaml"))

	var looked protocol.RotateKeysResult
	r := l.Ctl(ctx, nil, "seed", "rotate-keys", "--check", "-o", "json")
	if r.Code != 1 {
		t.Fatalf("before: %v", r)
	}
	if err := e2e.FirstJSON(r.Stdout, &looked); err != nil || looked.Left < 4 || looked.Seeds < 3 || looked.Unneeded || !looked.Check {
		t.Errorf("before: %+v, %v", looked, err)
	}
	// The turn's worker is killed while keys are rotated; both must continue.
	run("session", "send", "long", "take your time at gate rekeyed", "--no-wait")
	if _, err := l.Model.AwaitWaiting(ctx, "rekeyed"); err != nil {
		t.Fatal(err)
	}
	var st lab.Status
	if err := l.JSON(ctx, &st, "status"); err != nil {
		t.Fatal(err)
	}
	rotating := l.Command(ctx, "seed", "rotate-keys", "-o", "json")
	var out, errs bytes.Buffer
	rotating.Stdout, rotating.Stderr = &out, &errs
	if err := rotating.Start(); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(st.Workers[0].PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := rotating.Wait(); err != nil {
		t.Fatalf("rotate-keys: %v: %s%s", err, errs.String(), out.String())
	}
	var rotated protocol.RotateKeysResult
	if err := e2e.FirstJSON(out.String(), &rotated); err != nil || rotated.Left != 0 || !rotated.Unneeded ||
		len(rotated.Former) != 1 || rotated.Former[0] != ids[0].Recipient().String() {
		t.Errorf("rotated: %+v, %v", rotated, err)
	}
	l.Model.Release("rekeyed")
	if err := lab.Until(ctx, "the turn to end", func() (bool, error) {
		var v protocol.SessionView
		err := l.JSON(ctx, &v, "session", "show", "long")
		return v.Turn != nil && v.Turn.N == 2 && v.Turn.Status == "completed", err
	}); err != nil {
		t.Fatal(err)
	}

	// The new identity alone suffices for everything, and the purged seed is
	// gone.
	give(ids[1])
	if r := restart(ids[1]); r.Code != 0 {
		t.Fatalf("with the new identity alone: %v", r)
	}
	if text := run("transcript", "long"); !strings.Contains(text, "hello") {
		t.Errorf("the transcript reads %q", text)
	}
	run("session", "send", "long", "hello")
	run("session", "close", "long")
	run("session", "start", "--host", "web-1", "--seed", "other-1", "--id", "next")
	run("session", "send", "next", "hello")
	run("session", "close", "next")
	if found, err := filepath.Glob(filepath.Join(l.State, "store", "seeds", "other-0", "*")); err != nil || len(found) != 0 {
		t.Errorf("the purged seed is there again: %v, %v", found, err)
	}
	run("seed", "rotate-keys", "--check")
}

// The payload key is changed: old histories remain readable, new ones use the
// new key, and ctl without either key says so before it sends anything.
func TestThePayloadKeyIsChangedUnderARunningSession(t *testing.T) {
	ctx := e2e.Within(t)
	l, run := e2e.Own(t, "limits: {watch: 1s}\n")
	keyOf := func() string {
		t.Helper()
		var st lab.Status
		if err := l.JSON(ctx, &st, "status"); err != nil {
			t.Fatal(err)
		}
		return st.Temporal.PayloadKey
	}
	before := keyOf()
	run("session", "start", "--host", "web-1", "--seed", "team", "--id", "long")
	run("session", "send", "long", "hello")

	file := filepath.Join(l.State, "payload.key")
	old, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	fresh := filepath.Join(t.TempDir(), "fresh")
	key, err := payload.GenerateKey(fresh)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(fresh)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Down(ctx); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, append(text, old...), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := l.Up(ctx); err != nil {
		t.Fatal(err)
	}
	if now := keyOf(); now != key.ID() || now == before {
		t.Errorf("encrypted with %s; before with %s, new is %s", now, before, key.ID())
	}
	run("session", "send", "long", "hello")
	run("doctor")

	var st lab.Status
	if err := l.JSON(ctx, &st, "status"); err != nil {
		t.Fatal(err)
	}
	empty := t.TempDir()
	tls := filepath.Join(l.State, "tls")
	reach := fmt.Sprintf("address: %q, tls: {ca: %q, cert: %q, key: %q}", st.Temporal.Address, filepath.Join(tls, "ca.pem"), filepath.Join(tls, "client.pem"), filepath.Join(tls, "client.pem"))
	config := filepath.Join(empty, "fairlead.yaml")
	if err := os.WriteFile(config, fmt.Appendf(nil, "temporal: {%s}\n", reach), 0o600); err != nil {
		t.Fatal(err)
	}
	// Without the stack's certificate ctl says what the server wants.
	if r := l.Ctl(ctx, nil, "--state", empty, "--address", st.Temporal.Address, "session", "list"); r.Code != 4 || !strings.Contains(r.Stderr, "temporal.tls") {
		t.Errorf("without a certificate: %v", r)
	}
	for _, args := range [][]string{{"session", "list"}, {"session", "send", "long", "marked-plain"}} {
		r := l.Ctl(ctx, nil, append([]string{"--state", empty, "--config", config}, args...)...)
		if r.Code != 2 || !strings.Contains(r.Stderr, "temporal.payload_key") {
			t.Errorf("without a key: %v", r)
		}
	}
	// With a copy of the key file named in its config, ctl works from anywhere.
	if err := os.WriteFile(config, fmt.Appendf(nil, "temporal: {%s, payload_key: %q}\n", reach, file), 0o600); err != nil {
		t.Fatal(err)
	}
	if r := l.Ctl(ctx, nil, "--state", empty, "--config", config, "session", "show", "long"); r.Code != 0 {
		t.Errorf("with the key: %v", r)
	}
	run("session", "close", "long")
}
