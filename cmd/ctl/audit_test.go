//go:build linux

package main

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"filippo.io/age"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	temporallog "go.temporal.io/sdk/log"
	"go.temporal.io/sdk/workflow"
	"golang.org/x/crypto/ssh"

	"fairlead.dev/fairlead/activities/records"
	"fairlead.dev/fairlead/cmd/ctl/internal/terminaltest"
	"fairlead.dev/fairlead/internal/api"
	"fairlead.dev/fairlead/internal/audit"
	"fairlead.dev/fairlead/internal/command"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/internal/sshsig"
	"fairlead.dev/fairlead/internal/store"
)

var auditNoon = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)

// foreign is what somebody wrote into a record to deceive who looks at it.
const foreign = "mallory\x1b]0;owned\x07\u202e\n2026-05-04T12:00:00Z  accepted  root"

// signedChain returns the records of a session: signed commands of ann's, and a refused one
// of a stranger's.
func signedChain(t *testing.T, key ssh.Signer, entity string) audit.Chain {
	t.Helper()
	c := audit.Chain{Entity: entity}
	object, _, _ := strings.Cut(strings.TrimPrefix(entity, "session/"), "/")
	object = "session/" + object
	for i := range 4 {
		at := auditNoon.Add(time.Duration(i) * time.Hour)
		raw, err := command.Sign(key, "ann", object, "message", fmt.Appendf(nil, `{"id":"m%d","text":"the prompt"}`, i), at)
		if err != nil {
			t.Fatal(err)
		}
		r := audit.OfCommand(object, "message", "session.message", raw, at)
		r.Principal, r.Outcome = "ann", audit.Accepted
		if i == 0 {
			r.Decision = signedDecision(t, key)
		}
		c.Add(r)
		if i == 1 {
			r = audit.OfCommand(object, "close", "session.close", []byte(`{"by":"ann"}`), at)
			r.Outcome, r.Principal, r.Reason = audit.Refused, foreign, "it is not signed: "+foreign
			c.Add(r)
		}
	}
	return c
}

// signedDecision is the word of an approver.
func signedDecision(t *testing.T, key ssh.Signer) *audit.Decision {
	t.Helper()
	message, err := sshsig.Decision{Session: "s1", Approval: "s1.1", AskedAt: audit.TimeText(auditNoon), Digest: "d", Outcome: "decline", Scope: "once"}.Message()
	if err != nil {
		t.Fatal(err)
	}
	armored, err := sshsig.Sign(key, sshsig.Namespace, message)
	if err != nil {
		t.Fatal(err)
	}
	return &audit.Decision{Approval: "s1.1", Digest: "d", Outcome: "decline", Message: string(message), Signature: string(armored)}
}

// An archive is a stack whose worker has a store with records, and whose session s1 tells
// its newest record.
type archive struct {
	*testing.T
	store  *store.Store
	config string
	key    ssh.Signer
	s1, s2 audit.Chain
	worker *protocol.AuditHead // of the worker's own chain

	temporal string // address
}

