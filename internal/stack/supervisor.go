package stack

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"fairlead.dev/fairlead/internal/api"
	"fairlead.dev/fairlead/internal/certs"
	"fairlead.dev/fairlead/internal/config"
	"fairlead.dev/fairlead/internal/version"
)

// Options configure a stack.
type Options struct {
	// Dir is the state folder, absolute.
	Dir               string
	Devserver, Worker string
	// Workers may be 0; then worker.yaml is for a worker that is started by hand.
	Workers int
	// Config is the user's config; the stack's settings override it.
	Config *config.Config
	// Validity is that of the stack's certificates; the zero value means the usual one.
	Validity certs.Validity
	// Ready is called once, when the server and all workers answer.
	Ready  func(Info)
	Logger *slog.Logger
}

const serverDrain = 20 * time.Second

type supervisor struct {
	opts  Options
	at    layout
	conf  []config.Config // of each worker, or of one started by hand
	log   *slog.Logger
	ports ports
	// upstream is where the UI's server has payloads decoded, or empty.
	upstream string

	mu       sync.Mutex
	info     Info
	children map[string]Process

	serverUp chan struct{} // closed when the server first answers
	once     sync.Once
}

// Up runs a stack until ctx ends, and then lets the workers drain. It returns ErrRunning if
// a stack already runs in the state folder.
func Up(ctx context.Context, opts Options) error {
	s := &supervisor{opts: opts, at: layout(opts.Dir), log: opts.Logger, children: map[string]Process{}, serverUp: make(chan struct{})}
	if err := s.at.prepare(); err != nil {
		return err
	}
	lock, err := s.at.lock()
	if err != nil {
		return err
	}
	defer lock.Close()
	if err := s.at.sign(lock); err != nil {
		return fmt.Errorf("lock the state folder: %w", err)
	}
	if err := s.clear(); err != nil {
		return err
	}
	if err := s.settle(); err != nil {
		return err
	}
	err = s.supervise(ctx)
	if rmErr := os.Remove(s.at.in("stack.json")); !errors.Is(rmErr, fs.ErrNotExist) {
		err = errors.Join(err, rmErr)
	}
	return err
}

// clear stops the children of a supervisor that was killed.
func (s *supervisor) clear() error {
	info, err := Read(s.opts.Dir)
	if err != nil {
		return nil // there is no stack.json, or it cannot be read
	}
	stopped, err := info.stopRemnants()
	for _, p := range stopped {
		s.log.Warn("stopped what an earlier supervisor left", "name", p.Name, "pid", p.PID)
	}
	return err
}

// settle fills in what the config leaves empty.
func (s *supervisor) settle() error {
	conf := *s.opts.Config
	s.info = Info{Supervisor: os.Getpid(), Version: version.String(), StartedAt: time.Now().UTC(), CodexSource: conf.Codex.Source}
	if conf.Store.Identity == "" {
		path, fresh, err := s.at.identity()
		if err != nil {
			return err
		}
		conf.Store.Identity, s.info.NewIdentity = path, fresh
	}
	s.info.Identity = conf.Store.Identity
	if conf.Temporal.PayloadKey == "" {
		path, fresh, err := s.at.payloadKey()
		if err != nil {
			return err
		}
		conf.Temporal.PayloadKey, s.info.NewPayloadKey = path, fresh
	}
	s.info.PayloadKey = conf.Temporal.PayloadKey
	if err := s.settleMarks(&conf); err != nil {
		return err
	}
	since, err := s.at.payloadsSince(s.info.StartedAt)
	if err != nil {
		return err
	}
	if conf.Temporal.PayloadsSince == "" && !since.IsZero() {
		conf.Temporal.PayloadsSince = since.Format(time.RFC3339)
	}
	if s.info.PayloadsSince, err = conf.Temporal.Since(); err != nil {
		return fmt.Errorf("read temporal.payloads_since: %w", err)
	}
	s.ports = s.at.recall()
	if err := s.settleAccess(); err != nil {
		return err
	}
	s.settleCodec(&conf.API.CodecListen, conf.CodecLoopback(), conf.API.CodecListen == config.CodecOff)
	if err := s.settleConsole(&conf.Console); err != nil {
		return err
	}
	if conf.Store.URL == "" {
		conf.Store.URL = "file://" + s.at.in("store")
	}
	s.info.Store.URL = conf.Store.URL
	for n := range max(s.opts.Workers, 1) {
		s.conf = append(s.conf, s.workerConf(conf, n))
	}
	s.info.Workers = make([]Worker, s.opts.Workers)
	for n := range s.info.Workers {
		s.info.Workers[n].Name = workerName(n)
	}
	return nil
}

