package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/interceptor"
	temporallog "go.temporal.io/sdk/log"
	"go.temporal.io/sdk/worker"

	"fairlead.dev/fairlead/activities"
	"fairlead.dev/fairlead/activities/audits"
	"fairlead.dev/fairlead/activities/batches"
	"fairlead.dev/fairlead/activities/codexpkg"
	"fairlead.dev/fairlead/activities/site"
	"fairlead.dev/fairlead/cmd/internal/dial"
	"fairlead.dev/fairlead/cmd/internal/traces"
	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/internal/api"
	"fairlead.dev/fairlead/internal/authority"
	"fairlead.dev/fairlead/internal/config"
	"fairlead.dev/fairlead/internal/console"
	"fairlead.dev/fairlead/internal/owned"
	"fairlead.dev/fairlead/internal/passkey"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/internal/spend"
	"fairlead.dev/fairlead/internal/store"
	"fairlead.dev/fairlead/internal/version"
	"fairlead.dev/fairlead/snapshots/chunks"
	"fairlead.dev/fairlead/workflows"
	"fairlead.dev/fairlead/workflows/newer"
)

// throttle is the longest pause between heartbeats that reach the server. The SDK's 60 s
// are too long for the timeouts of pumps.
const throttle = 4 * time.Second

// stuck bounds a workflow's computation without a pause. On a crowded machine a thread may
// wait longer than the SDK's second, and then the task fails and is repeated.
const stuck = 5 * time.Second

// spansWait bounds sending the last spans.
const spansWait = 3 * time.Second

