package main

import (
	"context"
	"errors"
	"io"
	"path"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"
	enums "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"

	"fairlead.dev/fairlead/activities"
	"fairlead.dev/fairlead/internal/owned"
	"fairlead.dev/fairlead/workflows"
)

// startFlags holds the flags that set up a session.
type startFlags struct {
	host, seed, dir, model, effort string
	seedPool                       string
	sandbox, policy, zone, id      string
	onInterrupt, budget            string
	credentials, onAuth            string
	place                          placeFlags
	expiry, turnTimeout            time.Duration
	goOn                           goOnFlags
	judge                          judgeFlags
	confine                        confineFlags
	tools                          toolFlags
	thread                         threadFlags
	watch                          watchdogFlags
	work                           workspaceFlags
}

func (f *startFlags) add(c *cobra.Command, _ string) {
	fl := c.Flags()
	fl.StringVar(&f.host, "host", "", "`NAME` of the host; local is this machine")
	f.place.add(c)
	fl.StringVar(&f.seed, "seed", "", "`NAME` of the credentials")
	fl.StringVar(&f.seedPool, "seed-pool", "", "any healthy credentials of this `POOL`, those used least recently first")
	fl.StringVar(&f.dir, "dir", "", "work in `DIR` on the host instead of a fresh folder")
	fl.StringVar(&f.model, "model", "", "model")
	fl.StringVar(&f.effort, "effort", "", "reasoning effort")
	fl.StringVar(&f.sandbox, "sandbox", "workspace-write", "read-only, workspace-write or danger-full-access")
	fl.StringVar(&f.policy, "approval-policy", "on-request", "untrusted, on-request or never")
	fl.StringVar(&f.zone, "zone", "", "zone of the hosts")
	fl.StringVar(&f.id, "id", "", "the session's `ID` (default: a random one)")
	fl.DurationVar(&f.expiry, "approval-timeout", 24*time.Hour, "an approval that nobody decided counts as declined")
	fl.DurationVar(&f.turnTimeout, "turn-timeout", 24*time.Hour, "longest turn")
	fl.StringVar(&f.onInterrupt, "on-interrupt", "ask", "when codex's process dies in a turn: ask (wait for a message), continue (tell codex to go on) or fail")
	fl.StringVar(&f.credentials, "credentials", "planted", "planted (auth.json on the host) or broker (a ChatGPT login stays away from the host; codex gets short-lived access tokens)")
	fl.StringVar(&f.onAuth, "on-auth", "", "when a turn got no access token in time: retry (say the same once more if it began nothing; the default with a broker) or ask (wait for a message)")
	fl.StringVar(&f.budget, "budget", "", budgetHelp)
	f.judge.add(c)
	f.goOn.add(c)
	f.thread.add(c)
	f.confine.add(c)
	f.tools.add(c)
	f.watch.add(c)
	f.work.add(c)
}

