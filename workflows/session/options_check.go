package session

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"go.temporal.io/sdk/workflow"

	"fairlead.dev/fairlead/activities/pumps"
	"fairlead.dev/fairlead/internal/egress/rule"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/internal/kit"
	"fairlead.dev/fairlead/workflows/internal/lease"
	"fairlead.dev/fairlead/workflows/internal/ruling"
)

const (
	// maxInline bounds one message, and maxTexts all messages that are queued or on their
	// way, in bytes of JSON (a character may take six).
	maxInline = 256 << 10
	maxTexts  = 768 << 10

	// unusedFor is how long a session that closes after its first turn waits for that
	// turn's message.
	unusedFor = 10 * time.Minute

	// LostAfter is the default time after which an unreachable host is lost. A reboot takes
	// about that long.
	LostAfter = 5 * time.Minute
)

// check returns the options with defaults, or refuses the input.
func (in Input) check(ctx workflow.Context, mostOften time.Duration) (Options, error) {
	opt, err := in.Options.withDefaults(mostOften)
	if err == nil && in.Carry == nil { // a continued session declines everything if this version cannot read its policy
		err = ruling.CheckPolicy(opt.Policy)
	}
	switch id := workflow.GetInfo(ctx).WorkflowExecution.ID; {
	case err != nil:
	case !protocol.NamePattern.MatchString(in.ID):
		err = fmt.Errorf("id %q: use a-z, 0-9, dot, dash, underscore; at most 63, the first a letter or a digit", kit.Cut(in.ID, kit.MaxWord))
	case id != protocol.SessionID(in.ID):
		// The id identifies the session's leases and folders.
		err = fmt.Errorf("its workflow id is %q and must be %q", kit.Cut(id, kit.MaxWord), protocol.SessionID(in.ID))
	}
	if err != nil {
		return opt, kit.Refuse(protocol.RefusedBadInput, "start session %s: %v", kit.Cut(in.ID, kit.MaxWord), err)
	}
	return opt, nil
}

// Check returns why a session would refuse these options.
func (o Options) Check() error {
	o, err := o.withDefaults(kit.MostOften)
	if err != nil {
		return err
	}
	return ruling.CheckPolicy(o.Policy)
}

func (o Options) withDefaults(mostOften time.Duration) (Options, error) {
	if o.Sandbox == "" && o.Confine.Profile != "" {
		o.Sandbox = protocol.ByProfile
	}
	if o.Sandbox == "" {
		o.Sandbox = protocol.WorkspaceWrite
	}
	if o.ApprovalPolicy == "" {
		o.ApprovalPolicy = "on-request"
	}
	if o.Expiry == 0 {
		o.Expiry = 24 * time.Hour
	}
	if o.TurnTimeout == 0 {
		o.TurnTimeout = 24 * time.Hour
	}
	if o.OnInterrupt == "" {
		o.OnInterrupt = protocol.InterruptAsk
	}
	switch o.OnInterrupt {
	case protocol.InterruptAsk, protocol.InterruptContinue, protocol.InterruptFail:
	default:
		return o, fmt.Errorf("unknown on_interrupt %q: use ask, continue or fail", kit.Cut(o.OnInterrupt, kit.MaxWord))
	}
	if err := o.checkCredentials(); err != nil {
		return o, err
	}
	if err := o.checkSnapshots(mostOften); err != nil {
		return o, err
	}
	if err := (lease.Acquire{Select: o.Select, Rather: o.Rather, Tenant: o.Tenant, Priority: o.Priority}).CheckWants(); err != nil {
		return o, err
	}
	if err := o.checkThread(); err != nil {
		return o, err
	}
	if err := kit.CheckOrigin(o.Origin); err != nil {
		return o, err
	}
	if err := o.checkFollowUps(); err != nil {
		return o, err
	}
	if err := o.checkChildren(); err != nil {
		return o, err
	}
	if err := o.checkWorkspace(); err != nil {
		return o, err
	}
	if err := checkWatchdogs(o.Watchdogs); err != nil {
		return o, err
	}
	if err := pumps.CheckTools(o.Tools); err != nil {
		return o, fmt.Errorf("tools: %w", err)
	}
	if o.Verdict && !slices.Contains(o.Tools, protocol.ToolDeliver) {
		return o, fmt.Errorf("deliver_verdict: the session does not offer the tool %s", protocol.ToolDeliver)
	}
	if err := o.checkSwitch(); err != nil {
		return o, err
	}
	if o.OnAuth == "" && o.Credentials == protocol.CredentialsBroker {
		o.OnAuth = protocol.AuthRetry
	}
	if !protocol.IsSandbox(o.Sandbox) {
		return o, fmt.Errorf("unknown sandbox %q: use read-only, workspace-write or danger-full-access", kit.Cut(o.Sandbox, kit.MaxWord))
	}
	if err := o.Confine.Check(o.Sandbox); err != nil {
		return o, err
	}
	if err := rule.CheckOptions(o.Egress, o.Credentials, o.Sandbox, o.Confine.Network); err != nil {
		return o, err
	}
	switch o.ApprovalPolicy {
	case "untrusted", "on-request", "never":
	default:
		return o, fmt.Errorf("unknown approval policy %q: use untrusted, on-request or never", kit.Cut(o.ApprovalPolicy, kit.MaxWord))
	}
	if o.Expiry < 0 || o.TurnTimeout < 0 || negative(o.Bounds) {
		return o, fmt.Errorf("durations and budgets must not be negative")
	}
	if err := checkMoney(o); err != nil {
		return o, err
	}
	for _, n := range []struct{ what, name string }{{"zone", o.Zone}, {"host", o.Host}, {"seed", o.Seed}, {"seed pool", o.SeedPool}} {
		if n.name != "" && !protocol.NamePattern.MatchString(n.name) {
			return o, fmt.Errorf("%s %q: use a-z, 0-9, dot, dash, underscore; at most 63, the first a letter or a digit", n.what, kit.Cut(n.name, kit.MaxWord))
		}
	}
	if o.Seed != "" && o.SeedPool != "" {
		return o, fmt.Errorf("both seed %s and seed pool %s are given: give only one", o.Seed, o.SeedPool)
	}
	labels := len(o.Labels)
	//workflowcheck:ignore // a sum does not depend on the order
	for k, v := range o.Labels {
		labels += len(k) + len(v)
	}
	if labels > kit.MaxPath {
		return o, fmt.Errorf("its labels take %d bytes, at most %d", labels, kit.MaxPath)
	}
	return o, kit.Short([]kit.Text{
		{What: "model", Is: o.Model, Max: kit.MaxWord}, {What: "effort", Is: o.Effort, Max: kit.MaxWord}, {What: "by", Is: o.By, Max: kit.MaxWord}, {What: "dir", Is: o.Dir, Max: kit.MaxPath}, {What: "notify", Is: o.Notify, Max: kit.MaxWord},
	})
}

