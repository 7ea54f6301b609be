package hostexec_test

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/hostexec/hosttest"
	"fairlead.dev/fairlead/hostexec/process"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/internal/realparts"
)

// If programEnv is set, the test binary acts as the program of a journaled process.
const programEnv = "HOSTEXEC_TEST_PROGRAM"

func init() {
	switch args := strings.Fields(os.Getenv(programEnv)); {
	case len(args) == 0:
		return
	case args[0] == "echo":
		io.Copy(os.Stdout, os.Stdin)
	case args[0] == "emit":
		// emit SEED SIZE prints the bytes of pattern, in pieces of random size.
		seed, _ := strconv.ParseUint(args[1], 10, 64)
		size, _ := strconv.Atoi(args[2])
		rnd := rand.New(rand.NewPCG(seed, 1))
		for data := pattern(seed, size); len(data) > 0; {
			n := min(len(data), 1+rnd.IntN(1<<(3+rnd.IntN(14))))
			os.Stdout.Write(data[:n])
			data = data[n:]
			if rnd.IntN(8) == 0 {
				time.Sleep(time.Duration(rnd.IntN(3000)) * time.Microsecond)
			}
		}
	case args[0] == "count":
		// count prints, for every line that it reads, the line's length and a sum.
		in := bufio.NewReaderSize(os.Stdin, 1<<20)
		for {
			line, err := in.ReadString('\n')
			if err != nil {
				break
			}
			fmt.Printf("%d %x\n", len(line), sum(line))
		}
	case args[0] == "drop":
		// drop PORT drops the packets of a port, reports that, and waits until it is
		// killed.
		port, _ := strconv.Atoi(args[1])
		if _, err := hosttest.DropPort(context.Background(), port); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		fmt.Println("dropping")
		io.Copy(io.Discard, os.Stdin)
	default:
		fmt.Fprintln(os.Stderr, "no such program")
		os.Exit(2)
	}
	os.Exit(0)
}

func sum(s string) (h uint64) {
	for _, c := range []byte(s) {
		h = h*1099511628211 + uint64(c) + 1
	}
	return h
}

// pattern returns size bytes of text without repetitions.
func pattern(seed uint64, size int) []byte {
	rnd := rand.New(rand.NewPCG(seed, 2))
	data := make([]byte, 0, size+32)
	for len(data) < size {
		data = strconv.AppendUint(data, rnd.Uint64(), 36)
		data = append(data, '\n')
	}
	return data[:size]
}

// A place is a kind of host on which every guarantee must hold.
type place struct {
	name string
	host func(*testing.T) hostexec.Host
}

// everyShell also tries what needs to be tried only when scripts for hosts change.
var everyShell = flag.Bool("every-shell", false, "try also hosts with dash and bash that are reached without sshd, and crowds of 200 sessions")

// places returns a host behind sshd, whose shell is dash, and one with busybox. With
// -every-shell there are more.
func places(t *testing.T) []place {
	all := []place{
		{"sshd", func(t *testing.T) hostexec.Host { return newHost(t, hosttest.StartSSHD(t, hosttest.Options{}).Spec()) }},
		{"dash", func(t *testing.T) hostexec.Host { return localHost(t) }},
		{"bash", func(t *testing.T) hostexec.Host {
			return &otherShell{localHost(t), farm(t, map[string]string{"sh": lookPath(t, "bash")}) + ":" + os.Getenv("PATH")}
		}},
		{"busybox", func(t *testing.T) hostexec.Host { return &otherShell{localHost(t), busybox(t)} }},
	}
	if *everyShell {
		return all
	}
	return []place{all[0], all[3]}
}

func localHost(t testing.TB) hostexec.Host {
	t.Helper()
	realparts.NotShort(t)
	pool := hostexec.NewPool(hostexec.PoolOptions{})
	h, err := pool.Host(protocol.HostSpec{Name: protocol.LocalHost})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { pool.Close() })
	return h
}

// otherShell runs everything under the first sh on its path.
type otherShell struct {
	hostexec.Host
	path string
}

const underOther = `PATH=$1; export PATH; shift; s=$1; shift; exec sh -c "$s" sh "$@"`

func (h *otherShell) wrap(c hostexec.Command) hostexec.Command {
	inner := c.Script
	if c.Fence != nil && c.FenceAtStart {
		inner = hostexec.FencePrologue(*c.Fence) + "\n" + hostexec.FenceEpilogue + "\n" + c.Script
	} else if c.Fence != nil {
		inner = hostexec.FencePrologue(*c.Fence) + "\n(" + c.Script + "\n)\nr=$?\n" + hostexec.FenceEpilogue + "\nexit $r"
	}
	c.Fence = nil
	c.Args = append([]string{h.path, inner}, c.Args...)
	c.Script = underOther
	return c
}

func (h *otherShell) Run(ctx context.Context, c hostexec.Command) (hostexec.Result, error) {
	return h.Host.Run(ctx, h.wrap(c))
}

func (h *otherShell) Start(ctx context.Context, c hostexec.Command) (hostexec.Stream, error) {
	return h.Host.Start(ctx, h.wrap(c))
}

func lookPath(t testing.TB, name string) string {
	t.Helper()
	p, err := exec.LookPath(name)
	if err != nil {
		t.Fatalf("%v: run `make tools`", err)
	}
	return p
}