func (f *startFlags) options() (workflows.SessionOptions, error) {
	opt := workflows.SessionOptions{
		Zone: f.zone, Host: f.host, Seed: f.seed, SeedPool: f.seedPool, Dir: f.dir, Model: f.model, Effort: f.effort,
		Sandbox: f.sandbox, ApprovalPolicy: f.policy, Expiry: f.expiry, TurnTimeout: f.turnTimeout, By: person(),
	}
	opt.OnInterrupt, opt.OnAuth = f.onInterrupt, f.onAuth
	if f.credentials != activities.CredentialsPlanted {
		opt.Credentials = f.credentials
	}
	if f.budget != "" {
		b, err := parseBudget(f.budget)
		if err != nil {
			return opt, err
		}
		if err := opt.SetBudget(b); err != nil {
			return opt, usage("--budget: %v", err)
		}
		f.watch.turnBound = b.TurnTimeout != ""
	}
	if isSnapshot(f.goOn.work) { // --snapshot with a snapshot's id is a start, not a policy for later snapshots
		f.work.snapshot, f.goOn.work = f.goOn.work, ""
	}
	if err := f.goOn.set(&opt); err != nil {
		return opt, err
	}
	if err := f.tools.set(&opt); err != nil {
		return opt, err
	}
	if err := f.thread.set(&opt); err != nil {
		return opt, err
	}
	if err := f.work.set(&opt); err != nil {
		return opt, err
	}
	if f.host != "" && len(f.place.labels)+len(f.place.prefer) > 0 {
		return opt, usage("--host and --label or --prefer: give one of them")
	}
	err := f.place.set(&opt)
	if err != nil {
		return opt, err
	}
	if f.host != "" {
		err = checkName("host name", f.host)
	}
	if err == nil && f.seed != "" {
		err = checkName("seed name", f.seed)
	}
	if err == nil && f.seedPool != "" {
		err = checkName("pool name", f.seedPool)
	}
	if err == nil && f.seed != "" && f.seedPool != "" {
		err = usage("--seed and --seed-pool: give one of them")
	}
	if err != nil {
		return opt, err
	}
	switch f.sandbox {
	case "read-only", "workspace-write", "danger-full-access":
	default:
		return opt, usage("--sandbox %q is none of read-only, workspace-write, danger-full-access", f.sandbox)
	}
	if err := f.confine.set(&opt); err != nil {
		return opt, err
	}
	switch f.policy {
	case "untrusted", "on-request", "never":
	default:
		return opt, usage("--approval-policy %q is none of untrusted, on-request, never", f.policy)
	}
	switch f.onInterrupt {
	case workflows.InterruptAsk, workflows.InterruptContinue, workflows.InterruptFail:
	default:
		return opt, usage("--on-interrupt %q is none of ask, continue, fail", f.onInterrupt)
	}
	switch f.credentials {
	case activities.CredentialsPlanted, activities.CredentialsBroker:
	default:
		return opt, usage("--credentials %q is none of planted, broker", f.credentials)
	}
	switch f.onAuth {
	case "", workflows.AuthRetry, workflows.AuthAsk:
	default:
		return opt, usage("--on-auth %q is none of retry, ask", f.onAuth)
	}
	if f.credentials == activities.CredentialsBroker && f.seed == "" {
		return opt, usage("--credentials broker needs a --seed that is a ChatGPT login")
	}
	if f.dir != "" && !path.IsAbs(f.dir) {
		return opt, usage("--dir %q is not an absolute path on the host", f.dir)
	}
	if f.expiry <= 0 || f.turnTimeout <= 0 {
		return opt, usage("--approval-timeout and --turn-timeout must be longer than nothing")
	}
	return opt, nil
}

// isSnapshot reports whether a word is the id of a snapshot.
func isSnapshot(word string) bool { return strings.Contains(word, ".snap-") }

// sessionOptions combines the flags and the config.
func (a *app) sessionOptions(f *startFlags) (workflows.SessionOptions, error) {
	opt, err := f.options()
	if err == nil {
		err = f.judge.set(a, &opt)
	}
	if err != nil {
		return opt, err
	}
	conf, err := a.config()
	if err != nil {
		return opt, err
	}
	if err := f.watch.set(&opt, conf.Timeouts); err != nil {
		return opt, err
	}
	return opt, startable(opt)
}

// startable returns the error with which the session's workflow would refuse these options.
// Without this check such a session would start and fail at once.
func startable(opt workflows.SessionOptions) error {
	if err := opt.Check(); err != nil {
		return usage("the session would be refused: %v", err).because(err)
	}
	return nil
}

func (f *startFlags) sessionID() (string, error) {
	if f.id == "" {
		return "s-" + randomID(), nil
	}
	return f.id, checkName("session id", f.id)
}

