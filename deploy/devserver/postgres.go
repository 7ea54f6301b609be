package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"regexp"
	"strings"
	"time"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/server/common/config"
	"go.temporal.io/server/common/log"
	postgresplugin "go.temporal.io/server/common/persistence/sql/sqlplugin/postgresql"
	toolschema "go.temporal.io/server/tools/common/schema"
	toolsql "go.temporal.io/server/tools/sql"
	"google.golang.org/grpc"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
)

// postgres names the PostgreSQL server that stores everything. If it is the zero value, an SQLite
// file does.
type postgres struct {
	url          string // as given
	database     string // that of visibility has a suffix
	passwordFile string
	address      string // host:port
	user         string
	password     string
}

func (p *postgres) on() bool { return p.url != "" }

const (
	// visibilitySuffix makes the name of the second database, as Temporal's documentation has it.
	visibilitySuffix = "_visibility"
	// postgresShards is fixed for the life of a database.
	postgresShards = 4
	// PostgreSQL takes 100 connections by default. Each frontend has these, too.
	postgresConnections           = 20
	postgresVisibilityConnections = 10
)

var databaseName = regexp.MustCompile(`^[a-z][a-z0-9_]{0,40}$`)

func (o *options) checkPostgres() error {
	p := &o.postgres
	if !p.on() {
		switch {
		case p.passwordFile != "":
			return errors.New("--postgres-password: there is no --postgres")
		case o.frontends != 1:
			return fmt.Errorf("--frontends: %d: only a server with --postgres may have more than one", o.frontends)
		}
		return nil
	}
	u, err := url.Parse(p.url)
	if err != nil || u.Scheme != "postgres" || u.User.Username() == "" || u.Path != "" || u.RawQuery != "" {
		return errors.New("--postgres: it is not postgres://USER@HOST:PORT")
	}
	if _, has := u.User.Password(); has {
		return errors.New("--postgres: a password there would be seen in the list of processes: use --postgres-password")
	}
	if !databaseName.MatchString(p.database) {
		return fmt.Errorf("--postgres-database: %q is not a name of small letters, digits and underscores", p.database)
	}
	if _, _, err := net.SplitHostPort(u.Host); err != nil {
		return fmt.Errorf("--postgres: %q is not HOST:PORT", u.Host)
	}
	p.address, p.user = u.Host, u.User.Username()
	if o.frontends < 1 || o.frontends > maxFrontends {
		return fmt.Errorf("--frontends: %d: use 1 to %d", o.frontends, maxFrontends)
	}
	if len(o.attributes) > len(ownAttributes()) {
		return errors.New("--search-attribute: with --postgres, register them in the running server")
	}
	if p.passwordFile == "" {
		return nil
	}
	data, err := os.ReadFile(p.passwordFile)
	if err != nil {
		return fmt.Errorf("--postgres-password: %w", err)
	}
	p.password = strings.TrimSpace(string(data))
	return nil
}

func (p *postgres) config(database string, connections int) *config.SQL {
	return &config.SQL{
		PluginName: postgresplugin.PluginName, ConnectProtocol: "tcp", ConnectAddr: p.address, DatabaseName: database,
		User: p.user, Password: p.password, MaxConns: connections, MaxIdleConns: connections, MaxConnLifetime: time.Hour,
	}
}

func (p *postgres) persistence() config.Persistence {
	const main, visibility = "postgres", "postgres-visibility"
	return config.Persistence{
		DefaultStore:     main,
		VisibilityStore:  visibility,
		NumHistoryShards: postgresShards,
		DataStores: map[string]config.DataStore{
			main:       {SQL: p.config(p.database, postgresConnections)},
			visibility: {SQL: p.config(p.database+visibilitySuffix, postgresVisibilityConnections)},
		},
	}
}

// upgrade makes the databases, where they are missing, and brings their schemas up to date, as
// temporal-sql-tool does.
func (p *postgres) upgrade(ctx context.Context, logger log.Logger) error {
	for database, schema := range map[string]string{
		p.database:                    "postgresql/v12/temporal",
		p.database + visibilitySuffix: "postgresql/v12/visibility",
	} {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := p.upgradeOne(database, schema, logger); err != nil {
			return fmt.Errorf("set up database %s of PostgreSQL at %s: %w", database, p.address, err)
		}
	}
	return nil
}

func (p *postgres) upgradeOne(database, schema string, logger log.Logger) error {
	// The first one is of those that each PostgreSQL server has.
	if err := toolsql.DoCreateDatabase(p.config(database, 1), "postgres", logger); err != nil {
		return err
	}
	db, err := toolsql.NewConnection(p.config(database, 1), logger)
	if err != nil {
		return err
	}
	defer db.Close()
	tables, err := db.ListTables()
	if err != nil {
		return err
	}
	if len(tables) == 0 {
		if err := toolschema.NewSetupSchemaTask(db, &toolschema.SetupConfig{InitialVersion: "0.0"}, logger).Run(); err != nil {
			return err
		}
	}
	return toolschema.NewUpdateSchemaTask(db, &toolschema.UpdateConfig{DBName: database, SchemaName: schema}, logger).Run()
}

// register makes each namespace exist, as `temporal operator namespace create` does. Namespaces
// that exist stay as they are.
func register(ctx context.Context, address string, o *options) error {
	ctx, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	creds, err := o.tls.dialing(address)
	if err != nil {
		return fmt.Errorf("reach the frontend at %s: %w", address, err)
	}
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(creds))
	if err != nil {
		return fmt.Errorf("reach the frontend at %s: %w", address, err)
	}
	defer conn.Close()
	client := workflowservice.NewWorkflowServiceClient(conn)
	for _, name := range o.namespaces {
		in := &workflowservice.RegisterNamespaceRequest{Namespace: name, WorkflowExecutionRetentionPeriod: durationpb.New(o.retention)}
		for {
			_, err := client.RegisterNamespace(ctx, in, grpc.WaitForReady(true))
			var exists *serviceerror.NamespaceAlreadyExists
			if err = serviceerror.FromStatus(status.Convert(err)); err == nil || errors.As(err, &exists) {
				break
			}
			select {
			case <-ctx.Done():
				return fmt.Errorf("register namespace %s: %w", name, err)
			case <-time.After(100 * time.Millisecond):
			}
		}
	}
	return nil
}