// serve runs the worker until ctx ends. unlisten restores the default handling of signals,
// so that a second signal ends a drain. below is the folder of --takeover, or empty. With
// apiOnly it runs no activities and no workflows.
func serve(ctx context.Context, unlisten func(), conf *config.Config, below string, apiOnly bool, log *slog.Logger) error {
	metrics, err := serveMetrics(conf.Metrics, log)
	if err != nil {
		return err
	}
	defer metrics.Close()
	metrics.sdk()
	spans, err := traces.Open(ctx, conf.Traces, "fairlead-worker", log)
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), spansWait)
		defer cancel()
		spans.Close(ctx)
	}()
	changing := newCredentials(log)
	metrics.shared.registry.MustRegister(changing)
	blobs, err := openStore(ctx, conf, metrics.stored(), log)
	if err != nil {
		return err
	}
	defer blobs.Close()
	who := &presence{status: api.Status{
		PID: os.Getpid(), Version: version.String(), Codex: conf.Codex.Version, Zone: conf.Zone,
		TaskQueues: []string{protocol.TaskQueueOf(conf.Zone)}, Features: protocol.Features(),
		Store: api.StoreInfo{URL: conf.Store.URL, ID: blobs.ID()}, Recipients: blobs.Recipients(),
		StartedAt: time.Now().UTC(), Waits: "Temporal",
	}}
	changing.keep("store.identity", func(ctx context.Context) error {
		err := renewStore(ctx, conf, blobs)
		who.change(func(s *api.Status) { s.Recipients = blobs.Recipients() })
		return err
	}, conf.Store.Identity)
	endLooks := changing.start(ctx)
	defer endLooks()
	metrics.health.of(who.get)
	metrics.runs(version.String(), conf.Codex.Version, protocol.ZoneOf(protocol.TaskQueueOf(conf.Zone)))
	metrics.watch("fairlead_ready", func() float64 {
		if who.get().Ready {
			return 1
		}
		return 0
	})
	keeper, err := keeperOf(ctx, conf, blobs, log)
	if err != nil {
		return err
	}
	revoked, err := revokedOf(ctx, conf, log)
	if err != nil {
		return err
	}
	hub := api.NewHub(log)
	metrics.watch("fairlead_live_topics", func() float64 { return float64(hub.Topics()) })
	temporal := &lateClient{zone: conf.Zone}
	secrets, err := readAPISecrets(conf)
	if err != nil {
		return err
	}
	opts := secrets.options(conf)
	refusals := audits.NewRefusals(blobs, log)
	if err := keepRefusals(refusals, blobs.ID(), conf, log); err != nil {
		return err
	}
	ends := recordRefusals(ctx, refusals)
	defer ends()
	opts.Record, opts.RecordStranger = refusals.Refused, refusals.RefusedStranger
	// One chunk store, so that all share its cache of the index.
	chunks := chunks.Open(blobs, chunks.Options{Logger: log})
	works := &lateWorkspaces{}
	opts.Workspaces = works
	hosts := &lateHosts{zone: conf.Zone, temporal: temporal}
	opts.Hosts = hosts
	status := func() api.Status {
		st := who.get()
		st.Audit = refusals.Newest()
		return st
	}
	opts.Store, opts.Chunks, opts.Hub, opts.Sessions, opts.Seeds, opts.Status, opts.Logger = blobs, chunks, hub, temporal, temporal, status, log
	if keeper != nil {
		opts.Authority, opts.Objects = keeper, temporal
		opts.Status = func() api.Status {
			st, standing := status(), keeper.Standing()
			st.Access = &standing
			return st
		}
		metrics.watch("fairlead_access_file_broken", func() float64 {
			if keeper.Standing().Broken != "" {
				return 1
			}
			return 0
		})
	}
	offerTokens(ctx, &opts, conf, keeper, blobs, log)
	keys := passkey.Open(blobs, log)
	go keys.Watch(ctx)
	if keeper != nil {
		keeper.KnowPasskeys(keys)
	}
	closeLogin, err := offerLogin(&opts, conf, keeper, log)
	if err != nil {
		return err
	}
	defer closeLogin()
	programs, open, err := offerPrograms(ctx, &opts, conf, keys, log)
	if err != nil {
		return err
	}
	rules, err := notifyOf(conf, metrics, log)
	if err != nil {
		return err
	}
	chat := slackOf(&opts, rules, programs, open, blobs, log)
	server, err := api.Serve(opts)
	if err != nil {
		return err
	}
	defer server.Close()
	secrets.keep(changing, conf)
	closeSlack := chat.run(ctx, server)
	defer closeSlack()
	closeConsole, err := serveConsole(ctx, conf, server, programs, open, blobs, keys, changing, log)
	if err != nil {
		return err
	}
	defer closeConsole()
	address := conf.API.Address
	if address == "" {
		address = server.Address()
	}
	identity := api.Identity{Name: workerName(conf), PID: os.Getpid(), API: address}
	who.change(func(s *api.Status) { s.Identity, s.API = identity.String(), address })
	log = log.With("worker", identity.Name)

	c, target, err := connect(ctx, conf, identity, metrics, spans, log)
	if err != nil {
		return err
	}
	codec := target.Codec
	defer c.Close()
	if err := hasAttributes(ctx, c, target.Namespace, log); err != nil {
		return err
	}
	if err := hasDeployments(ctx, c, conf.Deployment, log); err != nil {
		return err
	}
	temporal.set(c)
	forPrograms, theirs, err := connectPrograms(ctx, conf, c, programs, spans, log)
	if err != nil {
		return err
	}
	defer forPrograms.Close()
	keepTemporal(changing, conf, target, theirs, func() {
		keyID, _ := codec.Encrypts()
		who.change(func(s *api.Status) { s.PayloadKey = keyID })
	})
	waitFleet := metrics.ofFleet(ctx, conf.Metrics, programs.Counts, log)
	defer waitFleet()
	after := newSuccessor(below, log)
	defer after.Close()
	after.watch(c, target.Namespace, identity.String())
	namespace, err := useStore(ctx, c, target.Namespace, blobs, log)
	if err != nil {
		return err
	}
	if err := hasPayloadKey(ctx, c, codec, target.Namespace, conf.Zone, log); err != nil {
		return err
	}
	endpoint, err := serveCodec(conf, secrets, codec, log)
	if err != nil {
		// Sessions do not need the endpoint, and `ctl doctor` reports that it is missing.
		log.Error("no codec endpoint for Temporal's UI", "err", err)
	}
	defer endpoint.Close()
	keyID, _ := codec.Encrypts()
	who.change(func(s *api.Status) { s.PayloadKey, s.CodecEndpoint = keyID, endpoint.url })

	pool := hostexec.NewPool(hostexec.PoolOptions{
		Logger: log, Agent: os.Getenv("SSH_AUTH_SOCK"), MaxConnsPerHost: conf.Limits.ConnectionsPerHost, Dialed: metrics.dialed(), Began: traces.Ran,
	})
	defer pool.Close()
	hosts.pool.Store(pool)
	metrics.watch("fairlead_ssh_connections", func() float64 { return float64(pool.Connections()) })
	private := append(append(conf.Private(), runtimeDir()), loginFolders()...)
	if state := stateDir(conf); state != "" {
		private = append(private, state)
	}
	if agent := os.Getenv("SSH_AUTH_SOCK"); filepath.IsAbs(agent) {
		private = append(private, agent)
	}
	toolActivities, err := activitiesOf(conf)
	if err != nil {
		return err
	}
	if rules != nil {
		private = append(private, rules.Current().Private()...)
	}
	wayOut, nearby, err := conf.Egress.Rules()
	if err != nil {
		return fmt.Errorf("egress: %w", err)
	}
	models := newTariff(conf, refusals.Refused, log)
	changing.keep("models", models.read, conf.Path())
	if conf.Path() != "" { // the file may have changed since it was read first
		if err := models.read(ctx); err != nil {
			log.Warn("the configuration cannot be read again", "error", err)
		}
	}
	spending := spend.NewLedger(blobs, log)
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), giveBackWait)
		defer cancel()
		spending.Close(ctx)
	}()
	set := activities.New(site.Deps{
		Egress: site.Egress{Allow: wayOut, Private: nearby}, Carried: metrics.carried(),
		Spending: spending, Tariff: models.current, Stranger: refusals.RefusedHost, Unreported: refusals.Refused, Bodies: site.BodyLimits{Keep: conf.Models.Bodies.Keep, Bytes: conf.Models.Bodies.Bytes, SessionBytes: conf.Models.Bodies.SessionBytes},
		Pool: pool, Notify: rules, Looks: console.NewLooking(blobs).Looks, Posted: chat.posted(), Store: blobs, Chunks: chunks, Live: hub, Codex: codexpkg.NewCodexSource(append([]string{conf.Codex.Source}, conf.Codex.Platforms...)...), AnyVersion: conf.Codex.AnyVersion,
		APIAddress: address, Temporal: c, Zone: conf.Zone, Namespace: namespace, WatchEvery: conf.Limits.Watch, Logger: log, Lag: metrics.lag(), Asked: metrics.asked(), MaxLine: conf.Limits.Line,
		TokenEndpoint: unlessOwn(conf.Seeds.TokenEndpoint, config.TokenEndpoint), Issuer: unlessOwn(conf.Seeds.Issuer, config.Issuer), UsageEndpoint: unlessOwn(conf.Seeds.UsageEndpoint, config.UsageEndpoint), Unprotected: conf.Seeds.Unprotected, Credentials: conf.Seeds.Credentials, Private: private,
		Bounds: boundsOf(conf), Instructions: conf.Instructions, ToolTargets: targetsOf(conf), ToolActivities: toolActivities,
		MayRead:   readsOf(keeper, temporal),
		Judge:     judgeOf(keeper),
		Deliver:   site.DeliverLimits{MaxBytes: conf.Deliver.MaxBytes, SessionBytes: conf.Deliver.SessionBytes, SessionCalls: conf.Deliver.SessionCalls},
		Snapshots: site.SnapshotLimits{Keep: conf.Snapshots.Keep, MaxAge: conf.Snapshots.MaxAge, MaxBytes: conf.Snapshots.MaxBytes},
	})

	works.set(set.Workfolders())

	if apiOnly {
		who.change(func(s *api.Status) { s.Ready, s.Waits, s.TaskQueues = true, "", []string{} })
		log.Info("api ready", "api", address, "store", blobs.ID(), "version", version.String())
		<-ctx.Done()
		return nil
	}
	fatal := make(chan error, 1)
	ears, err := listens(ctx, c, target.Namespace, log)
	if err != nil {
		return err
	}
	leaves := newer.Interceptor(newer.Options{Features: protocol.Features(), Logger: log, Metrics: metrics})
	divided, tuner, err := slotsOf(conf.Limits, metrics)
	if err != nil {
		return err
	}
	worker.SetStickyWorkflowCacheSize(conf.Limits.StickyCache)
	w := worker.New(c, protocol.TaskQueueOf(conf.Zone), worker.Options{
		Identity:                         identity.String(),
		Tuner:                            tuner,
		DeploymentOptions:                deploymentOf(conf.Deployment),
		WorkflowTaskPollerBehavior:       worker.NewPollerBehaviorAutoscaling(worker.PollerBehaviorAutoscalingOptions{InitialNumberOfPollers: 4, MinimumNumberOfPollers: 2}),
		ActivityTaskPollerBehavior:       worker.NewPollerBehaviorAutoscaling(worker.PollerBehaviorAutoscalingOptions{InitialNumberOfPollers: 4, MinimumNumberOfPollers: 1}),
		MaxHeartbeatThrottleInterval:     throttle,
		DefaultHeartbeatThrottleInterval: throttle,
		WorkerStopTimeout:                conf.Limits.Drain,
		DeadlockDetectionTimeout:         stuck,
		Interceptors:                     append([]interceptor.WorkerInterceptor{authority.Interceptor(keeper, authority.Options{Refused: refusals.Refused, Store: audits.Soon(blobs, log), Revoked: revoked, Passkeys: keys, Leave: leaves.Leave}), leaves, divided.Interceptor(), &activities.Meter{Begin: metrics.meter()}, &activities.Beats{}, &activities.InProgress{Begin: after.begin}, set.Floods(), open.Interceptor()}, ears...),
		OnFatalError: func(err error) {
			select {
			case fatal <- err:
			default:
			}
		},
	})
	workflows.Register(w)
	set.Register(w)
	// Sessions ask the pool for hosts.
	if err := ensurePool(ctx, c, conf.Zone, log); err != nil {
		return err
	}
	if err := ensureOutbox(ctx, c, conf, log); err != nil {
		return err
	}
	if err := w.Start(); err != nil {
		return fmt.Errorf("start the worker: %w", err)
	}
	defer func() {
		unlisten()
		w.Stop()
		ctx, cancel := context.WithTimeout(context.Background(), giveBackWait)
		defer cancel()
		set.CloseGates(ctx)
	}()
	go watchDeployment(ctx, c, target.Namespace, conf.Deployment, log)
	if err := rebindSchedules(ctx, c, codec, log); err != nil {
		if ctx.Err() != nil {
			return err
		}
		log.Error("schedules of an older version are not looked at", "err", err)
	}
	if err := ensureMaintenance(ctx, c, codec, conf, log); err != nil {
		return err
	}
	if since, err := conf.RequiredSince(); keeper != nil && err == nil {
		go func() {
			if err := renewOlder(ctx, c, since, log); err != nil && ctx.Err() == nil {
				log.Error("workflows that began under older rules are not asked to continue as new: they take unsigned signals", "err", err)
			}
		}()
	}
	who.change(func(s *api.Status) { s.Ready, s.Waits = true, "" })
	log.Info("worker ready", "task_queue", protocol.TaskQueueOf(conf.Zone), "api", address, "store", blobs.ID(), "version", version.String())

	select {
	case <-ctx.Done():
		log.Info("worker drains", "within", conf.Limits.Drain.String())
		who.change(func(s *api.Status) { s.Ready, s.Waits = false, "the end of its running work" })
		return nil
	case err := <-fatal:
		return fmt.Errorf("poll Temporal: %w", err)
	}
}

