package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"fairlead.dev/fairlead/deploy/devserver/internal/parked"
)

func TestKillUnderLoadKeepsAcknowledgedSignals(t *testing.T) {
	const callers, kills, each = 8, 3, 150
	db := filepath.Join(t.TempDir(), "t.db")
	p := startServer(t, "--headless", "--db-filename", db)
	c := dial(t, p.Address)
	work(t, c)
	for i := range callers {
		startWorkflow(t, c, fmt.Sprintf("load-%d", i), parked.Notes)
	}
	// acked[i] are the notes whose signal has been acknowledged; a call that fails is not made again.
	acked := make([][]string, callers)
	enough := make(chan struct{})
	load, end := context.WithCancel(context.Background())
	defer end()
	var mu sync.Mutex
	var wg sync.WaitGroup
	total, next := 0, each
	for i := range callers {
		wg.Go(func() {
			for n := 0; load.Err() == nil; n++ {
				note := strconv.Itoa(n)
				if c.SignalWorkflow(load, fmt.Sprintf("load-%d", i), "", "note", note) != nil {
					continue
				}
				mu.Lock()
				acked[i] = append(acked[i], note)
				if total++; total == next {
					next = total + each
					enough <- struct{}{}
				}
				mu.Unlock()
			}
		})
	}
	_, port, _ := strings.Cut(p.Address, ":")
	for range kills {
		<-enough
		p.kill()
		p = startServer(t, "--headless", "--db-filename", db, "--port", port)
	}
	<-enough
	end()
	wg.Wait()
	for i := range callers {
		id := fmt.Sprintf("load-%d", i)
		until(t, func(ctx context.Context) string {
			got, err := notes(ctx, c, id)
			if err != nil {
				return err.Error()
			}
			for _, note := range acked[i] {
				if !slices.Contains(got, note) {
					return fmt.Sprintf("%s: signal %s of %d was acknowledged and is not there", id, note, len(acked[i]))
				}
			}
			return ""
		})
	}
	t.Logf("%d signals acknowledged around %d kills", total, kills)
}

func TestEverythingIsThereAfterKillWithoutWorker(t *testing.T) {
	db := filepath.Join(t.TempDir(), "t %3f#é.db") // a name that an address would have to quote
	p := startServer(t, "--headless", "--db-filename", db)
	c := dial(t, p.Address)
	startWorkflow(t, c, "a", parked.Notes)
	if err := c.SignalWorkflow(testContext(t), "a", "", "note", "one"); err != nil {
		t.Fatal(err)
	}
	p.kill()
	p = startServer(t, "--headless", "--db-filename", db)
	if _, err := os.Stat(db); err != nil {
		t.Error(err)
	}
	c = dial(t, p.Address)
	work(t, c)
	until(t, func(ctx context.Context) string {
		if got, err := notes(ctx, c, "a"); err != nil || !slices.Equal(got, []string{"one"}) {
			return fmt.Sprintf("notes are %v (%v), want [one]", got, err)
		}
		return ""
	})
	if err := c.SignalWorkflow(testContext(t), "a", "", "finish", nil); err != nil {
		t.Fatal(err)
	}
	var n int
	if err := c.GetWorkflow(testContext(t), "a", "").Get(testContext(t), &n); err != nil || n != 1 {
		t.Errorf("the workflow ended with %d (%v), want 1", n, err)
	}
}

func TestSearchAttributesListSessions(t *testing.T) {
	dir := t.TempDir()
	db := filepath.Join(dir, "t.db")
	p := startServer(t, "--headless", "--db-filename", db)
	c := dial(t, p.Address)
	labels := temporal.NewSearchAttributeKeyKeywordList("FairleadLabels")
	turn := temporal.NewSearchAttributeKeyInt64("FairleadTurn")
	for i, state := range []string{"idle", "waiting", "waiting"} {
		_, err := c.ExecuteWorkflow(testContext(t), client.StartWorkflowOptions{
			ID: strconv.Itoa(i), TaskQueue: parked.Queue,
			TypedSearchAttributes: temporal.NewSearchAttributes(
				parked.State.ValueSet(state), turn.ValueSet(int64(i)), labels.ValueSet([]string{"gpu", "n" + strconv.Itoa(i)})),
		}, parked.Notes)
		if err != nil {
			t.Fatal(err)
		}
	}
	awaitListed(t, c, "FairleadState = 'waiting'", 2)
	awaitListed(t, c, "FairleadTurn > 1", 1)
	awaitListed(t, c, "FairleadLabels = 'gpu'", 3)
	awaitListed(t, c, "FairleadLabels = 'n0' AND FairleadState = 'idle'", 1)

	// An attribute that is new comes into the file that is there, in a folder of another name, and is usable at once.
	if code := p.stop(t, 15); code != exitDone {
		t.Fatalf("exit status %d", code)
	}
	moved := filepath.Join(t.TempDir(), "moved.db")
	for _, suffix := range []string{"", ".version"} {
		if err := os.Rename(db+suffix, moved+suffix); err != nil {
			t.Fatal(err)
		}
	}
	p = startServer(t, "--headless", "--db-filename", moved, "--search-attribute", "Ticket=Keyword")
	c = dial(t, p.Address)
	ticket := temporal.NewSearchAttributeKeyKeyword("Ticket")
	_, err := c.ExecuteWorkflow(testContext(t), client.StartWorkflowOptions{
		ID: "new", TaskQueue: parked.Queue,
		TypedSearchAttributes: temporal.NewSearchAttributes(parked.State.ValueSet("waiting"), ticket.ValueSet("T-1")),
	}, parked.Notes)
	if err != nil {
		t.Fatal(err)
	}
	awaitListed(t, c, "Ticket = 'T-1'", 1)
	awaitListed(t, c, "FairleadState = 'waiting'", 3)

	p.kill()
	code, _, errs := runToEnd(t, startArgs("--db-filename", moved, "--search-attribute", "Ticket=Int")...)
	if code != exitFailed || !strings.Contains(errs, "search attribute Ticket is Keyword in this database and Int is asked for") {
		t.Errorf("another type: exit status %d, error %q", code, errs)
	}
}

func TestNewerServerKeepsOlderFile(t *testing.T) {
	for _, stamp := range []string{"1.29.1", ""} {
		t.Run("stamp "+orUnstamped(stamp), func(t *testing.T) {
			db := filepath.Join(t.TempDir(), "t.db")
			olderFile(t, db)
			older, err := os.ReadFile(db)
			if err != nil {
				t.Fatal(err)
			}
			if stamp != "" {
				if err := writeStamp(db, stamp); err != nil {
					t.Fatal(err)
				}
			}
			p := startServer(t, "--headless", "--db-filename", db)
			// Byte for byte, but for the counters of SQLite's file header.
			if got, err := os.ReadFile(db + "." + orUnstamped(stamp) + ".bak"); err != nil || !bytes.Equal(got[headerSize:], older[headerSize:]) {
				t.Errorf("the copy (%v) is not the older file", err)
			}
			if got, err := readStamp(db); got != serverVersion || err != nil {
				t.Errorf("the stamp is %q (%v), want %s", got, err, serverVersion)
			}
			c := dial(t, p.Address)
			work(t, c)
			for i := range 20 {
				checkOlder(t, c, fmt.Sprintf("notes-%d", i), i%3+1)
			}
			checkOlder(t, c, "unseen", 1)
			var answer string
			if err := c.GetWorkflow(testContext(t), "errand", "").Get(testContext(t), &answer); err != nil || answer != "done" {
				t.Errorf("the activity that waited in the old queue gives %q (%v)", answer, err)
			}
			awaitListed(t, c, "FairleadState = 'parked'", 21)
			// It goes on living, and what only newer servers have works on it.
			for i := range 20 {
				if err := c.SignalWorkflow(testContext(t), fmt.Sprintf("notes-%d", i), "", "finish", nil); err != nil {
					t.Fatal(err)
				}
			}
			awaitListed(t, c, "WorkflowType = 'Notes' AND ExecutionStatus = 'Completed'", 20)
			standalone(t, c)
			if p.kill(); len(copies(t, db)) != 1 {
				t.Errorf("copies are %v, want one", copies(t, db))
			}
			startServer(t, "--headless", "--db-filename", db)
			if len(copies(t, db)) != 1 {
				t.Errorf("opened a second time it was copied again: %v", copies(t, db))
			}
		})
	}
}

