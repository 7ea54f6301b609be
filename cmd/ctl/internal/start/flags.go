package start

import (
	"path"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"fairlead.dev/fairlead/cmd/ctl/internal/core"
	"fairlead.dev/fairlead/cmd/internal/flows"
	"fairlead.dev/fairlead/internal/budget"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/session"
)

// Flags set up a session.
type Flags struct {
	host, seed, dir, model, effort string
	seedPool                       string
	sandbox, policy, zone, ID      string
	onInterrupt, Budget            string
	credentials, onAuth            string
	place                          placeFlags
	expiry, turnTimeout            time.Duration
	GoOn                           goOnFlags
	judge                          judgeFlags
	confine                        confineFlags
	tools                          toolFlags
	thread                         threadFlags
	watch                          watchdogFlags
	Work                           WorkspaceFlags
	followUp, children             string
}

func (f *Flags) Add(c *cobra.Command, _ string) {
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
	fl.StringVar(&f.ID, "id", "", "the session's `ID` (default: a random one)")
	fl.DurationVar(&f.expiry, "approval-timeout", 24*time.Hour, "an approval that nobody decided counts as declined")
	fl.DurationVar(&f.turnTimeout, "turn-timeout", 24*time.Hour, "longest turn")
	fl.StringVar(&f.onInterrupt, "on-interrupt", "ask", "when codex's process dies in a turn: ask (wait for a message), continue (tell codex to go on) or fail")
	fl.StringVar(&f.credentials, "credentials", "", "planted (auth.json on the host), broker (a ChatGPT login stays away from the host; codex gets short-lived access tokens) or gateway (the host needs neither a key nor a way out; codex asks the worker for the model); default: as the seed says, or else the configuration of the workers, or else planted. A budget in money means gateway")
	fl.StringVar(&f.onAuth, "on-auth", "", "when a turn got no access token in time: retry (send the message again if the turn had no effect; the default with a broker) or ask (wait for a message)")
	fl.StringVar(&f.Budget, "budget", "", BudgetHelp)
	fl.StringVar(&f.followUp, "follow-up", "", "`FILE` (YAML) with rules for follow-ups: sessions that start from forks of this one after a number of turns or tool calls, or when files change")
	fl.StringVar(&f.children, "children", "", childrenHelp)
	f.judge.add(c)
	f.GoOn.add(c)
	f.thread.add(c)
	f.confine.add(c)
	f.tools.add(c)
	f.watch.add(c)
	f.Work.add(c)
}