// unlessOwn returns "" for codex's own default, so that the login's own endpoint is used.
func unlessOwn(set, own string) string {
	if set == own {
		return ""
	}
	return set
}

type presence struct {
	mu     sync.Mutex
	status api.Status
}

func (p *presence) get() api.Status {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.status.Now = time.Now().UTC()
	return p.status
}

func (p *presence) change(f func(*api.Status)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f(&p.status)
}

func workerName(conf *config.Config) string {
	if conf.Identity != "" {
		return conf.Identity
	}
	h, err := os.Hostname()
	if err != nil {
		return "worker"
	}
	return h
}

// openStore waits until the store can be reached. asked is told how each request to it ends.
func openStore(ctx context.Context, conf *config.Config, asked func(outcome string), log *slog.Logger) (*store.Store, error) {
	to, ids, err := storeKeys(conf)
	if err != nil {
		return nil, err
	}
	var blobs *store.Store
	err = patiently(ctx, log, "store", func(ctx context.Context) error {
		blobs, err = store.Open(ctx, store.Options{URL: conf.Store.URL, Recipients: to, Identities: ids, ID: conf.Store.ID, Logger: log, Asked: asked})
		if errors.Is(err, store.ErrUnreachable) {
			return err
		}
		return final(err)
	})
	if err != nil {
		return nil, fmt.Errorf("open the store %s: %w", conf.Store.URL, err)
	}
	if err := blobs.Exclusive(ctx); errors.Is(err, store.ErrNotExclusive) { // sessions do not need exclusive writes
		log.Error("no login will be refreshed by this worker", "err", err)
	}
	return blobs, nil
}