// settleMarks gives workers the key with which they mark what they write. They get it also
// with authority: local, so that running workflows continue after a change to required.
func (s *supervisor) settleMarks(conf *config.Config) error {
	path, m, err := s.at.workersKey(s.info.StartedAt, conf.Authority)
	if err != nil {
		return err
	}
	if conf.AuthoritySince == "" && !m.Required.IsZero() {
		conf.AuthoritySince = m.Required.Format(time.RFC3339)
	}
	if conf.Temporal.WorkerPayloadKey != "" {
		return nil
	}
	conf.Temporal.WorkerPayloadKey = path
	if conf.Temporal.WorkerPayloadSince == "" && !m.Since.IsZero() {
		conf.Temporal.WorkerPayloadSince = m.Since.Format(time.RFC3339)
	}
	return nil
}

// workerConf returns the config of the n-th worker. Only the first gets ports and
// addresses.
func (s *supervisor) workerConf(conf config.Config, n int) config.Config {
	if n > 0 {
		conf.API.Listen, conf.API.Address, conf.API.CodecListen, conf.Metrics.Listen = "", "", "", ""
		conf.Console = config.Console{Lifetime: conf.Console.Lifetime}
		if conf.Identity != "" {
			conf.Identity += nth(n)
		}
	}
	if conf.API.Listen == "" {
		conf.API.Listen = "unix://" + s.at.socket(n)
	}
	// The state folder holds every key. The user's config file names others.
	conf.Hosts.DenyRead = append(slices.Clone(conf.Hosts.DenyRead), string(s.at))
	if file := s.opts.Config.Path(); file != "" {
		conf.Hosts.DenyRead = append(conf.Hosts.DenyRead, file)
	}
	return conf
}

func workerName(n int) string { return "worker" + nth(n) }

// supervise runs the children. It stops the workers before the server.
func (s *supervisor) supervise(ctx context.Context) error {
	serverCtx, stopServer := context.WithCancel(context.WithoutCancel(ctx))
	workerCtx, stopWorkers := context.WithCancel(ctx)
	defer stopServer()
	defer stopWorkers()
	// From the beginning: a server that is long in starting must not be late for its own
	// certificate.
	renewing, stopRenewing := context.WithCancel(context.WithoutCancel(ctx))
	var renewal sync.WaitGroup
	renewal.Go(func() { s.renewCertificates(renewing) })
	defer renewal.Wait()
	defer stopRenewing()
	server := &child{
		name: "temporal", path: s.opts.Devserver, env: childEnv(), log: s.at.in("logs", "temporal.log"), drain: serverDrain, logger: s.log,
		args: s.serverArgs, started: s.serverStarted, refusals: []int{2, 6},
	}
	serverDone := make(chan error, 1)
	go func() { serverDone <- server.run(serverCtx) }()
	select {
	case <-s.serverUp:
	case err := <-serverDone:
		return err
	case <-ctx.Done():
		stopServer()
		return <-serverDone
	}
	var wg sync.WaitGroup
	wg.Go(func() { s.announce(workerCtx) })
	workersDone := make(chan error, 1)
	go func() { workersDone <- s.runWorkers(workerCtx, stopWorkers) }()

	var err error
	select {
	case err = <-workersDone:
		stopWorkers()
	case err = <-serverDone:
		stopWorkers()
		err = errors.Join(err, <-workersDone)
		wg.Wait()
		return err
	}
	wg.Wait()
	stopServer()
	return errors.Join(err, <-serverDone)
}

// runWorkers runs the workers until ctx ends or one refuses to run.
func (s *supervisor) runWorkers(ctx context.Context, stop func()) error {
	var wg sync.WaitGroup
	errs := make([]error, s.opts.Workers)
	for n := range errs {
		name := workerName(n)
		worker := &child{
			name: name, path: s.opts.Worker, env: childEnv(), log: s.at.in("logs", name+".log"), drain: s.conf[n].Limits.Drain + 10*time.Second, logger: s.log,
			args:    func() []string { return []string{"--config", s.at.config(n), "--takeover", s.at.in("takeover")} },
			started: func(pid int, _ io.Reader) { s.started(name, pid) }, refusals: []int{2, 4},
		}
		wg.Go(func() {
			if errs[n] = worker.run(ctx); errs[n] != nil {
				stop()
			}
		})
	}
	if len(errs) == 0 {
		<-ctx.Done()
	}
	wg.Wait()
	return errors.Join(errs...)
}

func (s *supervisor) serverArgs() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	args := []string{"server", "start-dev", "--ip", "127.0.0.1",
		"--port", strconv.Itoa(s.ports.Frontend), "--ui-port", strconv.Itoa(s.ports.UI),
		"--db-filename", s.at.in("temporal.db"), "--log-level", "warn"}
	return append(args, s.accessArgs()...)
}