func (f *Flags) options() (session.Options, error) {
	opt := session.Options{
		Zone: f.zone, Host: f.host, Seed: f.seed, SeedPool: f.seedPool, Dir: f.dir, Model: f.model, Effort: f.effort,
		Sandbox: f.sandbox, ApprovalPolicy: f.policy, Expiry: f.expiry, TurnTimeout: f.turnTimeout, By: core.Person(),
	}
	opt.OnInterrupt, opt.OnAuth = f.onInterrupt, f.onAuth
	opt.Credentials = f.credentials
	if f.Budget != "" {
		b, err := budget.Parse(f.Budget)
		if err != nil {
			return opt, err
		}
		if err := opt.SetBudget(b); err != nil {
			return opt, core.Usage("--budget: %v", err)
		}
		f.watch.turnBound = b.TurnTimeout != ""
	}
	opt.UseGateway()
	if IsSnapshot(f.GoOn.Work) { // start from that snapshot; otherwise it is the policy for later ones
		f.Work.snapshot, f.GoOn.Work = f.GoOn.Work, ""
	}
	if err := f.GoOn.set(&opt); err != nil {
		return opt, err
	}
	if err := f.tools.set(&opt); err != nil {
		return opt, err
	}
	if err := f.thread.set(&opt); err != nil {
		return opt, err
	}
	if err := f.Work.set(&opt); err != nil {
		return opt, err
	}
	if f.followUp != "" {
		rules, err := readFollowUps(f.followUp)
		if err != nil {
			return opt, err
		}
		opt.FollowUps = rules
	}
	if f.children != "" {
		may, err := parseChildren(f.children)
		if err != nil {
			return opt, err
		}
		opt.Children = may
	}
	if f.host != "" && len(f.place.labels)+len(f.place.prefer) > 0 {
		return opt, core.Usage("--host and --label or --prefer: give one of them")
	}
	err := f.place.set(&opt)
	if err != nil {
		return opt, err
	}
	if f.host != "" {
		err = core.CheckName("host name", f.host)
	}
	if err == nil && f.seed != "" {
		err = core.CheckName("seed name", f.seed)
	}
	if err == nil && f.seedPool != "" {
		err = core.CheckName("pool name", f.seedPool)
	}
	if err == nil && f.seed != "" && f.seedPool != "" {
		err = core.Usage("--seed and --seed-pool: give one of them")
	}
	if err != nil {
		return opt, err
	}
	if !protocol.IsSandbox(f.sandbox) || f.sandbox == protocol.ByProfile {
		return opt, core.Usage("--sandbox %q is not one of read-only, workspace-write, danger-full-access", f.sandbox)
	}
	if err := f.confine.set(&opt); err != nil {
		return opt, err
	}
	switch f.policy {
	case "untrusted", "on-request", "never":
	default:
		return opt, core.Usage("--approval-policy %q is not one of untrusted, on-request, never", f.policy)
	}
	switch f.onInterrupt {
	case protocol.InterruptAsk, protocol.InterruptContinue, protocol.InterruptFail:
	default:
		return opt, core.Usage("--on-interrupt %q is not one of ask, continue, fail", f.onInterrupt)
	}
	switch f.credentials {
	case "", protocol.CredentialsPlanted, protocol.CredentialsBroker, protocol.CredentialsGateway:
	default:
		return opt, core.Usage("--credentials %q is not one of planted, broker, gateway", f.credentials)
	}
	switch f.onAuth {
	case "", protocol.AuthRetry, protocol.AuthAsk:
	default:
		return opt, core.Usage("--on-auth %q is not one of retry, ask", f.onAuth)
	}
	if f.credentials == protocol.CredentialsBroker && f.seed == "" {
		return opt, core.Usage("--credentials broker needs a --seed that is a ChatGPT login")
	}
	if f.credentials == protocol.CredentialsGateway && f.seed == "" && f.seedPool == "" {
		return opt, core.Usage("--credentials gateway needs a --seed with an API key or a model provider")
	}
	if f.dir != "" && !path.IsAbs(f.dir) {
		return opt, core.Usage("--dir %q is not an absolute path on the host", f.dir)
	}
	if f.expiry <= 0 || f.turnTimeout <= 0 {
		return opt, core.Usage("--approval-timeout and --turn-timeout must be greater than 0")
	}
	return opt, nil
}

// IsSnapshot reports whether a word is the id of a snapshot.
func IsSnapshot(word string) bool { return strings.Contains(word, ".snap-") }

// Options combines flags and config.
func Options(a *core.App, f *Flags) (session.Options, error) {
	opt, err := f.options()
	if err == nil {
		err = f.judge.set(a, &opt)
	}
	if err != nil {
		return opt, err
	}
	conf, err := a.Config()
	if err != nil {
		return opt, err
	}
	if err := f.watch.set(&opt, conf.Timeouts); err != nil {
		return opt, err
	}
	return opt, flows.Startable(opt)
}

func (f *Flags) SessionID() (string, error) {
	if f.ID == "" {
		return "s-" + core.RandomID(), nil
	}
	return f.ID, core.CheckName("session id", f.ID)
}

// ChooseFlags are codex's settings in `session set`.
type ChooseFlags struct {
	model, effort, name string
	anyModel            bool
}

func (f *ChooseFlags) Add(c *cobra.Command) {
	c.Flags().StringVar(&f.model, "model", "", "`model` from the next turn on")
	c.Flags().StringVar(&f.effort, "effort", "", "reasoning `effort` from the next turn on")
	c.Flags().StringVar(&f.name, "name", "", "what people call the session; empty takes the `name` away")
	c.Flags().BoolVar(&f.anyModel, "any-model", false, "accept a model that codex does not list, for example one of your own provider")
}

// Set returns the settings; nil without a flag.
func (f *ChooseFlags) Set(c *cobra.Command) *protocol.Set {
	m := protocol.Set{By: core.Person(), Model: f.model, Effort: f.effort, AnyModel: f.anyModel}
	if c.Flags().Changed("name") {
		m.Name = &f.name
	}
	if m.Model == "" && m.Effort == "" && m.Name == nil {
		return nil
	}
	return &m
}
