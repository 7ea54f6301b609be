package activities

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"filippo.io/age"

	"fairlead.dev/fairlead/activities/audits"
	"fairlead.dev/fairlead/internal/audit"
	"fairlead.dev/fairlead/internal/store"
)

// refuserFolder is set for the process that plays a worker whose store takes nothing.
const refuserFolder = "FAIRLEAD_TEST_REFUSER"

// openStore opens the store below a folder, and makes it if need be.
func openStore(t *testing.T, dir string) *store.Store {
	t.Helper()
	file := filepath.Join(dir, "identity")
	if _, err := os.Stat(file); err != nil {
		if _, err := store.GenerateIdentity(file); err != nil {
			t.Fatal(err)
		}
	}
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	ids, err := age.ParseIdentities(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	st, err := store.Open(t.Context(), store.Options{URL: "file://" + filepath.Join(dir, "store"), Identities: ids,
		Recipients: []age.Recipient{ids[0].(*age.X25519Identity).Recipient()}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { st.Close() })
	return st
}

// refuseAndDie has another process refuse commands while the store takes nothing, and kills it
// when the last refusal was answered.
func refuseAndDie(t *testing.T, dir string) {
	t.Helper()
	openStore(t, dir)
	c := exec.Command(os.Args[0], "-test.run", "^TestAWorkerThatRefusesWithoutAStore$")
	c.Env = append(os.Environ(), refuserFolder+"="+dir)
	c.Stderr = os.Stderr
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	_ = c.Process.Kill()
	_ = c.Wait()
	if err != nil || line != "answered\n" {
		t.Fatalf("the other process said %q, %v", line, err)
	}
}

// TestAWorkerThatRefusesWithoutAStore is the other process of refuseAndDie.
func TestAWorkerThatRefusesWithoutAStore(t *testing.T) {
	dir := os.Getenv(refuserFolder)
	if dir == "" {
		return // the process of a test
	}
	r := audits.NewRefusals(openStore(t, dir), slog.New(slog.DiscardHandler))
	if err := r.KeepIn(filepath.Join(dir, "state")); err != nil {
		t.Fatal(err)
	}
	// Run is not called: nothing takes the records.
	for n := range 3 {
		r.Refused(refusedSet(n))
	}
	fmt.Println("answered")
	select {}
}

// runOnce runs a worker that begins, and stops when it has looked for what others left.
func runOnce(t *testing.T, dir string) *store.Store {
	t.Helper()
	st := openStore(t, dir)
	r := audits.NewRefusals(st, slog.New(slog.DiscardHandler))
	if err := r.KeepIn(filepath.Join(dir, "state")); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	r.Drain(ctx)
	done := make(chan struct{})
	go func() { defer close(done); r.Run(ctx) }()
	mine := refusedSet(9)
	mine.Verb = "session.close"
	r.Refused(mine)
	cancel()
	<-done
	return st
}

func spooled(t *testing.T, dir, end string) (files []string) {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(dir, "state", "*"+end))
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestARefusalThatWasAnsweredIsOnRecordAlsoIfItsWorkerDiesWhileTheStoreIsAway(t *testing.T) {
	dir := t.TempDir()
	refuseAndDie(t, dir)
	files := spooled(t, dir, ".spool")
	if len(files) != 1 {
		t.Fatalf("files %q", files)
	}
	if info, err := os.Stat(files[0]); err != nil || info.Mode().Perm() != 0o600 || info.Size() > 1<<20 {
		t.Errorf("the file: %v, %v", info, err)
	}
	// Another worker of the machine runs: its file is its own business.
	st := runOnce(t, dir)
	logs, fault := audit.Sort(auditLines(t, st, "worker"))
	if fault != nil || len(logs) != 2 {
		t.Fatalf("%d chains, %v", len(logs), fault)
	}
	of := map[string]int{}
	for _, l := range logs {
		if fault := l.Verify(nil); fault != nil {
			t.Error(fault)
		}
		for _, r := range l.Records {
			of[r.Verb]++
			if r.Principal == "" || r.Outcome != audit.Refused || r.At < "2020" {
				t.Errorf("%+v", r)
			}
		}
	}
	if of["session.set"] != 3 || of["session.close"] != 1 {
		t.Errorf("on record are %v", of)
	}
	if left := spooled(t, dir, "*"); len(left) != 0 {
		t.Errorf("what is in the store is still in %q", left)
	}
}

func TestWhoCanWriteToTheFolderOfRefusalsMakesUpNoRecord(t *testing.T) {
	dir := t.TempDir()
	refuseAndDie(t, dir)
	file := spooled(t, dir, ".spool")[0]
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	forged := bytes.ReplaceAll(data, []byte("session/s1"), []byte("session/s7"))
	if bytes.Equal(forged, data) {
		t.Fatal("nothing was changed")
	}
	if err := os.WriteFile(file, forged, 0o600); err != nil {
		t.Fatal(err)
	}
	// A true file under the name of another process does not count either.
	other := filepath.Join(dir, "state", "worker-another")
	for name, content := range map[string][]byte{other + ".lock": nil, other + ".spool": data} {
		if err := os.WriteFile(name, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	st := runOnce(t, dir)
	for _, line := range auditLines(t, st, "worker") {
		if strings.Contains(line, "session.set") {
			t.Errorf("a made-up record counts: %s", line)
		}
	}
	if kept := spooled(t, dir, ".refused"); len(kept) != 2 {
		t.Errorf("the files that do not count are kept as evidence: %q", kept)
	}
}

func TestTheFileOfAWorkerThatRunsIsLeftToIt(t *testing.T) {
	dir := t.TempDir()
	st := openStore(t, dir)
	living := audits.NewRefusals(st, slog.New(slog.DiscardHandler))
	if err := living.KeepIn(filepath.Join(dir, "state")); err != nil {
		t.Fatal(err)
	}
	living.Refused(refusedSet(0)) // nothing takes the record yet
	runOnce(t, dir)
	if files := spooled(t, dir, ".spool"); len(files) != 1 {
		t.Errorf("files %q", files)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	living.Run(ctx) // which writes what is left
	if left := spooled(t, dir, "*"); len(left) != 0 {
		t.Errorf("what is in the store is still in %q", left)
	}
	logs, fault := audit.Sort(auditLines(t, st, "worker"))
	if fault != nil || len(logs) != 2 {
		t.Errorf("%d chains, %v", len(logs), fault)
	}
}