func runCommand(a *app) *cobra.Command {
	var f startFlags
	var with inputFlags
	var key keyFlags
	var keep, detach bool
	c := &cobra.Command{
		Use: "run PROMPT|-", Short: "start a session, run one turn, show it live, close", Args: cobra.ExactArgs(1),
		Long: `Starts a session, runs one turn and shows it as it goes; approvals are asked at the
terminal. Prints the final message and closes the session, unless --keep.`,
		Example: "  ctl run --host web-1 --seed team 'run the tests and mend what fails'\n  ctl run --host local --sandbox read-only - < question.txt\n  ctl run --host web-1 --image shot.png --file app.log 'why does it look like this?'\n  ctl run --host web-1 --output-schema answer.json -q 'which ports are open?' | jq .ports\n  ctl run --host web-1 --seed team --write /srv/cache --read /srv/data --network proxy.golang.org,sum.golang.org 'build it'",
		RunE: func(c *cobra.Command, args []string) error {
			text, err := a.prompt(args[0])
			if err != nil {
				return err
			}
			opt, err := a.sessionOptions(&f)
			if err != nil {
				return err
			}
			x, err := with.look()
			if err != nil {
				return err
			}
			x.work = &f.work
			opt.CloseAfter = !keep
			if opt.CloseAfter {
				if c.Flags().Changed("park-after") && opt.ParkAfter > 0 {
					return usage("--park-after is for a session that stays: give --keep, or leave it out")
				}
				opt.ParkAfter = 0
			}
			id, err := f.sessionID()
			if err != nil {
				return err
			}
			k, err := key.request(workflows.ClaimSession, f.id, "run", anybodys(opt), text, x.named())
			if err != nil {
				return err
			}
			return a.run(c.Context(), k.id(id), opt, text, x, detach, k)
		},
	}
	f.add(c, "")
	with.add(c, false)
	key.add(c, "session")
	c.Flags().BoolVar(&keep, "keep", false, "leave the session open")
	c.Flags().BoolVar(&detach, "detach", false, "print the session's id and leave it to itself")
	return c
}

func (a *app) run(ctx context.Context, id string, opt workflows.SessionOptions, text string, x extras, detach bool, k *keyed) error {
	t, err := a.temporal(ctx)
	if err != nil {
		return err
	}
	acc := workflows.MessageAccepted{Session: id, N: 1, MessageID: k.messageID()}
	there, err := k.look(ctx, t)
	switch {
	case err == nil && there:
		err = a.makeUp(ctx, t, &acc, text, x)
	case err == nil:
		acc, there, err = a.begin(ctx, t, id, opt, text, x, k)
	}
	if err != nil {
		return err
	}
	if detach {
		return a.print().show(k.shown(map[string]any{"id": id, "session": id, "n": acc.N, "message_id": acc.MessageID}, there), func(p *printer) { p.printf("%s\n", id) })
	}
	a.note("session %s", id)
	err = a.watchTurn(ctx, t, acc, 1)
	if code := exitOf(err); code == exitPerson || code == exitTimeout || errors.Is(err, errInterrupted) || !opt.CloseAfter {
		return err
	}
	if _, cerr := a.awaitClosed(ctx, t, id); cerr != nil && err == nil {
		return cerr
	}
	return err
}

// begin starts a session with its first message. there is true if the same request has
// already started it.
func (a *app) begin(ctx context.Context, t *temporal, id string, opt workflows.SessionOptions, text string, x extras, k *keyed) (acc workflows.MessageAccepted, there bool, err error) {
	if err := a.checkNames(ctx, t, opt); err != nil {
		return acc, false, err
	}
	folder := ofSession(id)
	m, err := a.message(ctx, t, folder, text, k.messageID())
	if err == nil {
		err = a.attach(ctx, t, folder, x, &m)
	}
	if err == nil && x.work != nil {
		err = x.work.send(ctx, a, t, id, "", &opt)
	}
	if err == nil {
		err = k.take(ctx, t, opt.Zone)
	}
	if err != nil {
		return acc, false, err
	}
	acc = workflows.MessageAccepted{Session: id, N: 1, MessageID: m.ID}
	start := sessionStart(id, opt)
	start.WorkflowExecutionErrorWhenAlreadyStarted = true
	k.mark(&start)
	doing := "start session " + id
	run, err := t.start(ctx, doing, start, workflows.TypeSession, workflows.SessionInput{ID: id, Options: opt, First: &m})
	if err == nil {
		return acc, false, t.taken(ctx, doing, run, acc)
	}
	there, err = k.ours(ctx, t, err)
	return acc, there, err
}

