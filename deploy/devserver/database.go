package main

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"

	"go.temporal.io/server/common/log"
	"go.temporal.io/server/common/log/tag"
	"modernc.org/sqlite"
)

// database is a file that only this process may use until it is closed.
type database struct {
	path string
	lock *fileLock
}

// openDatabase locks the file at path for a server of version mine and upgrades its schema,
// after a copy if an older server wrote it. A missing or empty file becomes a new database.
// On an error the file is as it was, or has only the tables of a completed upgrade.
func openDatabase(ctx context.Context, path, mine string, logger log.Logger) (_ *database, err error) {
	dir := filepath.Dir(path)
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return nil, fmt.Errorf("open database %s: there is no folder %s: make it, or give another --db-filename", path, dir)
	}
	// A file with several names must have one lock.
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	lock, err := lockFile(path)
	if err != nil {
		return nil, err
	}
	d := &database{path: path, lock: lock}
	defer func() {
		if err != nil {
			lock.release()
		}
	}()
	if err := d.prepare(ctx, mine, logger); err != nil {
		return nil, fmt.Errorf("open database %s: %w", path, err)
	}
	return d, nil
}

func (d *database) prepare(ctx context.Context, mine string, logger log.Logger) error {
	stamp, err := readStamp(d.path)
	if err != nil {
		return err
	}
	size, err := d.size()
	if err != nil {
		return err
	}
	s, err := decide(stamp, mine, size > 0)
	if r := (refusal{}); errors.As(err, &r) {
		return refusal{fmt.Errorf("%w%s", r.error, waysBack(d.path, mine))}
	}
	if err != nil {
		return err
	}
	// Not earlier: even a read can move the WAL into the file.
	if s != stepCreate {
		written, err := d.written(ctx)
		if err != nil {
			return err
		}
		if !written {
			s = stepCreate
		}
	}
	switch s {
	case stepCreate:
		// First, because a database without a stamp would count as foreign.
		if err := writeStamp(d.path, mine); err != nil {
			return err
		}
		if err := createPrivate(d.path); err != nil {
			return err
		}
		return d.withDB(ctx, upgradeSchema)
	case stepUpgrade:
		name, err := d.copyAside(ctx, stamp)
		if err != nil {
			return fmt.Errorf("copy it before server %s opens it: %w (nothing was changed; make room in %s or move it)", mine, err, filepath.Dir(d.path))
		}
		logger.Warn("database was written by an older server; a copy was made",
			tag.NewStringTag("database", d.path), tag.NewStringTag("older", orUnstamped(stamp)), tag.NewStringTag("copy", name))
		if err := d.withDB(ctx, upgradeSchema); err != nil {
			return fmt.Errorf("bring its tables to those of server %s: %w (nothing was changed; the copy is %s)", mine, err, name)
		}
		return writeStamp(d.path, mine)
	}
	return nil
}

func (d *database) size() (int64, error) {
	info, err := os.Stat(d.path)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	if !info.Mode().IsRegular() {
		return 0, errors.New("it is not a regular file: give another --db-filename")
	}
	return info.Size(), nil
}

func (d *database) written(ctx context.Context) (bool, error) {
	n := 0
	err := d.withDB(ctx, func(ctx context.Context, db *sql.DB) error {
		return db.QueryRowContext(ctx, "SELECT count(*) FROM sqlite_master").Scan(&n)
	})
	if err != nil {
		return false, fmt.Errorf("%w (is it an SQLite database?)", err)
	}
	return n > 0, nil
}

// createPrivate makes the file before SQLite does. -wal and -shm get the file's
// permissions.
func createPrivate(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	return f.Close()
}

// copyAside copies the database as version left it, with the WAL, into one file, and
// returns its name.
func (d *database) copyAside(ctx context.Context, version string) (string, error) {
	tmp, err := scratch(d.path+".bak", func(tmp string) error {
		if err := createPrivate(tmp); err != nil {
			return err
		}
		return d.withDB(ctx, func(ctx context.Context, db *sql.DB) error {
			conn, err := db.Conn(ctx)
			if err != nil {
				return err
			}
			defer conn.Close()
			return conn.Raw(func(c any) error { return copyPages(c.(driver.Conn), tmp) })
		})
	})
	if err != nil {
		return "", err
	}
	name, same, err := copyName(d.path, version, tmp)
	if err != nil || same {
		os.Remove(tmp)
		return name, err
	}
	return name, install(tmp, name)
}

func copyPages(c driver.Conn, to string) error {
	b, err := c.(interface {
		NewBackup(dst string) (*sqlite.Backup, error)
	}).NewBackup(fileURI(to, nil))
	if err != nil {
		return err
	}
	for more := true; more; {
		if more, err = b.Step(4096); err != nil {
			b.Finish() // repeats the error
			return err
		}
	}
	return b.Finish()
}

// withDB calls f with a connection that is closed, and thus checkpointed, before the server
// opens its own.
func (d *database) withDB(ctx context.Context, f func(context.Context, *sql.DB) error) error {
	db, err := sql.Open("sqlite", fileURI(d.path, url.Values{"mode": {"rw"}, "_pragma": {"busy_timeout=10000"}}))
	if err != nil {
		return err
	}
	db.SetMaxOpenConns(1)
	return errors.Join(f(ctx, db), db.Close())
}

// close moves the WAL into the file, so that at rest the database is one file. The server
// must have stopped.
func (d *database) close(ctx context.Context) error {
	if d == nil {
		return nil
	}
	err := d.withDB(ctx, func(ctx context.Context, db *sql.DB) error {
		_, err := db.ExecContext(ctx, "PRAGMA wal_checkpoint(TRUNCATE)")
		return err
	})
	if err != nil {
		err = fmt.Errorf("close database %s: %w (nothing is lost: the rest is in %[1]s-wal)", d.path, err)
	}
	return errors.Join(err, d.lock.release())
}

func uriPath(path string) string {
	return (&url.URL{Path: path}).EscapedPath()
}

func fileURI(path string, query url.Values) string {
	return "file:" + uriPath(path) + "?" + query.Encode()
}