func openArchive(t *testing.T) *archive {
	t.Helper()
	atHome(t)
	dir := t.TempDir()
	_, secret, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	a := &archive{T: t, config: filepath.Join(dir, "config.yaml")}
	if a.key, err = ssh.NewSignerFromKey(secret); err != nil {
		t.Fatal(err)
	}
	a.s1, a.s2 = signedChain(t, a.key, "session/s1/run-1"), signedChain(t, a.key, "session/s2/run-1")
	id, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	if a.store, err = store.Open(t.Context(), store.Options{URL: "file://" + filepath.Join(dir, "store"), Recipients: []age.Recipient{id.Recipient()}, Identities: []age.Identity{id}}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.store.Close() })
	a.put(a.s1.Entity, a.s1.Waiting[:4]) // the session still has the fifth
	a.put(a.s2.Entity, a.s2.Waiting)
	srv, err := api.Serve(api.Options{Listen: "unix://" + filepath.Join(dir, "run", "api.sock"), Store: a.store, Hub: api.NewHub(nil),
		Status: func() api.Status {
			return api.Status{Ready: true, TaskQueues: []string{protocol.TaskQueue}, Store: api.StoreInfo{ID: a.store.ID()}, Audit: a.worker}
		}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { srv.Close() })
	view := protocol.AuditView{Head: a.s1.Newest(), Waiting: a.s1.Waiting[4:]}
	a.temporal = serve(t, func(ctx workflow.Context) error {
		if workflow.GetInfo(ctx).WorkflowExecution.ID != protocol.SessionID("s1") {
			workflow.GetSignalChannel(ctx, "end").Receive(ctx, nil)
			return nil
		}
		if err := workflow.SetQueryHandler(ctx, protocol.QueryAudit, func() (protocol.AuditView, error) { return view, nil }); err != nil {
			return err
		}
		workflow.GetSignalChannel(ctx, "end").Receive(ctx, nil)
		return nil
	})
	if err := os.WriteFile(a.config, fmt.Appendf(nil, "temporal: {address: %q}\napi: {address: %q}\n", a.temporal, srv.Address()), 0o600); err != nil {
		t.Fatal(err)
	}
	return a
}

// put stores lines, a blob each.
func (a *archive) put(entity string, lines []string) {
	a.Helper()
	for i, line := range lines {
		if err := records.WriteAudit(a.Context(), a.store, audit.Batch{Entity: entity, First: int64(i + 1), Lines: []string{line}}); err != nil {
			a.Fatal(err)
		}
	}
}

// holds replaces all records of an entity.
func (a *archive) holds(entity string, lines []string) {
	a.Helper()
	infos, err := a.store.List(a.Context(), records.AuditKeys(entity))
	if err != nil {
		a.Fatal(err)
	}
	for _, info := range infos {
		if err := a.store.Delete(a.Context(), info.Key); err != nil {
			a.Fatal(err)
		}
	}
	a.put(entity, lines)
}

func (a *archive) ctl(args ...string) (code int, out, errs string) {
	a.Helper()
	return ctl(a.T, a.config, append([]string{"audit"}, args...)...)
}

// judge is `ctl audit verify`.
func (a *archive) judge(args ...string) (code int, v struct {
	Holds                  bool
	Chains, Records, Heads int
	Faults                 []audit.Fault
}) {
	a.Helper()
	code, out, errs := a.ctl(append([]string{"verify", "-o", "json"}, args...)...)
	if err := json.Unmarshal([]byte(out), &v); err != nil || (code == 0) != v.Holds || v.Holds != (len(v.Faults) == 0) {
		a.Fatalf("verify %q: exit %d, %v, %s%s", args, code, err, out, errs)
	}
	return code, v
}

