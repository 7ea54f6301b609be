package main

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
)

// migrate turns the schema that tx sees into want. Tables unknown to want stay.
func migrate(ctx context.Context, tx *sql.Tx, want *schema) error {
	have, err := readSchema(ctx, tx)
	if err != nil {
		return err
	}
	m := &migration{ctx: ctx, tx: tx, have: have, want: want}
	m.dropDerived()
	m.rebuildTables()
	m.createMissing()
	return m.err
}

// migration is one run of migrate; after the first error it does nothing more.
type migration struct {
	ctx        context.Context
	tx         *sql.Tx
	have, want *schema
	err        error
}

func (m *migration) exec(stmt string, args ...any) {
	if m.err != nil {
		return
	}
	if _, err := m.tx.ExecContext(m.ctx, stmt, args...); err != nil {
		first, _, _ := strings.Cut(stmt, "\n")
		m.err = fmt.Errorf("%s: %w", first, err)
	}
}

// grown reports whether table exists but differs from want.
func (m *migration) grown(table string) bool {
	h, w := m.have.byName[table], m.want.byName[table]
	return h != nil && w != nil && !w.virtual() && !h.same(w)
}

// derived reports whether o can be made again from a table, and from which one.
func derived(o *object) (from string, ok bool) {
	if o.kind != "table" {
		return o.table, true
	}
	if !o.virtual() {
		return "", false
	}
	_, rest, ok := strings.Cut(o.ddl, "content='")
	from, _, _ = strings.Cut(rest, "'")
	return from, ok
}

// dropDerived removes the indexes, triggers and full-text tables that are out of date or
// depend on a grown table. The newest goes first: triggers before the full-text tables that
// they write to.
func (m *migration) dropDerived() {
	for i := len(m.have.order) - 1; i >= 0; i-- {
		o := m.have.byName[m.have.order[i]]
		from, ok := derived(o)
		if !ok || m.want.byName[from] == nil {
			continue
		}
		if w := m.want.byName[o.name]; w != nil && o.same(w) && !m.grown(from) {
			continue
		}
		m.exec("DROP " + strings.ToUpper(o.kind) + " " + quote(o.name))
		delete(m.have.byName, o.name)
	}
}

// rebuildTables replaces each grown table by one of the new definition, with the same rows.
func (m *migration) rebuildTables() {
	for _, name := range m.want.order {
		if !m.grown(name) {
			continue
		}
		w, old := m.want.byName[name], name+"_older"
		columns := strings.Join(stored(w, m.have.byName[name]), ", ")
		m.exec("ALTER TABLE " + quote(name) + " RENAME TO " + quote(old))
		m.exec(w.ddl)
		m.exec("INSERT INTO " + quote(name) + " (" + columns + ") SELECT " + columns + " FROM " + quote(old))
		m.exec("DROP TABLE " + quote(old))
	}
}

// createMissing makes what the database lacks, in want's order: tables, indexes, full-text
// tables (which read their content again), triggers.
func (m *migration) createMissing() {
	for _, name := range m.want.order {
		o := m.want.byName[name]
		if m.have.byName[name] != nil {
			continue
		}
		m.exec(o.ddl)
		if from, ok := derived(o); ok && o.virtual() && from != "" {
			m.exec("INSERT INTO " + quote(name) + "(" + quote(name) + ") VALUES ('rebuild')")
		}
		for _, row := range o.seed {
			marks := strings.TrimSuffix(strings.Repeat("?, ", len(row)), ", ")
			m.exec("INSERT INTO "+quote(name)+" ("+strings.Join(stored(o, o), ", ")+") VALUES ("+marks+")", row...)
		}
	}
}