// checkSnapshots also covers parking and lost hosts.
func (o *Options) checkSnapshots(mostOften time.Duration) error {
	sn := &o.Snapshot
	if sn.Work == "" {
		sn.Work = protocol.WorkFull
	}
	if sn.When == "" {
		sn.When = protocol.SnapshotTurn
	}
	if o.OnHostLost == "" {
		o.OnHostLost = protocol.HostLostWait
	}
	if o.LostAfter == 0 {
		o.LostAfter = LostAfter
	}
	for _, w := range []struct {
		what, is string
		of       []string
	}{
		{"snapshot.work", sn.Work, []string{protocol.WorkNone, protocol.WorkGit, protocol.WorkFull}},
		{"snapshot.when", sn.When, []string{protocol.SnapshotTurn, protocol.SnapshotClose, protocol.SnapshotOff}},
		{"on_host_lost", o.OnHostLost, []string{protocol.HostLostWait, protocol.HostLostMove}},
	} {
		if !slices.Contains(w.of, w.is) {
			return fmt.Errorf("unknown %s %q: use one of %s", w.what, kit.Cut(w.is, kit.MaxWord), strings.Join(w.of, ", "))
		}
	}
	excludes := 0
	for _, x := range sn.Exclude {
		excludes += len(x) + 1
	}
	switch {
	case excludes > kit.MaxPath:
		return fmt.Errorf("what snapshots exclude takes %d bytes, at most %d", excludes, kit.MaxPath)
	case o.ParkAfter < 0 || o.TTL < 0 || o.LostAfter < 0 || sn.Every < 0 || o.StartTimeout != nil && *o.StartTimeout < 0:
		return fmt.Errorf("durations must not be negative")
	case sn.Every > 0 && sn.Every < mostOften:
		return fmt.Errorf("a snapshot every %v is too often, at least %v", sn.Every, mostOften)
	case o.From != "" && len(o.From) > kit.MaxWord:
		return fmt.Errorf("from: the snapshot's name has %d bytes, at most %d", len(o.From), kit.MaxWord)
	case o.ParkAfter > 0 && sn.When == protocol.SnapshotOff:
		return fmt.Errorf("a session that takes no snapshots cannot park")
	case o.OnHostLost == protocol.HostLostMove && sn.When == protocol.SnapshotOff:
		return fmt.Errorf("a session that takes no snapshots cannot move")
	}
	return nil
}

func (o Options) checkCredentials() error {
	switch o.Credentials {
	case "", protocol.CredentialsPlanted:
	case protocol.CredentialsBroker:
		if o.Seed == "" && o.SeedPool == "" {
			return fmt.Errorf("credentials of a broker need a seed that is a ChatGPT login")
		}
	case protocol.CredentialsGateway:
		switch {
		case o.Seed == "" && o.SeedPool == "":
			return fmt.Errorf("the model gateway needs a seed with an API key or a model provider")
		case o.Host == protocol.LocalHost:
			return fmt.Errorf("the model gateway is for hosts that are reached by SSH, not for %s", o.Host)
		}
	default:
		return fmt.Errorf("unknown credentials %q: use planted, broker or gateway", kit.Cut(o.Credentials, kit.MaxWord))
	}
	switch o.OnAuth {
	case "", protocol.AuthRetry, protocol.AuthAsk:
		return nil
	}
	return fmt.Errorf("unknown on_auth %q: use retry or ask", kit.Cut(o.OnAuth, kit.MaxWord))
}
