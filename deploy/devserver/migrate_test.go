package main

import (
	"compress/gzip"
	"context"
	"database/sql"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
)

// olderFile unpacks the database of server 1.29.1 (see testdata/older) to path.
func olderFile(t *testing.T, path string) {
	t.Helper()
	in, err := os.Open("testdata/server-1.29.1.db.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	z, err := gzip.NewReader(in)
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

func openTestDB(t *testing.T, path string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", fileURI(path, nil))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

func column1(t *testing.T, db *sql.DB, query string) []string {
	t.Helper()
	rows, err := db.Query(query)
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	defer rows.Close()
	var all []string
	for rows.Next() {
		var s string
		if err := rows.Scan(&s); err != nil {
			t.Fatal(err)
		}
		all = append(all, s)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}

func TestUpgradeGivesOlderFileTheSchemaOfNewOne(t *testing.T) {
	ctx := context.Background()
	path := filepath.Join(t.TempDir(), "old.db")
	olderFile(t, path)
	db := openTestDB(t, path)
	const workflows = "SELECT run_id || workflow_id || coalesce(Keyword01, '') || coalesce(Keyword02, '') FROM executions_visibility ORDER BY 1"
	const executions = "SELECT hex(run_id) || hex(data) || hex(state) FROM executions ORDER BY 1"
	rows, states := column1(t, db, workflows), column1(t, db, executions)
	if len(rows) < 22 || len(states) < 22 {
		t.Fatalf("the older file holds %d and %d workflows, want at least 22", len(rows), len(states))
	}
	want, err := wantedSchema(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if have, err := readSchema(ctx, db); err != nil || have.byName["current_chasm_executions"] != nil {
		t.Fatalf("the older file already has a newer table (%v): the test shows nothing", err)
	}
	for range 2 { // the second time there is nothing to do
		if err := upgradeSchema(ctx, db); err != nil {
			t.Fatal(err)
		}
		have, err := readSchema(ctx, db)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := slices.Sorted(slices.Values(have.order)), slices.Sorted(slices.Values(want.order)); !slices.Equal(got, want) {
			t.Errorf("the objects are\n%v, want\n%v", got, want)
		}
		for name, o := range want.byName {
			if h := have.byName[name]; h != nil && !h.same(o) {
				t.Errorf("%s differs from that of a new database:\n%s", name, h.ddl)
			}
		}
		if got := column1(t, db, workflows); !slices.Equal(got, rows) {
			t.Errorf("visibility rows changed: %v, want %v", got, rows)
		}
		if got := column1(t, db, executions); !slices.Equal(got, states) {
			t.Error("executions changed")
		}
	}
	if got := column1(t, db, "PRAGMA integrity_check"); !slices.Equal(got, []string{"ok"}) {
		t.Errorf("integrity check: %v", got)
	}
}

func TestUpgradeReadsFullTextAnew(t *testing.T) {
	ctx := context.Background()
	path := filepath.Join(t.TempDir(), "old.db")
	olderFile(t, path)
	db := openTestDB(t, path)
	exec := func(stmt string) {
		t.Helper()
		if _, err := db.Exec(stmt); err != nil {
			t.Fatalf("%s: %v", stmt, err)
		}
	}
	exec(`UPDATE executions_visibility SET search_attributes = '{"Text01":"the quick brown fox"}' WHERE workflow_id = 'notes-3'`)
	if err := upgradeSchema(ctx, db); err != nil {
		t.Fatal(err)
	}
	if got := column1(t, db, `SELECT workflow_id FROM executions_visibility WHERE rowid IN
		(SELECT rowid FROM executions_visibility_fts_text WHERE executions_visibility_fts_text MATCH 'brown')`); !slices.Equal(got, []string{"notes-3"}) {
		t.Errorf("an old row is found as %v, want notes-3", got)
	}
	exec(`UPDATE executions_visibility SET search_attributes = '{"Text01":"the lazy dog"}' WHERE workflow_id = 'notes-3'`)
	if got := column1(t, db, `SELECT rowid FROM executions_visibility_fts_text WHERE executions_visibility_fts_text MATCH 'brown'`); len(got) > 0 {
		t.Errorf("after a change the old words are still found: %v", got)
	}
}

func TestUpgradeThatFailsChangesNothing(t *testing.T) {
	ctx := context.Background()
	path := filepath.Join(t.TempDir(), "old.db")
	olderFile(t, path)
	db := openTestDB(t, path)
	// A row that the new definition does not take: its run_id is missing.
	for _, stmt := range []string{
		"DROP TABLE current_executions",
		"CREATE TABLE current_executions (shard_id INT, namespace_id BINARY(16))",
		"INSERT INTO current_executions VALUES (1, x'00')",
	} {
		if _, err := db.Exec(stmt); err != nil {
			t.Fatal(err)
		}
	}
	before, err := readSchema(ctx, db)
	if err != nil {
		t.Fatal(err)
	}
	if err := upgradeSchema(ctx, db); err == nil {
		t.Fatal("the upgrade claims to have worked")
	}
	after, err := readSchema(ctx, db)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(before, after) {
		t.Error("the schema changed")
	}
	if got := column1(t, db, "SELECT count(*) FROM current_executions"); !slices.Equal(got, []string{"1"}) {
		t.Errorf("current_executions holds %v rows, want 1", got)
	}
}

func TestUpgradeLaysWholeSchemaInEmptyFile(t *testing.T) {
	ctx := context.Background()
	db := openTestDB(t, filepath.Join(t.TempDir(), "new.db"))
	if err := upgradeSchema(ctx, db); err != nil {
		t.Fatal(err)
	}
	want, err := wantedSchema(ctx)
	if err != nil {
		t.Fatal(err)
	}
	have, err := readSchema(ctx, db)
	if err != nil {
		t.Fatal(err)
	}
	if len(want.order) < 100 || !slices.Equal(have.order, want.order) {
		t.Errorf("objects are %v, want %v", have.order, want.order)
	}
	if got := column1(t, db, "SELECT notification_version FROM namespace_metadata"); !slices.Equal(got, []string{"1"}) {
		t.Errorf("the rows of the schema are %v, want [1]", got)
	}
}
