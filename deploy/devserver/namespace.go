package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	persistencespb "go.temporal.io/server/api/persistence/v1"
	"go.temporal.io/server/common/config"
	"go.temporal.io/server/common/log"
	"go.temporal.io/server/common/metrics"
	"go.temporal.io/server/common/persistence"
	"go.temporal.io/server/common/persistence/serialization"
	tsql "go.temporal.io/server/common/persistence/sql"
	"go.temporal.io/server/common/persistence/sql/sqlplugin"
	"go.temporal.io/server/common/primitives"
	"go.temporal.io/server/common/resolver"
	sqliteschema "go.temporal.io/server/schema/sqlite"
	"google.golang.org/protobuf/types/known/durationpb"
)

// ensureNamespaces makes each namespace exist, with the given retention and at least the
// given search attributes. It writes to the database before the server runs, because a
// running server would notice a new attribute only after up to a minute.
func ensureNamespaces(ctx context.Context, store *config.SQL, names []string, retention time.Duration, want attributes) error {
	db, err := tsql.NewSQLDB(sqlplugin.DbKindMain, store, resolver.NewNoopResolver(), log.NewNoopLogger(), metrics.NoopMetricsHandler)
	if err != nil {
		return fmt.Errorf("open the database for its namespaces: %w", err)
	}
	defer db.Close()
	for _, name := range names {
		if err := ensureNamespace(ctx, db, name, retention, want); err != nil {
			return fmt.Errorf("set up namespace %s: %w", name, err)
		}
	}
	return nil
}

func ensureNamespace(ctx context.Context, db sqlplugin.DB, name string, retention time.Duration, want attributes) (err error) {
	tx, err := db.BeginTx(ctx)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, tx.Rollback())
		}
	}()
	row, detail, err := readNamespace(ctx, tx, name)
	if err != nil {
		return err
	}
	isNew := row.ID == nil
	if isNew {
		row.ID = primitives.MustParseUUID(detail.Info.Id)
	}
	changed, err := want.place(detail.Config.CustomSearchAttributeAliases)
	if err != nil {
		return err
	}
	if detail.Config.Retention.AsDuration() != retention {
		detail.Config.Retention, changed = durationpb.New(retention), true
	}
	if !changed && !isNew {
		return tx.Rollback()
	}
	// As in a server's own update: take the next notification version, increment the config
	// version.
	meta, err := tx.LockNamespaceMetadata(ctx)
	if err != nil {
		return err
	}
	row.NotificationVersion = meta.NotificationVersion
	detail.ConfigVersion++
	blob, err := serialization.NewSerializer().NamespaceDetailToBlob(detail)
	if err != nil {
		return err
	}
	row.Data, row.DataEncoding = blob.Data, blob.EncodingType.String()
	write := tx.UpdateNamespace
	if isNew {
		write = tx.InsertIntoNamespace
	}
	if _, err := write(ctx, &row); err != nil {
		return err
	}
	if _, err := tx.UpdateNamespaceMetadata(ctx, meta); err != nil {
		return err
	}
	return tx.Commit()
}

// readNamespace returns a new namespace, without an id in its row, if there is none.
func readNamespace(ctx context.Context, tx sqlplugin.Tx, name string) (sqlplugin.NamespaceRow, *persistencespb.NamespaceDetail, error) {
	rows, err := tx.SelectFromNamespace(ctx, sqlplugin.NamespaceFilter{Name: &name})
	if errors.Is(err, sql.ErrNoRows) {
		c, err := sqliteschema.NewNamespaceConfig(clusterName, name, false, nil)
		if err != nil {
			return sqlplugin.NamespaceRow{}, nil, err
		}
		return sqlplugin.NamespaceRow{Name: name}, c.Detail, nil
	}
	if err != nil {
		return sqlplugin.NamespaceRow{}, nil, err
	}
	row := rows[0]
	detail, err := serialization.NewSerializer().NamespaceDetailFromBlob(persistence.NewDataBlob(row.Data, row.DataEncoding))
	if err != nil {
		return row, nil, err
	}
	if detail.Config.CustomSearchAttributeAliases == nil {
		detail.Config.CustomSearchAttributeAliases = make(map[string]string)
	}
	return row, detail, nil
}
