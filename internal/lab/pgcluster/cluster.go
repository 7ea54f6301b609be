package pgcluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"fairlead.dev/fairlead/internal/lab"
)

// frontends are those of each server.
const frontends = 2

// A Cluster is a PostgreSQL server, and the programs of a repository that use it.
type Cluster struct {
	// Settings are more settings of Temporal's servers, as KEY=VALUE.
	Settings []string

	dir, repo string
	database  *database

	mu     sync.Mutex
	stages int
}

// bare is the database of Bare, of which Stage makes copies.
const bare = "bare"

// New starts PostgreSQL. repo is the repository's folder, with bin/ and .tools/ filled.
func New(ctx context.Context, repo string) (*Cluster, error) {
	dir, err := os.MkdirTemp("/var/tmp", "fairlead-pg-")
	if err != nil {
		return nil, err
	}
	c := &Cluster{dir: dir, repo: repo}
	// PostgreSQL runs as another user.
	if err := os.Chmod(dir, 0o755); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	if c.database, err = newDatabase(ctx, filepath.Join(dir, "postgres")); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return c, nil
}

// Close ends PostgreSQL and removes everything. Stacks must have ended.
func (c *Cluster) Close() error {
	return errors.Join(c.database.close(), os.RemoveAll(c.dir))
}

// StopDatabase stops PostgreSQL at once, as a failure does.
func (c *Cluster) StopDatabase() error { return c.database.stop() }

// StartDatabase starts PostgreSQL again, and waits until it answers.
func (c *Cluster) StartDatabase(ctx context.Context) error { return c.database.start(ctx) }

// Outage stops PostgreSQL for a time.
func (c *Cluster) Outage(ctx context.Context, lasts time.Duration) error {
	if err := c.StopDatabase(); err != nil {
		return err
	}
	var cut error
	select {
	case <-time.After(lasts):
	case <-ctx.Done():
		cut = ctx.Err()
	}
	return errors.Join(cut, c.StartDatabase(context.WithoutCancel(ctx)))
}

// flags make bin/devserver a server of the cluster.
func (c *Cluster) flags(name string) []string {
	out := []string{"--postgres", "postgres://" + superuser + "@" + c.database.address(), "--postgres-password", c.database.Password(),
		"--postgres-database", name, "--frontends", fmt.Sprint(frontends)}
	for _, s := range c.Settings {
		out = append(out, "--dynamic-config-value", s)
	}
	return out
}

// Bare returns a folder for lab.Options.Repo. The namespace has no search attributes, so that the
// stack must have no workers.
func (c *Cluster) Bare() (repo string, err error) { return c.stage(bare) }

// Prepare gives Bare's namespace what it lacks, as an operator does.
func (c *Cluster) Prepare(ctx context.Context) (err error) {
	repo, err := c.Bare()
	if err != nil {
		return err
	}
	l, err := lab.New(ctx, lab.Options{Repo: repo, Script: []byte("rules: []"), Workers: -1})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	_, err = l.Out(ctx, "cluster", "prepare")
	return err
}

// Stage returns a folder for lab.Options.Repo, with a copy of Bare's database. The namespace
// there must be prepared, and its stack have ended.
func (c *Cluster) Stage(ctx context.Context) (repo string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stages++
	name := fmt.Sprintf("stage%d", c.stages)
	// Temporal's server has ended, but PostgreSQL may not have noticed the end of its connections.
	for _, suffix := range []string{"", visibilitySuffix} {
		from, to := bare+suffix, name+suffix
		err := errors.Join(
			c.database.sql(ctx, "postgres",
				fmt.Sprintf("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '%s'", from),
				fmt.Sprintf("CREATE DATABASE %s TEMPLATE %s", to, from)),
			// Temporal looks for the version of a schema by the database's name.
			c.database.sql(ctx, to, fmt.Sprintf("UPDATE schema_version SET db_name = '%s'", to)))
		if err != nil {
			return "", fmt.Errorf("copy the prepared database: %w", err)
		}
	}
	return c.stage(name)
}

// visibilitySuffix is that of the name of the second database in deploy/devserver.
const visibilitySuffix = "_visibility"

func (c *Cluster) stage(name string) (string, error) {
	dir := filepath.Join(c.dir, name)
	bin := filepath.Join(dir, "bin")
	err := errors.Join(os.MkdirAll(bin, 0o755), os.Symlink(filepath.Join(c.repo, ".tools"), filepath.Join(dir, ".tools")))
	for _, program := range []string{"ctl", "worker"} {
		// A symbolic link would lead ctl to the other programs of the repository.
		err = errors.Join(err, place(filepath.Join(c.repo, "bin", program), filepath.Join(bin, program)))
	}
	// Later arguments win. The process is the server itself, so that faults strike it.
	words := []string{`[ "$1" != server ] ||`, "set --", `"$@"`}
	for _, f := range c.flags(name) {
		words = append(words, quoted(f))
	}
	script := "#!/bin/sh\n" + strings.Join(words, " ") + "\nexec " + quoted(filepath.Join(c.repo, "bin", "devserver")) + " \"$@\"\n"
	return dir, errors.Join(err, os.WriteFile(filepath.Join(bin, "devserver"), []byte(script), 0o755))
}

func quoted(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// place makes a program's file, as a link where that is possible.
func place(from, to string) error {
	if os.Link(from, to) == nil {
		return nil
	}
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}