// checkOlder checks that a workflow of the older server knows its notes.
func checkOlder(t *testing.T, c client.Client, id string, n int) {
	t.Helper()
	var want []string
	for i := range n {
		want = append(want, fmt.Sprintf("%s/%d", id, i))
	}
	until(t, func(ctx context.Context) string {
		if got, err := notes(ctx, c, id); err != nil || !slices.Equal(got, want) {
			return fmt.Sprintf("%s: notes are %v (%v), want %v", id, got, err, want)
		}
		return ""
	})
}

// standalone runs an activity without a workflow, which needs a table that
// server 1.29.1 does not have.
func standalone(t *testing.T, c client.Client) {
	t.Helper()
	ctx := testContext(t)
	h, err := c.ExecuteActivity(ctx, client.StartActivityOptions{
		ID: "alone", TaskQueue: parked.Queue, StartToCloseTimeout: patience,
	}, parked.Work)
	if err != nil {
		t.Fatal(err)
	}
	var answer string
	if err := h.Get(ctx, &answer); err != nil || answer != "done" {
		t.Errorf("an activity without a workflow gives %q (%v)", answer, err)
	}
}

func copies(t *testing.T, db string) []string {
	t.Helper()
	found, err := filepath.Glob(globEscape(db) + ".*.bak*")
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func TestCopyHoldsWhatStandsInTheWAL(t *testing.T) {
	db := filepath.Join(t.TempDir(), "t.db")
	p := startServer(t, "--headless", "--db-filename", db)
	startWorkflow(t, dial(t, p.Address), "in-the-wal", parked.Notes)
	p.kill()
	if info, err := os.Stat(db + "-wal"); err != nil || info.Size() == 0 {
		t.Fatalf("the WAL is empty (%v): this test shows nothing", err)
	}
	if err := writeStamp(db, "1.31.0"); err != nil {
		t.Fatal(err)
	}
	startServer(t, "--headless", "--db-filename", db).kill()
	// The copy alone, under the same server version, has the workflow.
	alone := filepath.Join(t.TempDir(), "alone.db")
	b, err := os.ReadFile(db + ".1.31.0.bak")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(alone, b, 0o600); err != nil {
		t.Fatal(err)
	}
	p = startServer(t, "--headless", "--db-filename", alone)
	if _, err := dial(t, p.Address).DescribeWorkflowExecution(testContext(t), "in-the-wal", ""); err != nil {
		t.Error(err)
	}
}

func TestStartsThatFailMakeOneCopy(t *testing.T) {
	db := filepath.Join(t.TempDir(), "t.db")
	olderFile(t, db)
	c := openTestDB(t, db)
	// Rows that the schema of newer servers does not take.
	for _, stmt := range []string{"DROP TABLE queue", "CREATE TABLE queue (queue_type INT)", "INSERT INTO queue VALUES (1)"} {
		if _, err := c.Exec(stmt); err != nil {
			t.Fatal(err)
		}
	}
	c.Close()
	for range 3 {
		code, _, errs := runToEnd(t, startArgs("--db-filename", db)...)
		if code != exitFailed || !strings.Contains(errs, "nothing was changed; the copy is "+db+".unstamped.bak)") {
			t.Errorf("exit status %d, error %q", code, errs)
		}
	}
	if got := copies(t, db); len(got) != 1 {
		t.Errorf("copies are %v, want one", got)
	}
}

func TestOlderServerRefusesNewerFile(t *testing.T) {
	db := filepath.Join(t.TempDir(), "t.db")
	p := startServer(t, "--headless", "--db-filename", db)
	startWorkflow(t, dial(t, p.Address), "a", parked.Notes)
	p.kill()
	if err := writeStamp(db, "1.99.0"); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(db+".1.31.0.bak", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	before := readAll(t, db, db+"-wal")
	code, out, errs := runToEnd(t, startArgs("--db-filename", db)...)
	if code != exitRefused || out != "" {
		t.Errorf("exit status %d, output %q", code, out)
	}
	for _, want := range []string{db, "1.99.0", serverVersion, "run a devserver with server 1.99.0 or newer", "cp '" + db + ".1.31.0.bak'"} {
		if !strings.Contains(errs, want) {
			t.Errorf("error %q does not say %q", errs, want)
		}
	}
	if !slices.Equal(readAll(t, db, db+"-wal"), before) {
		t.Error("the database changed")
	}
	if got, _ := readStamp(db); got != "1.99.0" {
		t.Errorf("the stamp is now %q", got)
	}
}

func readAll(t *testing.T, names ...string) []string {
	t.Helper()
	var all []string
	for _, name := range names {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, string(b))
	}
	return all
}

func TestSecondServerOnOneFileIsRefused(t *testing.T) {
	dir := t.TempDir()
	db := filepath.Join(dir, "t.db")
	p := startServer(t, "--headless", "--db-filename", db)
	link := filepath.Join(dir, "link.db")
	if err := os.Symlink(db, link); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{db, link} {
		code, out, errs := runToEnd(t, startArgs("--db-filename", name)...)
		want := fmt.Sprintf("database %s is in use by another server (process %d): stop that one", db, p.PID)
		if code != exitRefused || out != "" || !strings.Contains(errs, want) {
			t.Errorf("%s: exit status %d, output %q, error %q, want %q", name, code, out, errs, want)
		}
	}
	dial(t, p.Address) // the first one does not mind
	p.kill()
	startServer(t, "--headless", "--db-filename", link) // and a dead one is no obstacle
}

func TestUnusableFilesAreNamed(t *testing.T) {
	dir := t.TempDir()
	text := filepath.Join(dir, "notes.txt")
	if err := os.WriteFile(text, bytes.Repeat([]byte("not a database\n"), 100), 0o600); err != nil {
		t.Fatal(err)
	}
	absent := filepath.Join(dir, "absent", "t.db")
	for path, want := range map[string]string{text: "SQLite database?", absent: "there is no folder", dir: "not a regular file"} {
		code, _, errs := runToEnd(t, startArgs("--db-filename", path)...)
		if code != exitFailed || !strings.Contains(errs, want) || !strings.Contains(errs, path) {
			t.Errorf("%s: exit status %d, error %q, want it to say %q", path, code, errs, want)
		}
	}
	if _, err := os.Stat(filepath.Dir(absent)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the missing folder was made (%v)", err)
	}
	if b, err := os.ReadFile(text); err != nil || len(b) != 1500 {
		t.Errorf("the foreign file was touched: %d bytes (%v)", len(b), err)
	}
}

func TestServerThatDiedWhileMakingItsFileIsFollowed(t *testing.T) {
	db := filepath.Join(t.TempDir(), "t.db")
	// What is left: the stamp, which goes first, and a file without tables.
	if err := errors.Join(writeStamp(db, serverVersion), createPrivate(db)); err != nil {
		t.Fatal(err)
	}
	startServer(t, "--headless", "--db-filename", db)
	if got := copies(t, db); len(got) > 0 {
		t.Errorf("an empty file was copied: %v", got)
	}
}
