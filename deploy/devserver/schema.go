package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.temporal.io/server/common/persistence/sql/sqlplugin"
	sqliteschema "go.temporal.io/server/schema/sqlite"
)

// upgradeSchema adds what db lacks of this server's schema, in one transaction, and keeps
// all rows.
//
// The server has no migration for SQLite. A table that it has changed is therefore rebuilt
// from its new definition and filled from the old one; indexes, triggers and full-text
// tables are made anew.
func upgradeSchema(ctx context.Context, db *sql.DB) error {
	want, err := wantedSchema(ctx)
	if err != nil {
		return fmt.Errorf("lay out this server's schema: %w", err)
	}
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	// Renaming a table must not rewrite what refers to it.
	if _, err := conn.ExecContext(ctx, "PRAGMA legacy_alter_table=ON"); err != nil {
		return err
	}
	tx, err := conn.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if err := migrate(ctx, tx, want); err != nil {
		return err
	}
	return tx.Commit()
}

type object struct {
	kind, name, table, ddl string
	columns                []column
	seed                   [][]any // of a new table
}

type column struct {
	name, kind string
	notNull    int
	dflt       sql.NullString
	pk, hidden int // hidden: 2 and 3 are generated columns
}

func (o *object) virtual() bool { return strings.HasPrefix(o.ddl, "CREATE VIRTUAL TABLE") }

// same compares tables by their columns, because comments and blanks of a definition do not
// matter.
func (o *object) same(p *object) bool {
	if o.kind == "table" && !o.virtual() {
		return !p.virtual() && slices.Equal(o.columns, p.columns)
	}
	return o.ddl == p.ddl
}

// schema has objects by name, and their order of creation.
type schema struct {
	order  []string
	byName map[string]*object
}

// wantedSchema makes the server's schema in memory and reads it back.
func wantedSchema(ctx context.Context) (*schema, error) {
	db, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		return nil, err
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	if err := sqliteschema.SetupSchemaOnDB(execer{db: db}); err != nil {
		return nil, err
	}
	s, err := readSchema(ctx, db)
	if err != nil {
		return nil, err
	}
	for _, name := range s.order {
		if o := s.byName[name]; o.kind == "table" && !o.virtual() {
			if o.seed, err = readRows(ctx, db, o); err != nil {
				return nil, err
			}
		}
	}
	return s, nil
}

// execer is the part of an AdminDB that SetupSchemaOnDB uses.
type execer struct {
	sqlplugin.AdminDB
	db *sql.DB
}

func (e execer) Exec(stmt string, args ...any) error {
	_, err := e.db.Exec(stmt, args...)
	return err
}

type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

func readSchema(ctx context.Context, q querier) (*schema, error) {
	// The excluded objects are SQLite's own.
	rows, err := q.QueryContext(ctx, `SELECT type, name, tbl_name, sql FROM sqlite_master
		WHERE sql IS NOT NULL AND name NOT IN (SELECT name FROM pragma_table_list WHERE type = 'shadow') ORDER BY rowid`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	s := &schema{byName: make(map[string]*object)}
	for rows.Next() {
		o := new(object)
		if err := rows.Scan(&o.kind, &o.name, &o.table, &o.ddl); err != nil {
			return nil, err
		}
		s.order = append(s.order, o.name)
		s.byName[o.name] = o
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil {
		return nil, err
	}
	for _, o := range s.byName {
		if o.kind == "table" {
			if o.columns, err = readColumns(ctx, q, o.name); err != nil {
				return nil, err
			}
		}
	}
	return s, nil
}

func readColumns(ctx context.Context, q querier, table string) ([]column, error) {
	rows, err := q.QueryContext(ctx, `SELECT name, type, "notnull", dflt_value, pk, hidden FROM pragma_table_xinfo(?)`, table)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var cs []column
	for rows.Next() {
		var c column
		if err := rows.Scan(&c.name, &c.kind, &c.notNull, &c.dflt, &c.pk, &c.hidden); err != nil {
			return nil, err
		}
		cs = append(cs, c)
	}
	return cs, errors.Join(rows.Err(), rows.Close())
}

func readRows(ctx context.Context, q querier, table *object) ([][]any, error) {
	rows, err := q.QueryContext(ctx, "SELECT "+strings.Join(stored(table, table), ", ")+" FROM "+quote(table.name))
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var all [][]any
	for rows.Next() {
		row := make([]any, len(stored(table, table)))
		into := make([]any, len(row))
		for i := range row {
			into[i] = &row[i]
		}
		if err := rows.Scan(into...); err != nil {
			return nil, err
		}
		all = append(all, row)
	}
	return all, errors.Join(rows.Err(), rows.Close())
}

// stored lists, quoted, the columns that both tables have and do not generate.
func stored(a, b *object) []string {
	var names []string
	for _, c := range a.columns {
		if c.hidden == 0 && slices.ContainsFunc(b.columns, func(d column) bool { return d.name == c.name && d.hidden == 0 }) {
			names = append(names, quote(c.name))
		}
	}
	return names
}

func quote(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }
