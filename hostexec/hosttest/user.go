package hosttest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// testUser is a temporary user of this machine.
type testUser struct {
	name, home string
	uid, gid   int
}

// newTestUser makes a user with a home below the temporary folder.
func newTestUser(ctx context.Context, shell string, rc map[string]string) (*testUser, error) {
	if os.Geteuid() != 0 {
		return nil, errors.New("a throwaway user can only be made by root")
	}
	if shell == "" {
		shell = "/bin/bash"
	}
	if _, err := os.Stat(shell); err != nil {
		return nil, fmt.Errorf("%w: run `make tools`", err)
	}
	name := "fl-test-" + strings.ToLower(rand.Text()[:10])
	u := &testUser{name: name, home: filepath.Join("/tmp", name)}
	// The password is '*' and not the default '!', because sshd takes '!' for a locked
	// account.
	if err := accountTool(ctx, "useradd", "-m", "-k", "/nonexistent", "-d", u.home, "-s", shell, "-p", "*", name); err != nil {
		return nil, err
	}
	info, err := user.Lookup(name)
	if err != nil {
		return nil, errors.Join(err, u.remove())
	}
	u.uid, _ = strconv.Atoi(info.Uid)
	u.gid, _ = strconv.Atoi(info.Gid)
	for file, text := range rc {
		path := filepath.Join(u.home, file)
		err = errors.Join(err, os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644))
		for p := path; p != u.home; p = filepath.Dir(p) {
			err = errors.Join(err, os.Chown(p, u.uid, u.gid))
		}
	}
	if err != nil {
		return nil, errors.Join(err, u.remove())
	}
	return u, nil
}

// remove kills the user's processes and deletes the user and its home.
func (u *testUser) remove() error {
	if u.uid > 0 {
		for len(processesOf(u.uid)) > 0 {
			for _, p := range processesOf(u.uid) {
				kill(p)
			}
			time.Sleep(5 * time.Millisecond) // a killed process takes a moment to exit
		}
	}
	err := accountTool(context.Background(), "userdel", "-f", u.name)
	return errors.Join(err, os.RemoveAll(u.home))
}

// accountTool runs a program that changes /etc/passwd. It retries, because only one such
// program can run at a time.
func accountTool(ctx context.Context, name string, args ...string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		out, err := exec.CommandContext(ctx, "/usr/sbin/"+name, args...).CombinedOutput()
		if err == nil {
			return nil
		}
		if ctx.Err() != nil || !strings.Contains(string(out), "lock") {
			return fmt.Errorf("%s %s: %w: %s", name, args[len(args)-1], err, out)
		}
		select {
		case <-ctx.Done():
		case <-time.After(20 * time.Millisecond):
		}
	}
}