// TestTheRecordIsListedExportedAndVerified tries the commands on one stack.
func TestTheRecordIsListedExportedAndVerified(t *testing.T) {
	a := openArchive(t)
	t.Run("list", func(t *testing.T) {
		code, out, errs := a.ctl("list", "--session", "s1")
		lines := strings.Split(strings.TrimSuffix(out, "\n"), "\n")
		if code != 0 || len(lines) != 6 || !strings.Contains(lines[1], "2026-05-04T12:00:00Z") || !strings.Contains(lines[3], "refused") || !strings.Contains(lines[5], "15:00:00Z") {
			t.Errorf("exit %d, %d lines:\n%s%s", code, len(lines), out, errs)
		}
		for args, want := range map[string]int{"": 9, "--since 2026-05-04T13:30:00Z": 3, "--session s2 --since 2026-05-04T15:00:00Z": 1, "--session s3": 0, "--workflow session/s2": 5, "--workflow pool/default": 0, "--since 1h": 0} {
			code, out, errs := a.ctl(append([]string{"list", "-o", "json"}, strings.Fields(args)...)...)
			if n := strings.Count(out, "\n"); code != 0 || n != want {
				t.Errorf("list %s: exit %d, %d records, want %d: %s", args, code, n, want, errs)
			}
		}
		for _, args := range []string{"--since yesterday", "--since=-1h", "--session ../s1", "--session s1 --workflow pool/default", "--workflow " + strings.Repeat("x", 600)} {
			if code, out, _ := a.ctl(append([]string{"list"}, strings.Fields(args)...)...); code != 2 {
				t.Errorf("list %s: exit %d, %s", args, code, out)
			}
		}
	})
	t.Run("list, export and verify on a terminal", func(t *testing.T) {
		bad := signedChain(t, a.key, "session/s9/"+foreign).Waiting[1:]
		file := filepath.Join(t.TempDir(), "bad.jsonl")
		if err := os.WriteFile(file, []byte(strings.Join(bad, "\n")+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, args := range [][]string{{"list"}, {"list", "-o", "json"}, {"export"}, {"verify", file}, {"verify", file, "-o", "json"}} {
			got := onTerminal(t, append([]string{"--config", a.config, "--state", t.TempDir(), "audit"}, args...)...)
			if strings.ContainsAny(got, "\x07\u202e") || strings.Contains(got, "\x1b]") || !strings.Contains(got, "owned") {
				t.Errorf("%q: the terminal gets %q", args, got)
			}
			for line := range strings.Lines(got) {
				if strings.HasPrefix(line, "2026-05-04T12:00:00Z  accepted  root") {
					t.Errorf("%q: a record begins a line of its own: %q", args, line)
				}
			}
		}
	})
	t.Run("export", func(t *testing.T) {
		code, out, errs := a.ctl("export", "--session", "s1")
		if code != 0 || out != strings.Join(a.s1.Waiting, "\n")+"\n" {
			t.Fatalf("exit %d, %s%s", code, out, errs)
		}
		if code, _, errs = a.ctl("export", "--session", "s1", "--evidence", filepath.Join(a.config, "in-a-file")); code != 1 || !strings.Contains(errs, "not a directory") {
			t.Errorf("evidence that cannot be written: exit %d, %s", code, errs)
		}
	})
	t.Run("export over files that are there", func(t *testing.T) {
		dir := t.TempDir()
		export := func(args ...string) (int, string, string) {
			return a.ctl(append([]string{"export", "--session", "s1", "--evidence", dir}, args...)...)
		}
		for range 2 { // the same content is written only once
			if code, out, errs := export(); code != 0 || out == "" {
				t.Fatalf("exit %d, %s", code, errs)
			}
		}
		file := filepath.Join(dir, "session_s1_run-1", "1.sig")
		whole, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte("precious"), 0o600); err != nil {
			t.Fatal(err)
		}
		code, out, errs := export()
		if now, err := os.ReadFile(file); code != 6 || out != "" || !strings.Contains(errs, "1.sig is there already with other content") || string(now) != "precious" || err != nil {
			t.Errorf("without --force: exit %d, the file has %q, %v: %s", code, now, err, errs)
		}
		code, _, errs = export("--force")
		if now, err := os.ReadFile(file); code != 0 || !bytes.Equal(now, whole) || err != nil {
			t.Errorf("with --force: exit %d, the file has %q, %v: %s", code, now, err, errs)
		}
	})
	t.Run("verify", func(t *testing.T) {
		if code, v := a.judge("--session", "s1"); code != 0 || v.Records != 5 || v.Chains != 1 || v.Heads != 1 {
			t.Errorf("s1: exit %d, %+v", code, v)
		}
		if code, v := a.judge(); code != 0 || v.Records != 9 || v.Chains != 2 || v.Heads != 0 {
			t.Errorf("all that the store has: exit %d, %+v", code, v)
		}
		whole := a.s1.Waiting[:4]
		defer a.holds(a.s1.Entity, whole)
		for what, c := range damaged(whole) {
			a.holds(a.s1.Entity, c.lines)
			code, v := a.judge("--session", "s1")
			if code != 1 || len(v.Faults) != 1 || v.Faults[0].Entity != c.entity || v.Faults[0].Seq != c.seq {
				t.Errorf("%s: exit %d, %+v; want record %d of %s", what, code, v.Faults, c.seq, c.entity)
			}
		}
		a.holds(a.s1.Entity, nil)
		if code, v := a.judge("--session", "s1"); code != 1 || v.Faults[0].Seq != 1 {
			t.Errorf("all of the store is gone: exit %d, %+v", code, v)
		}
		code, _, errs := a.ctl("verify", "--session", "s2")
		if code != 0 || !strings.Contains(errs, "no longer knows session s2") {
			t.Errorf("a session that Temporal forgot: exit %d, %s", code, errs)
		}
	})
	t.Run("verify a file", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "audit.jsonl")
		verify := func(lines []string) (int, []audit.Fault) {
			if err := os.WriteFile(file, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			code, v := a.judge(file)
			return code, v.Faults
		}
		if code, faults := verify(slices.Concat(a.s2.Waiting, a.s1.Waiting)); code != 0 {
			t.Errorf("untouched: %v", faults)
		}
		for what, c := range damaged(a.s1.Waiting) {
			if code, faults := verify(c.lines); code != 1 || faults[0].Entity != c.entity || faults[0].Seq != c.seq {
				t.Errorf("%s: exit %d, %+v; want record %d of %s", what, code, faults, c.seq, c.entity)
			}
		}
		for what, text := range map[string]string{"no file": "", "no JSON": "x", "depth": strings.Repeat("[", 1<<20), "a long line": strings.Repeat("x", 1<<20)} {
			if what == "no file" {
				if code, _, _ := a.ctl("verify", file+"-not-there"); code != 2 {
					t.Errorf("%s: exit %d", what, code)
				}
			} else if code, faults := verify([]string{a.s1.Waiting[0], text}); code != 1 || faults[0].Entity != "line 2" {
				t.Errorf("%s: exit %d, %+v", what, code, faults)
			}
		}
	})
	t.Run("verify without Fairlead", func(t *testing.T) { a.byHand(t) })
}

