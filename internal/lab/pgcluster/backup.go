package pgcluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// restorePoint is the name of the point in time to which Restore goes back.
const restorePoint = "drill"

// BackUp makes a base backup of PostgreSQL while it works, and keeps its write-ahead log from now on.
func (c *Cluster) BackUp(ctx context.Context) error {
	d := c.database
	err := d.sql(ctx, "postgres", fmt.Sprintf("ALTER SYSTEM SET archive_command = 'cp %%p %s/%%f'", d.archive()), "SELECT pg_reload_conf()")
	if err == nil {
		err = d.run(ctx, "pg_basebackup", "--pgdata", d.base(), "--host", "127.0.0.1", "--port", strconv.Itoa(d.port.Number),
			"--username", superuser, "--no-password", "--checkpoint", "fast", "--wal-method", "none", "--no-sync")
	}
	if err != nil {
		return fmt.Errorf("back up PostgreSQL: %w", err)
	}
	return nil
}

// Mark makes this moment the one that Restore goes back to.
func (c *Cluster) Mark(ctx context.Context) error {
	return c.database.sql(ctx, "postgres", fmt.Sprintf("SELECT pg_create_restore_point('%s')", restorePoint))
}

// Restore puts PostgreSQL back to the moment of Mark: it starts from the base backup and repeats
// the archived log up to there. What was committed later is lost. Stacks must have ended.
func (c *Cluster) Restore(ctx context.Context) error {
	d := c.database
	// The segment of the log that has the moment may not be full.
	if err := d.sql(ctx, "postgres", "SELECT pg_switch_wal()"); err != nil {
		return fmt.Errorf("finish the archive: %w", err)
	}
	if err := d.end(syscall.SIGINT); err != nil { // it archives all before it ends
		return err
	}
	err := os.RemoveAll(d.data())
	if err == nil {
		err = os.Rename(d.base(), d.data())
	}
	if err != nil {
		return err
	}
	// Without hot_standby, the server takes connections only when it is there.
	settings := fmt.Sprintf("hot_standby = off\narchive_command = '/bin/true'\nrestore_command = 'cp %s/%%f %%p'\nrecovery_target_name = '%s'\nrecovery_target_action = 'promote'\n", d.archive(), restorePoint)
	if err := errors.Join(d.set("recovery.signal", ""), d.set("postgresql.auto.conf", settings)); err != nil {
		return err
	}
	if err := d.start(ctx); err != nil {
		return fmt.Errorf("restore PostgreSQL: %w", err)
	}
	return nil
}

// set writes a file into the folder of a server that does not run.
func (d *database) set(name, text string) error {
	path := filepath.Join(d.data(), name)
	err := os.WriteFile(path, []byte(text), 0o600)
	if err == nil && d.owner != nil {
		err = d.give(path)
	}
	return err
}
