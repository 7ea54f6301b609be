package pgcluster

import "testing"

// What was committed before the mark is there after a restore, and what came later is not.
func TestARestoreGoesBackToTheMark(t *testing.T) {
	ctx := t.Context()
	c, err := New(ctx, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	sql := func(statements ...string) {
		t.Helper()
		if err := c.database.sql(ctx, "postgres", statements...); err != nil {
			t.Fatal(err)
		}
	}
	sql("CREATE TABLE kept (n int)", "INSERT INTO kept VALUES (1)")
	if err := c.BackUp(ctx); err != nil {
		t.Fatal(err)
	}
	sql("INSERT INTO kept VALUES (2)")
	if err := c.Mark(ctx); err != nil {
		t.Fatal(err)
	}
	sql("INSERT INTO kept VALUES (3)")
	if err := c.Restore(ctx); err != nil {
		t.Fatal(err)
	}
	// A division by zero fails the statement.
	sql("SELECT 1 / (CASE WHEN (SELECT sum(n) FROM kept) = 3 THEN 1 ELSE 0 END)", "INSERT INTO kept VALUES (4)")
}