// farm returns a folder with a link for each name, to its program.
func farm(t testing.TB, links map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, program := range links {
		if err := os.Symlink(program, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func busybox(t testing.TB) string {
	t.Helper()
	program := lookPath(t, "busybox")
	out, err := exec.Command(program, "--list").Output()
	if err != nil {
		t.Fatal(err)
	}
	links := make(map[string]string)
	for name := range strings.FieldsSeq(string(out)) {
		links[name] = program
	}
	return farm(t, links)
}

// everywhere runs a test on every place. Each run has a session folder of its own, with a
// path that is as awkward as possible.
func everywhere(t *testing.T, f func(t *testing.T, s *scene)) {
	for _, p := range places(t) {
		t.Run(p.name, func(t *testing.T) { f(t, newScene(t, p.host(t))) })
	}
}

// A scene is a host with a folder for a session.
type scene struct {
	t     testing.TB
	ctx   context.Context
	host  hostexec.Host
	dir   string // of the session
	fence hostexec.Fence
	mark  string
	read  int64 // position up to which the journal was read, if the test sets it
}

func newScene(t testing.TB, h hostexec.Host) *scene {
	return newSceneIn(t, h, filepath.Join(t.TempDir(), "it's a \"röot\" $x [a]* \\ folder", "s-1"))
}

func newSceneIn(t testing.TB, h hostexec.Host, dir string) *scene {
	s := &scene{t: t, ctx: t.Context(), host: h, dir: dir, mark: fmt.Sprintf("m-%d-%d", os.Getpid(), rand.Uint64())}
	s.fence = hostexec.Fence{Dir: dir, Epoch: hostexec.Epoch{Generation: 1, Pump: 1}}
	t.Cleanup(func() {
		// No process may outlive the test. Reap ends processes that the test has left.
		s.fence.Epoch.Generation = 1 << 30
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if _, err := process.Reap(ctx, h, dir, s.mark, s.fence); err != nil {
			t.Error(err)
		}
		s.waitGone()
	})
	return s
}

func (s *scene) proc() string { return s.dir + "/proc/p" }

func (s *scene) spec(argv ...string) process.Spec {
	return process.Spec{Dir: s.proc(), Fence: s.fence, Argv: argv, Mark: s.mark}
}

func (s *scene) start(argv ...string) process.Status {
	s.t.Helper()
	st, err := process.Start(s.ctx, s.host, s.spec(argv...))
	if err != nil {
		s.t.Fatal(err)
	}
	return st
}

// program starts one of the programs of this binary.
func (s *scene) program(words string) process.Status {
	s.t.Helper()
	self, err := os.Executable()
	if err != nil {
		s.t.Fatal(err)
	}
	spec := s.spec(self)
	spec.Env = map[string]string{programEnv: words}
	st, err := process.Start(s.ctx, s.host, spec)
	if err != nil {
		s.t.Fatal(err)
	}
	return st
}

func (s *scene) inspect() process.Status {
	s.t.Helper()
	st, err := process.Inspect(s.ctx, s.host, s.proc())
	if err != nil {
		s.t.Fatal(err)
	}
	return st
}

func (s *scene) attach(opts process.AttachOptions) process.Attachment {
	s.t.Helper()
	if opts.Fence.Dir == "" {
		opts.Fence = s.fence
	}
	a, err := process.Attach(s.ctx, s.host, s.proc(), opts)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { a.Close() })
	return a
}

// eventually waits up to a minute for a condition.
func eventually(t testing.TB, what string, cond func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !cond(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("still not: %s", what)
		}
	}
}

// belongings returns the processes that name the session's folder on their command line or
// have its mark in their environment.
func (s *scene) belongings() (found []string) {
	procs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		s.t.Fatal(err)
	}
	for _, p := range procs {
		cmd, _ := os.ReadFile(p + "/cmdline")
		env, _ := os.ReadFile(p + "/environ")
		cwd, _ := os.Readlink(p + "/cwd")
		if strings.Contains(string(cmd), s.dir) || strings.Contains(string(env), s.mark) || strings.HasPrefix(cwd, s.dir) {
			found = append(found, filepath.Base(p)+" "+strings.ReplaceAll(string(cmd), "\x00", " "))
		}
	}
	return found
}

func (s *scene) waitGone() {
	s.t.Helper()
	var left []string
	for end := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		if left = s.belongings(); len(left) == 0 {
			return
		}
		if time.Now().After(end) {
			s.t.Fatalf("left on the host: %q", left)
		}
	}
}

func selfPath(t testing.TB) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return self
}

func kill(t testing.TB, pid int) {
	t.Helper()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatalf("kill %d: %v", pid, err)
	}
}

// supervisor returns the pid of the shell that waits for the process.
func (s *scene) supervisor() int {
	s.t.Helper()
	for _, p := range s.belongings() {
		pid, rest, _ := strings.Cut(p, " ")
		if strings.Contains(rest, "fairlead-supervisor") {
			n, _ := strconv.Atoi(pid)
			return n
		}
	}
	s.t.Fatal("no supervisor")
	return 0
}

// mute is a host whose streams discard all input after the script.
type mute struct{ hostexec.Host }

func (m *mute) Start(ctx context.Context, c hostexec.Command) (hostexec.Stream, error) {
	st, err := m.Host.Start(ctx, c)
	return muteStream{st}, err
}

type muteStream struct{ hostexec.Stream }

func (muteStream) Write(p []byte) (int, error) { return len(p), nil }
