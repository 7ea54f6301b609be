package pgcluster

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"fairlead.dev/fairlead/hostexec/hosttest"
)

// superuser is whom Temporal's server connects as.
const superuser = "temporal"

// A database is a PostgreSQL server on a loopback port, with a folder of its own.
type database struct {
	dir      string // has everything of it
	programs string // the folder of its programs
	port     *hosttest.Port
	owner    *syscall.Credential // PostgreSQL refuses to run as root; nil is this user
	server   *exec.Cmd
	done     chan struct{} // closed when server has ended
}

// newDatabase starts a PostgreSQL server, whose folder is new.
func newDatabase(ctx context.Context, dir string) (_ *database, err error) {
	d := &database{dir: dir}
	if d.programs, err = programs(); err != nil {
		return nil, err
	}
	if d.owner, err = unprivileged(); err != nil {
		return nil, err
	}
	if d.port, err = hosttest.TakePort(); err != nil {
		return nil, err
	}
	secret := make([]byte, 16)
	rand.Read(secret)
	word := hex.EncodeToString(secret)
	// One file is for initdb and Temporal's server, the other one for psql.
	passfile := fmt.Sprintf("*:*:*:%s:%s\n", superuser, word)
	err = errors.Join(
		os.Mkdir(dir, 0o700), os.Mkdir(d.archive(), 0o700),
		os.WriteFile(d.Password(), []byte(word+"\n"), 0o600),
		os.WriteFile(filepath.Join(dir, "pgpass"), []byte(passfile), 0o600))
	if err == nil && d.owner != nil {
		err = errors.Join(d.give(dir), d.give(d.archive()), d.give(d.Password()), d.give(filepath.Join(dir, "pgpass")))
	}
	if err == nil {
		err = d.run(ctx, "initdb", "--pgdata", d.data(), "--username", superuser, "--pwfile", d.Password(), "--auth", "scram-sha-256", "--encoding", "UTF8", "--locale", "C", "--no-sync")
	}
	if err == nil {
		err = d.set("postgresql.auto.conf", "archive_command = '/bin/true'\n")
	}
	if err == nil {
		err = d.start(ctx)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start PostgreSQL: %w", err), d.port.Release())
	}
	return d, nil
}

// programs returns the folder of Debian's newest PostgreSQL.
func programs() (string, error) {
	all, err := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
	newest, version := "", 0
	for _, name := range all {
		dir := filepath.Dir(name)
		if n, err := strconv.Atoi(filepath.Base(filepath.Dir(dir))); err == nil && n > version {
			newest, version = dir, n
		}
	}
	if newest == "" {
		return "", errors.Join(errors.New("there is no PostgreSQL in /usr/lib/postgresql: run `make tools`"), err)
	}
	return newest, nil
}

func unprivileged() (*syscall.Credential, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	u, err := user.Lookup("postgres") // Debian's package makes it
	if err != nil {
		return nil, err
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return nil, err
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	if err != nil {
		return nil, err
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
}

func (d *database) give(path string) error {
	return os.Chown(path, int(d.owner.Uid), int(d.owner.Gid))
}

func (d *database) data() string { return filepath.Join(d.dir, "data") }

// Password is the file with the password of superuser.
func (d *database) Password() string { return filepath.Join(d.dir, "password") }

// archive is the folder of finished segments of the write-ahead log.
func (d *database) archive() string { return filepath.Join(d.dir, "archive") }

func (d *database) base() string { return filepath.Join(d.dir, "base") }

func (d *database) log() string { return filepath.Join(d.dir, "postgres.log") }

func (d *database) address() string {
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(d.port.Number))
}

func (d *database) command(ctx context.Context, program string, args ...string) *exec.Cmd {
	c := exec.CommandContext(ctx, filepath.Join(d.programs, program), args...)
	c.Dir = d.dir
	c.Env = append(os.Environ(), "LC_ALL=C", "PGPASSFILE="+filepath.Join(d.dir, "pgpass"))
	c.SysProcAttr = &syscall.SysProcAttr{Credential: d.owner, Setpgid: true}
	return c
}

func (d *database) run(ctx context.Context, program string, args ...string) error {
	out, err := d.command(ctx, program, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w: %s", program, err, bytes.TrimSpace(out))
	}
	return nil
}

// sql runs statements one by one in a database of the server.
func (d *database) sql(ctx context.Context, name string, statements ...string) error {
	args := []string{"--no-psqlrc", "--quiet", "--no-password", "--set", "ON_ERROR_STOP=1", "--host", "127.0.0.1", "--port", strconv.Itoa(d.port.Number), "--username", superuser, "--dbname", name}
	for _, s := range statements {
		args = append(args, "--command", s)
	}
	return d.run(ctx, "psql", args...)
}

// start starts the server on what is in its folder, and waits until it answers. Its settings are
// those of Debian's package but for the places of its sockets, and an archive of its write-ahead
// log, which keeps nothing before BackUp.
func (d *database) start(ctx context.Context) error {
	log, err := os.OpenFile(d.log(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	c := d.command(context.WithoutCancel(ctx), "postgres", "-D", d.data(), "-p", strconv.Itoa(d.port.Number),
		"-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories=",
		"-c", "archive_mode=on")
	c.Stdout, c.Stderr = log, log
	if err := c.Start(); err != nil {
		return err
	}
	d.server, d.done = c, make(chan struct{})
	go func() { _ = c.Wait(); close(d.done) }()
	for {
		err := d.sql(ctx, "postgres", "SELECT 1")
		if err == nil {
			return nil
		}
		select {
		case <-d.done:
			text, _ := os.ReadFile(d.log())
			return fmt.Errorf("it ended at its start:\n%s", text)
		case <-ctx.Done():
			return errors.Join(err, ctx.Err())
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// stop ends the server and all its connections at once, as a crash does. At the next start,
// PostgreSQL recovers what was committed from its write-ahead log.
func (d *database) stop() error { return d.end(syscall.SIGQUIT) }

func (d *database) end(sig syscall.Signal) error {
	if d.server == nil {
		return nil
	}
	if err := d.server.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	<-d.done
	d.server = nil
	return nil
}

func (d *database) close() error { return errors.Join(d.stop(), d.port.Release()) }