// useStore records that the namespace uses the store, before any session runs. Otherwise
// workers of other namespaces might delete what sessions need.
func useStore(ctx context.Context, c client.Client, name string, blobs *store.Store, log *slog.Logger) (id string, err error) {
	err = patiently(ctx, log, "the namespace and the store", func(ctx context.Context) error {
		if id, err = batches.NamespaceID(ctx, c, name); err != nil {
			return err
		}
		return owned.Use(ctx, blobs, id)
	})
	return id, err
}

func runtimeDir() string {
	if dir := os.Getenv("XDG_RUNTIME_DIR"); dir != "" {
		return filepath.Join(dir, "fairlead")
	}
	return filepath.Join(os.TempDir(), fmt.Sprintf("fairlead-%d", os.Getuid()))
}

// connect waits for Temporal and the namespace.
func connect(ctx context.Context, conf *config.Config, identity api.Identity, metrics *metrics, spans *traces.Traces, log *slog.Logger) (client.Client, *dial.Target, error) {
	opts, err := target(conf)
	if err != nil {
		return nil, nil, err
	}
	marks, err := markedBy(conf)
	if err != nil {
		return nil, nil, err
	}
	if _, encrypts := opts.Codec.Encrypts(); marks.Required && !encrypts {
		return nil, nil, errors.New("authority: required needs encrypted payloads: set temporal.payload_key in the config")
	}
	opts.ForWorkers(marks)
	opts.Identity = identity.String()
	opts.Logger = temporallog.NewStructuredLogger(log)
	opts.MetricsHandler = metrics
	signs, err := senderOf(conf)
	if err != nil {
		return nil, nil, err
	}
	opts.Interceptors = append(append(spans.Interceptors(), signs...), opts.Interceptors...) // before they are bound to their place
	var c client.Client
	err = patiently(ctx, log.With("address", opts.HostPort, "namespace", opts.Namespace), "Temporal", func(ctx context.Context) error {
		tried, err := client.DialContext(ctx, opts.Options)
		if err != nil {
			return err
		}
		if err := hasNamespace(ctx, tried, opts.Namespace); err != nil {
			tried.Close()
			return err
		}
		c = tried
		return nil
	})
	return c, opts, err
}