// checkNames refuses hosts, seeds, pools and zones that do not exist, before anything
// starts.
func (a *app) checkNames(ctx context.Context, t *temporal, opt workflows.SessionOptions) error {
	a.begins = true
	if err := startable(opt); err != nil { // checked again, because a restore takes over options from the snapshot
		return err
	}
	if err := t.knownZone(ctx, "find zone "+opt.Zone, opt.Zone); err != nil {
		return err
	}
	if opt.Host != "" {
		if _, err := t.host(ctx, "find host "+opt.Host, opt.Zone, opt.Host); err != nil {
			return err
		}
	}
	if err := a.canBePlaced(ctx, t, opt); err != nil {
		return err
	}
	if opt.Seed != "" {
		seed, err := t.seed(ctx, opt.Seed)
		if err != nil {
			return err
		}
		if opt.Credentials == activities.CredentialsBroker && seed.Kind != activities.KindChatGPT {
			return usage("seed %s is of kind %s: only a ChatGPT login has access tokens that a broker can give", opt.Seed, seed.Kind).
				hinted("leave --credentials broker out")
		}
	}
	if opt.SeedPool != "" {
		return t.seedPool(ctx, opt.SeedPool)
	}
	return nil
}

// seedPool checks that the pool exists and has a seed.
func (t *temporal) seedPool(ctx context.Context, name string) error {
	var v workflows.SeedPoolView
	err := t.ask(ctx, "find seed pool "+name, workflows.SeedPoolID(name), workflows.QuerySeedPool, &v)
	if exitOf(err) == exitNotFound || err == nil && len(v.Seeds) == 0 {
		err = notFound("find seed pool %s: no seed is in it", name).hinted("`ctl seed set NAME --pool %s` puts one in", name)
	}
	return err
}

func sessionStart(id string, opt workflows.SessionOptions) client.StartWorkflowOptions {
	return client.StartWorkflowOptions{
		ID: workflows.SessionID(id), TaskQueue: workflows.TaskQueueOf(opt.Zone),
		// An id is used once, so that transcripts of two sessions never mix.
		WorkflowIDReusePolicy:    enums.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE,
		WorkflowIDConflictPolicy: enums.WORKFLOW_ID_CONFLICT_POLICY_FAIL,
		StaticSummary:            "codex session " + id,
	}
}

// startSession starts a session without a message. there is true if the same request has
// already started it.
func (a *app) startSession(ctx context.Context, t *temporal, id string, opt workflows.SessionOptions, k *keyed) (there bool, err error) {
	if there, err := k.look(ctx, t); err != nil || there {
		return there, err
	}
	if err := a.checkNames(ctx, t, opt); err != nil {
		return false, err
	}
	if err := k.take(ctx, t, opt.Zone); err != nil {
		return false, err
	}
	start := sessionStart(id, opt)
	start.WorkflowExecutionErrorWhenAlreadyStarted = true
	k.mark(&start)
	_, err = t.start(ctx, "start session "+id, start, workflows.TypeSession, workflows.SessionInput{ID: id, Options: opt})
	return k.ours(ctx, t, err)
}

// prompt returns the argument, or standard input for "-".
func (a *app) prompt(arg string) (string, error) {
	text := arg
	if arg == "-" {
		data, err := io.ReadAll(io.LimitReader(a.in, 4*workflows.MaxChars+1))
		if err != nil {
			return "", failed("read the prompt from standard input: %v", err)
		}
		text = string(data)
	}
	n := utf8.RuneCountInString(text)
	switch {
	case n > workflows.MaxChars:
		return "", usage("the prompt has more than the %d characters that codex takes", workflows.MaxChars).
			hinted("put it into a file on the host and name the file")
	case strings.TrimSpace(text) == "":
		return "", usage("the prompt is empty").hinted("say what codex is to do")
	case !utf8.ValidString(text):
		return "", usage("the prompt is not UTF-8 text")
	}
	return text, nil
}

// ofSession returns the name of a new folder in the store for what belongs to a session.
func ofSession(id string) string {
	return owned.Owner{Kind: owned.Session, ID: id}.NewFolder()
}

// message returns a message with a text. A long text is first uploaded to the store, under
// folder.
func (a *app) message(ctx context.Context, t *temporal, folder, text, id string) (workflows.Message, error) {
	if id == "" {
		id = "m-" + randomID()
	}
	m := workflows.Message{ID: id, By: person()}
	if len(text) <= workflows.MaxText {
		m.Text = text
		return m, nil
	}
	worker, err := a.anyWorker(ctx, t)
	if err != nil {
		return m, err
	}
	stored, err := worker.PutMessage(ctx, folder, text)
	if err != nil {
		return m, apiFailure("keep the prompt", err)
	}
	m.Blob, m.Chars = stored.Blob, stored.Chars
	return m, nil
}
