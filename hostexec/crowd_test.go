package hostexec_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/hostexec/hosttest"
	"fairlead.dev/fairlead/hostexec/process"
)

// crowdSize returns the number of sessions that share a host. It is larger than the 128
// inotify instances that a user has by default.
func crowdSize() int {
	if *everyShell {
		return largeCrowd
	}
	return 132
}

const largeCrowd = 200

// A crowd is many sessions on one host, each with a small program of its own.
type crowd struct {
	sshd   *hosttest.SSHD
	pool   *hostexec.Pool
	host   hostexec.Host
	scenes []*scene
}

// newCrowd starts the programs of a crowd, a few at a time.
func newCrowd(t testing.TB, size int, config ...string) *crowd {
	t.Helper()
	// MaxStartups has sshd's default value.
	c := &crowd{sshd: hosttest.StartSSHD(t, hosttest.Options{Config: append(config, "MaxStartups 10:30:100")})}
	c.pool = hostexec.NewPool(hostexec.PoolOptions{})
	c.pool.ShortenSurplus(time.Second)
	t.Cleanup(func() {
		if err := c.pool.Close(); err != nil {
			t.Error(err)
		}
	})
	var err error
	if c.host, err = c.pool.Host(c.sshd.Spec()); err != nil {
		t.Fatal(err)
	}
	root := filepath.Join(t.TempDir(), "crowd")
	mark := fmt.Sprintf("crowd-%d-%d", os.Getpid(), time.Now().UnixNano())
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
		defer cancel()
		fence := hostexec.Fence{Dir: root, Epoch: hostexec.Epoch{Generation: 1 << 30}}
		if _, err := process.Reap(ctx, c.host, root, mark, fence); err != nil {
			t.Error(err)
		}
	})
	starting, ctx := errgroup.WithContext(t.Context())
	starting.SetLimit(16)
	for i := range size {
		s := &scene{t: t, ctx: t.Context(), host: c.host, dir: fmt.Sprintf("%s/%d", root, i), mark: mark}
		s.fence = hostexec.Fence{Dir: s.dir, Epoch: hostexec.Epoch{Generation: 1, Pump: 1}}
		c.scenes = append(c.scenes, s)
		starting.Go(func() error {
			_, err := process.Start(ctx, c.host, s.spec("/bin/sh", "-c", `while IFS= read -r x; do [ -z "$x" ] || echo "got $x"; done`))
			return err
		})
	}
	if err := starting.Wait(); err != nil {
		t.Fatal(err)
	}
	return c
}

// A member is an attachment to one program of the crowd.
type member struct {
	process.Attachment
	in *bufio.Reader
}

func (c *crowd) attach(t testing.TB) []*member {
	t.Helper()
	members := make([]*member, len(c.scenes))
	var all errgroup.Group
	for i, s := range c.scenes {
		all.Go(func() error {
			s.fence.Epoch.Pump++
			a, err := process.Attach(t.Context(), c.host, s.proc(), process.AttachOptions{Fence: s.fence, Offset: s.read})
			if err == nil {
				members[i] = &member{a, bufio.NewReader(a)}
			}
			return err
		})
	}
	if err := all.Wait(); err != nil {
		t.Fatal(err)
	}
	return members
}

func (m *member) ask(line string) error {
	if _, err := io.WriteString(m, line+"\n"); err != nil {
		return err
	}
	if got, err := m.in.ReadString('\n'); err != nil || got != "got "+line+"\n" {
		return fmt.Errorf("%q, %w", got, err)
	}
	return nil
}

func TestACrowdOfSessionsSharesAHost(t *testing.T) {
	for _, host := range []struct {
		config string
		size   int
	}{
		{"MaxSessions 10", crowdSize()},
		{"MaxSessions 1", crowdSize() / 4}, // a connection each, which costs the machine most
	} {
		t.Run(host.config, func(t *testing.T) {
			c := newCrowd(t, host.size, host.config)
			settled := func() {
				t.Helper()
				eventually(t, "a connection or two are left", func() bool {
					n, err := c.sshd.Connections()
					if err != nil {
						t.Fatal(err)
					}
					return n == 1 || n == 2
				})
			}
			settled()
			for round := range 2 {
				members := c.attach(t)
				var all errgroup.Group
				for i, m := range members {
					all.Go(func() error {
						line := fmt.Sprintf("member %d in round %d", i, round)
						c.scenes[i].read += int64(len(line) + len("got \n"))
						if err := m.ask(line); err != nil {
							return fmt.Errorf("member %d: %w", i, err)
						}
						// Other commands still run beside the attachments.
						_, err := c.host.Run(t.Context(), hostexec.Command{Script: ":"})
						return err
					})
				}
				if err := all.Wait(); err != nil {
					t.Fatal(err)
				}
				n, err := c.sshd.Connections()
				t.Logf("%d connections, %d inotify instances, %v", n, inotifyInstances(), err)
				for _, m := range members {
					if err := m.Close(); err != nil {
						t.Error(err)
					}
				}
				settled()
			}
			// Nothing of the attachments is left on the host.
			eventually(t, "nobody is attached", func() bool {
				ties, err := filepath.Glob(filepath.Dir(c.scenes[0].dir) + "/*/proc/*/tie.*")
				return err == nil && len(ties) == 0 && len(tailsOf(filepath.Dir(c.scenes[0].dir))) == 0
			})
		})
	}
}

func TestConnectionsPerHostAreBounded(t *testing.T) {
	sshd := hosttest.StartSSHD(t, hosttest.Options{Config: []string{"MaxSessions 2"}})
	h, err := newPool(t, hostexec.PoolOptions{MaxConnsPerHost: 2}).Host(sshd.Spec())
	if err != nil {
		t.Fatal(err)
	}
	type started struct {
		hostexec.Stream
		err error
	}
	streams := make(chan started)
	for range 6 {
		go func() {
			s, err := h.Start(t.Context(), hostexec.Command{Script: "cat"})
			if err == nil {
				_, err = io.WriteString(s, "x")
			}
			if err == nil {
				_, err = io.ReadFull(s, make([]byte, 1))
			}
			streams <- started{s, err}
		}()
	}
	// A place that becomes free is given to the next caller.
	for range 6 {
		s := <-streams
		if s.err != nil {
			t.Fatal(s.err)
		}
		if n, err := sshd.Connections(); n > 2 || err != nil {
			t.Errorf("%d connections, %v", n, err)
		}
		s.Close()
	}
}

// tailsOf returns the processes that read journals below a folder.
func tailsOf(dir string) (found []string) {
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, d := range dirs {
		cmd, _ := os.ReadFile(d + "/cmdline")
		if strings.HasPrefix(string(cmd), "tail\x00") && strings.Contains(string(cmd), dir) {
			found = append(found, d)
		}
	}
	return found
}

func inotifyInstances() (n int) {
	fds, _ := filepath.Glob("/proc/[0-9]*/fd/*")
	for _, fd := range fds {
		if to, _ := os.Readlink(fd); to == "anon_inode:inotify" {
			n++
		}
	}
	return n
}