func (s *supervisor) serverStarted(pid int, stdout io.Reader) {
	s.started("temporal", pid)
	line, err := bufio.NewReader(stdout).ReadBytes('\n')
	if err != nil {
		return // the server died; run reports this
	}
	var t Temporal
	if err := json.Unmarshal(line, &t); err != nil {
		s.log.Error("the server's first line cannot be read", "line", string(line), "err", err)
		return
	}
	t.PID = pid
	s.mu.Lock()
	defer s.mu.Unlock()
	s.info.Temporal = t
	s.ports.Frontend, s.ports.UI = portOf(t.Address), portOf(t.UI)
	if err := s.at.remember(s.ports); err != nil {
		s.log.Error("the ports cannot be remembered", "err", err)
	}
	s.info.CodecEndpoint = s.codecEndpoint(t.UI)
	if err := s.cliConfig(t); err != nil {
		s.log.Error("Temporal's own programs cannot reach the stack", "err", err)
	}
	s.once.Do(func() {
		for n := range s.conf {
			if err := s.at.workerConfig(n, &s.conf[n], t.Address, t.Namespace); err != nil {
				s.log.Error("the worker's config cannot be written", "err", err)
			}
		}
		close(s.serverUp)
	})
	s.write()
}

func portOf(address string) int {
	if i := len("http://"); len(address) > i && address[:i] == "http://" {
		address = address[i:]
	}
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return 0
	}
	n, _ := strconv.Atoi(port) // with 0, the next start chooses a new port
	return n
}

func (s *supervisor) started(name string, pid int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.children[name] = Process{Name: name, PID: pid, Started: startedAt(pid)}
	if name == "temporal" {
		s.info.Temporal.PID = pid
	}
	for n := range s.info.Workers {
		if w := &s.info.Workers[n]; w.Name == name {
			w.PID = pid
		}
	}
	s.write()
}

// write replaces stack.json. The caller holds mu.
func (s *supervisor) write() {
	names := []string{"temporal"}
	for _, w := range s.info.Workers {
		names = append(names, w.Name)
	}
	s.info.Children = s.info.Children[:0]
	for _, name := range names {
		if p, ok := s.children[name]; ok {
			s.info.Children = append(s.info.Children, p)
		}
	}
	if err := writeJSON(s.at.in("stack.json"), s.info); err != nil {
		s.log.Error("stack.json cannot be written", "err", err)
	}
}

// announce keeps the workers in stack.json current, and calls Ready when all are ready.
func (s *supervisor) announce(ctx context.Context) {
	asks := make([]*api.Client, s.opts.Workers)
	for n := range asks {
		address := s.conf[n].API.Address
		if address == "" {
			address = s.conf[n].API.Listen
		}
		c, err := api.Connect(address, s.conf[n].API, proofOf(&s.conf[n]))
		if err != nil {
			s.log.Error("the worker's API cannot be asked", "worker", workerName(n), "err", err)
			return
		}
		defer c.Close()
		asks[n] = c
	}
	told, known := false, make([]int, len(asks))
	for ; ctx.Err() == nil; pause(ctx, 100*time.Millisecond) {
		ready := 0
		for n, c := range asks {
			known[n] = s.look(ctx, n, c, known[n])
			if known[n] > 0 {
				ready++
			}
		}
		if !told && ready == len(asks) {
			told = true
			s.mu.Lock()
			info := s.info
			info.Workers, info.Children = slices.Clone(info.Workers), slices.Clone(info.Children)
			s.mu.Unlock()
			s.opts.Ready(info)
		}
	}
}

// proofOf is what the supervisor shows the API of a worker that it starts.
func proofOf(conf *config.Config) api.Proof {
	if conf.Authority != config.AuthorityRequired || conf.WorkerKey == "" {
		return api.Proof{}
	}
	return api.ProofOfWorker(conf.WorkerKey)
}

// look asks the n-th worker for its status, unless that of its current process is known,
// and returns the pid of the process whose status is known.
func (s *supervisor) look(ctx context.Context, n int, c *api.Client, known int) int {
	s.mu.Lock()
	pid := s.info.Workers[n].PID
	s.mu.Unlock()
	if pid == known {
		return known
	}
	st, err := askStatus(ctx, c)
	if err != nil || !st.Ready || st.PID != pid {
		return known
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.info.Workers[n] = Worker{Name: workerName(n), Identity: st.Identity, PID: st.PID, API: st.API, TaskQueues: st.TaskQueues, Version: st.Version, Codex: st.Codex}
	s.info.Store = Store{URL: st.Store.URL, ID: st.Store.ID}
	s.write()
	return pid
}

func askStatus(ctx context.Context, c *api.Client) (api.Status, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	return c.Status(ctx)
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// released is how the file of the running program is called where a release is installed.
const released = "fairlead"

// Find returns the path of one of our programs: in $FAIRLEAD_LIBEXEC or, if unset, beside
// the running program. A release has them as fairlead-worker and so on: in a folder such as
// /usr/local/bin, worker may be anybody's.
func Find(name string) (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	if real, err := filepath.EvalSymlinks(self); err == nil {
		self = real
	}
	if filepath.Base(self) == released {
		name = released + "-" + name
	}
	dir := os.Getenv("FAIRLEAD_LIBEXEC")
	if dir == "" {
		dir = filepath.Dir(self)
	}
	path := filepath.Join(dir, name)
	if _, err := os.Stat(path); err != nil {
		return path, fmt.Errorf("find %s: %w", name, err)
	}
	return path, nil
}