// The end of a chain is cut off, or a whole chain is removed, by somebody who can write to the
// store and to nothing else.
func TestACutOfTheStoreIsFoundWithoutAHead(t *testing.T) {
	a, state := openArchive(t), t.TempDir()
	faulty := func(what string, want map[string]int64, args ...string) {
		t.Helper()
		code, v := a.judge(append([]string{"--state", state}, args...)...)
		got := map[string]int64{}
		for _, f := range v.Faults {
			got[f.Entity] = f.Seq
		}
		if !maps.Equal(got, want) {
			t.Errorf("%s: exit %d, faults %v, want %v", what, code, v.Faults, want)
		}
	}
	none := map[string]int64{}
	faulty("the first look", none)
	file := filepath.Join(state, "audit-heads", a.store.ID()+".jsonl")
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("%v, %v", info, err)
	}
	first, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	t.Run("by what ctl saw before", func(t *testing.T) {
		a.holds(a.s2.Entity, a.s2.Waiting[:3])
		faulty("the end is cut off", map[string]int64{a.s2.Entity: 4})
		faulty("the same, of the session alone", map[string]int64{a.s2.Entity: 4}, "--session", "s2")
		faulty("another session", none, "--session", "s1")
		a.holds(a.s2.Entity, nil)
		faulty("the chain is removed", map[string]int64{a.s2.Entity: 1})
		other := signedChain(t, a.key, a.s2.Entity).Waiting // with other nonces
		a.holds(a.s2.Entity, other)
		faulty("the chain is replaced", map[string]int64{a.s2.Entity: 5})
		if now, err := os.ReadFile(file); err != nil || !bytes.Equal(now, first) {
			t.Errorf("what does not hold is remembered: %v\n%s\n%s", err, first, now)
		}
		a.holds(a.s2.Entity, a.s2.Waiting)
		faulty("all is as it was", none)
	})
	t.Run("in a file elsewhere", func(t *testing.T) {
		heads := filepath.Join(t.TempDir(), "heads")
		export := filepath.Join(t.TempDir(), "audit.jsonl")
		put := func(lines []string) {
			if err := os.WriteFile(export, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		put(a.s2.Waiting)
		faulty("the first look", none, export, "--heads", heads)
		put(a.s2.Waiting[:4])
		faulty("the end is cut off", map[string]int64{a.s2.Entity: 5}, export, "--heads", heads)
		faulty("nobody is asked", none, export)
		if code, _, errs := a.ctl("verify", export, "--ask"); code != 2 {
			t.Errorf("exit %d, %s", code, errs)
		}
		if err := os.WriteFile(heads, []byte("no head\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if code, _, errs := a.ctl("verify", export, "--heads", heads); code != 1 || !strings.Contains(errs, "line 1 is no head") {
			t.Errorf("exit %d, %s", code, errs)
		}
	})
	t.Run("by what the workflows tell", func(t *testing.T) {
		a.holds(a.s1.Entity, nil)
		defer a.holds(a.s1.Entity, a.s1.Waiting[:4])
		heads := filepath.Join(t.TempDir(), "heads")
		faulty("nobody is asked", none, "--heads", heads)
		faulty("each workflow is asked", map[string]int64{a.s1.Entity: 1}, "--heads", heads, "--ask")
	})
	t.Run("beside workflows that tell nothing", func(t *testing.T) {
		c, err := client.Dial(client.Options{HostPort: a.temporal, Logger: temporallog.NewStructuredLogger(slog.New(slog.DiscardHandler))})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		begin := func(id, queue, kind string) {
			t.Helper()
			run, err := c.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{ID: id, TaskQueue: queue}, kind)
			for listed := false; !listed; time.Sleep(100 * time.Millisecond) {
				var l *workflowservice.ListWorkflowExecutionsResponse
				if err == nil {
					l, err = c.ListWorkflow(t.Context(), &workflowservice.ListWorkflowExecutionsRequest{Query: "WorkflowId = '" + id + "'"})
				}
				if err != nil {
					t.Fatal(err)
				}
				listed = len(l.GetExecutions()) > 0
			}
			t.Cleanup(func() {
				if err := c.TerminateWorkflow(context.Background(), id, run.GetRunID(), "the test ends"); err != nil {
					t.Error(err)
				}
			})
		}
		// It runs, and has no records: it does not hold up the others.
		begin("maintenance/running", protocol.TaskQueue, protocol.TypeSession)
		code, out, errs := a.ctl("verify", "--ask")
		if code != 0 || !strings.Contains(errs, "1 of 2 workflows tell no newest record") {
			t.Errorf("exit %d, %s%s", code, out, errs)
		}
		// No worker has taken it up, and ctl does not know its type. The others are verified.
		begin("session/untaken", "nobody-polls-it", "Unknown")
		code, out, errs = a.ctl("verify", "--ask")
		if code != 4 || !strings.Contains(out, "10 records") || !strings.Contains(errs, "no answer from 1 workflow; the first is session/untaken") {
			t.Errorf("exit %d, %s%s", code, out, errs)
		}
	})
	t.Run("by what the worker tells", func(t *testing.T) {
		refusals := signedChain(t, a.key, "worker/w1")
		a.put(refusals.Entity, refusals.Waiting[:4])
		a.worker = refusals.Newest()
		a.worker.Waiting = 0
		faulty("its end is cut off", map[string]int64{refusals.Entity: 5})
	})
}

// An export is verified by access files that know ann's key, and that do not. Nobody is asked.
func TestAnExportIsVerifiedByTheKeysOfAnAccessFile(t *testing.T) {
	atHome(t)
	_, secret, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	key, err := ssh.NewSignerFromKey(secret)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	put := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	line := strings.TrimSpace(string(ssh.MarshalAuthorizedKey(key.PublicKey())))
	config := put("config.yaml", "")
	export := put("audit.jsonl", strings.Join(signedChain(t, key, "session/s1/run-1").Waiting, "\n")+"\n")
	verify := func(args ...string) (int, string, string) {
		return ctl(t, config, append([]string{"audit", "verify"}, args...)...)
	}
	const rest = "bindings: [{name: a, roles: [admin], to: [ann]}]\n"
	anns := put("access.yaml", fmt.Sprintf("people: [{name: ann, keys: [%q]}]\n%s", line, rest))
	none := put("none.yaml", "people: [{name: ann}]\n"+rest)
	code, out, errs := verify(export, "--access", anns, "-o", "json")
	var v struct {
		Holds  bool
		Access string
		Proofs []audit.Proof
	}
	if err := json.Unmarshal([]byte(out), &v); err != nil || code != 0 || !v.Holds || len(v.Access) != 64 || len(v.Proofs) != 5 {
		t.Fatalf("by ann's key: exit %d, %v, %s%s", code, err, out, errs)
	}
	for i, p := range v.Proofs {
		if want := map[bool]string{true: audit.Chained, false: audit.Proved}[i == 2]; p.Proof != want || p.Seq != int64(i+1) {
			t.Errorf("record %d: %+v, want %s", i+1, p, want)
		}
	}
	code, out, _ = verify(export, "--access", none)
	if code != 1 || strings.Count(out, "unproved") != 5 || !strings.Contains(out, "0 proved, 1 only chained, 4 unproved") || strings.Contains(out, "hold:") {
		t.Errorf("by a file without ann's key: exit %d, %s", code, out)
	}
	if code, out, errs = verify(export); code != 0 {
		t.Errorf("without a file: exit %d, %s%s", code, out, errs)
	}
	broken := put("broken.yaml", "people: 1\n")
	if code, _, errs = verify(export, "--access", broken); code != 2 || !strings.Contains(errs, "line 1: people") {
		t.Errorf("a broken file: exit %d, %s", code, errs)
	}
}

type damage struct {
	lines  []string
	entity string // of the record that verify names
	seq    int64
}

// damaged returns lines with each record but the last removed, changed, put elsewhere or
// doubled.
func damaged(whole []string) map[string]damage {
	out := map[string]damage{}
	for i := range len(whole) - 1 {
		n := int64(i + 1)
		out[fmt.Sprintf("record %d is removed", n)] = damage{slices.Delete(slices.Clone(whole), i, i+1), "session/s1/run-1", n}
		edit := func(old, now string) []string {
			lines := slices.Clone(whole)
			if lines[i] = strings.Replace(lines[i], old, now, 1); lines[i] == whole[i] {
				panic("nothing was changed: " + old)
			}
			return lines
		}
		// The evidence of an accepted command tells its time. That of a refused one is not
		// asked for, and the next record tells.
		found := n
		if strings.Contains(whole[i], `"outcome":"refused"`) {
			found++
		}
		out[fmt.Sprintf("record %d is of another day", n)] = damage{edit(`"at":"2026-05-04`, `"at":"2026-05-03`), "session/s1/run-1", found}
		out[fmt.Sprintf("record %d follows another", n)] = damage{edit(`"prev":"`, `"prev":"00`), "session/s1/run-1", n}
		out[fmt.Sprintf("record %d has another number", n)] = damage{edit(fmt.Sprintf(`"seq":%d,`, n), fmt.Sprintf(`"seq":%d,`, n+1)), "session/s1/run-1", n}
		changed := edit(`"verb":"session.`, `"verb":"session.x`)
		out[fmt.Sprintf("record %d is there in two forms", n)] = damage{append(changed, whole[i]), "session/s1/run-1", n}
		// Two neighbours change places, and their numbers with them.
		swapped := slices.Clone(whole)
		a, b := fmt.Sprintf(`"seq":%d,`, n), fmt.Sprintf(`"seq":%d,`, n+1)
		swapped[i], swapped[i+1] = strings.Replace(whole[i+1], b, a, 1), strings.Replace(whole[i], a, b, 1)
		out[fmt.Sprintf("records %d and %d change places", n, n+1)] = damage{swapped, "session/s1/run-1", n}
	}
	out["two in the middle are removed"] = damage{slices.Delete(slices.Clone(whole), 1, 3), "session/s1/run-1", 2}
	return out
}

// byHand runs the scripts of the page on an export.
func (a *archive) byHand(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "how-to", "audit-who-did-what.md"))
	if err != nil {
		t.Fatal(err)
	}
	var scripts []string
	for i, block := range strings.Split(string(page), "```sh\n") {
		if i > 0 {
			text, _, _ := strings.Cut(block, "```")
			scripts = append(scripts, text)
		}
	}
	if len(scripts) != 3 || !strings.Contains(scripts[2], "-n fairlead-decision@fairlead.dev") || !strings.Contains(scripts[0], "sha256sum") || !strings.Contains(scripts[1], "ssh-keygen -Y verify") {
		t.Fatalf("the page has other scripts than this test knows: %q", scripts)
	}
	dir := t.TempDir()
	sh := func(in, script string) (string, error) {
		cmd := exec.CommandContext(t.Context(), "sh", "-c", script)
		cmd.Dir, cmd.Env = in, append(os.Environ(), "LC_ALL=C")
		out, err := cmd.CombinedOutput()
		return strings.TrimSpace(string(out)), err
	}
	evidence := filepath.Join(dir, "evidence")
	code, out, errs := a.ctl("export", "--session", "s1", "--evidence", evidence)
	if code != 0 {
		t.Fatalf("exit %d, %s", code, errs)
	}
	chain := func(lines string) (string, error) {
		if err := os.WriteFile(filepath.Join(dir, "audit.jsonl"), []byte(lines), 0o600); err != nil {
			t.Fatal(err)
		}
		return sh(dir, scripts[0])
	}
	if got, err := chain(out); err != nil || got != a.s1.Head {
		t.Errorf("sha256sum gets %q, %v; the session tells %s", got, err, a.s1.Head)
	}
	for what, c := range damaged(a.s1.Waiting) {
		if got, err := chain(strings.Join(c.lines, "\n") + "\n"); err == nil && got == a.s1.Head {
			t.Errorf("%s: sha256sum does not find it", what)
		}
	}
	at := filepath.Join(evidence, "session_s1_run-1")
	signers := append([]byte(`ann namespaces="fairlead-command@fairlead.dev" `), ssh.MarshalAuthorizedKey(a.key.PublicKey())...)
	if err := os.WriteFile(filepath.Join(at, "allowed_signers"), signers, 0o600); err != nil {
		t.Fatal(err)
	}
	found, err := filepath.Glob(filepath.Join(at, "*.sig"))
	if err != nil || len(found) != 5 {
		t.Fatalf("%d signatures, %v", len(found), err)
	}
	for _, file := range found {
		n, decides := strings.CutSuffix(strings.TrimSuffix(filepath.Base(file), ".sig"), ".decision")
		of, script, says := n+".message", scripts[1], `signature for ann`
		if decides {
			of, script, says = n+".decision", scripts[2], `Good "fairlead-decision@fairlead.dev" signature`
		}
		script = strings.ReplaceAll(script, "3.", n+".")
		if got, err := sh(at, script); err != nil || !strings.Contains(got, says) {
			t.Errorf("record %s: ssh-keygen says %q, %v", n, got, err)
		}
		message, err := os.ReadFile(filepath.Join(at, of))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(at, of), bytes.Replace(message, []byte("n"), []byte("m"), 1), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := sh(at, script); err == nil {
			t.Errorf("record %s, changed: ssh-keygen says %q", n, got)
		}
	}
}

// onTerminal returns what a person sees of a command.
func onTerminal(t *testing.T, args ...string) string {
	t.Helper()
	person, program := terminaltest.Open(t)
	const end = "that is the end of it"
	go func() {
		run(args, strings.NewReader(""), program, program)
		_, _ = io.WriteString(program, end+"\n")
	}()
	var all strings.Builder
	for buf := make([]byte, 4<<10); !strings.Contains(all.String(), end); {
		n, err := person.Read(buf)
		if all.Write(buf[:n]); err != nil {
			t.Fatal(err)
		}
	}
	return all.String()
}
