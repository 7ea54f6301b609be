package hosttest

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// ServeGit serves the git repositories in a folder with git-daemon, each at url/NAME, until
// stop is called or the test ends. The address is a loopback address that thisMachine in
// package snapshots does not know, so that it counts as a remote on another host.
func ServeGit(t testing.TB, root string) (url string, stop func()) {
	t.Helper()
	out, err := exec.Command("git", "--exec-path").Output()
	if err != nil {
		t.Fatal(err)
	}
	// This process listens itself, so that clients need not wait until a daemon listens.
	// Each daemon serves one connection.
	l, err := net.Listen("tcp", "127.0.0.2:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &gitServer{listener: l, program: filepath.Join(strings.TrimSpace(string(out)), "git-daemon"), root: root, calls: map[*exec.Cmd]bool{}}
	var accepting sync.WaitGroup
	accepting.Go(s.accept)
	stop = sync.OnceFunc(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		accepting.Wait()
		s.end()
		if s.err != nil {
			t.Error(s.err)
		}
	})
	t.Cleanup(stop)
	return "git://" + l.Addr().String(), stop
}

type gitServer struct {
	listener      net.Listener
	program, root string
	serving       sync.WaitGroup

	mu    sync.Mutex
	calls map[*exec.Cmd]bool // guarded by mu
	err   error              // guarded by mu
}

// accept returns when the listener is closed.
func (s *gitServer) accept() {
	for {
		c, err := s.listener.Accept()
		if err != nil {
			return
		}
		if err := s.serve(c.(*net.TCPConn)); err != nil {
			s.mu.Lock()
			s.err = err
			s.mu.Unlock()
		}
	}
}

// serve starts a daemon for one connection.
func (s *gitServer) serve(c *net.TCPConn) error {
	defer c.Close()
	wire, err := c.File()
	if err != nil {
		return err
	}
	defer wire.Close()
	cmd := exec.Command(s.program, "--inetd", "--log-destination=none", "--informative-errors", "--export-all", "--base-path="+s.root, s.root)
	cmd.Stdin, cmd.Stdout = wire, wire
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + s.root, "GIT_CONFIG_NOSYSTEM=1", "LC_ALL=C"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("serve git: %w", err)
	}
	s.mu.Lock()
	s.calls[cmd] = true
	s.mu.Unlock()
	s.serving.Go(func() {
		_ = cmd.Wait() // clients may disconnect at any time
		s.mu.Lock()
		delete(s.calls, cmd)
		s.mu.Unlock()
	})
	return nil
}

// end kills all daemons that are still serving, with their descendants.
func (s *gitServer) end() {
	s.mu.Lock()
	for cmd := range s.calls {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // the daemon may have exited
	}
	s.mu.Unlock()
	s.serving.Wait()
}
