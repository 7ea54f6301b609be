package apiflows

import (
	"context"
	"fmt"
	"time"

	"fairlead.dev/fairlead/activities"
	"fairlead.dev/fairlead/cmd/internal/flows"
	"fairlead.dev/fairlead/internal/errkind"
	"fairlead.dev/fairlead/internal/httpapi"
	"fairlead.dev/fairlead/internal/owned"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/internal/teamtool"
	"fairlead.dev/fairlead/workflows/session"
)

// Start implements httpapi.Sessions.
func (b *Backend) Start(ctx context.Context, key string, in httpapi.StartSession) (httpapi.Started, error) {
	opt, err := options(in)
	if err != nil {
		return httpapi.Started{}, err
	}
	token := takeToken(&in)
	k, err := flows.RequestOf(key, protocol.ClaimSession, in.ID, "start over HTTP", in)
	if err != nil {
		return httpapi.Started{}, err
	}
	if k != nil {
		k.Called = idempotencyKey
	}
	id := in.ID
	if id == "" {
		id = k.IDOr("s-" + protocol.RandomID())
	}
	out := httpapi.Started{ID: id}
	opt.By = b.by(ctx)
	input := session.NewInput(id, opt, nil)
	t, err := b.conn()
	if err != nil {
		return out, err
	}
	// Long texts are kept under names that a repetition makes, too.
	if in.Message != nil {
		m, err := b.message(ctx, id, k.MessageID(), *in.Message)
		if err != nil {
			return out, err
		}
		input.First, out.N, out.MessageID = &m, 1, m.ID
	}
	if err := b.keepAllGiven(ctx, owned.Owner{Kind: owned.Session, ID: id}, key, &input.Options); err != nil {
		return out, err
	}
	if token != "" {
		if input.Options.Workspace.Repo.Token, err = b.store.KeepToken(ctx, id, in.Repo.URL, token); err != nil {
			return out, err
		}
	}
	out.Existing, err = t.StartSession(ctx, id, input, k)
	return out, err
}

// keepAllGiven keeps the long texts of options in the store.
func (b *Backend) keepAllGiven(ctx context.Context, owner owned.Owner, request string, opt *session.Options) error {
	for what, g := range map[string]**protocol.GivenText{"instructions": &opt.Agents, "base": &opt.Base} {
		if err := b.keepGiven(ctx, owner, request+what, g); err != nil {
			return err
		}
	}
	g := opt.TeamTools
	if g == nil || len(g.Text) <= maxToolsInline {
		return nil
	}
	blob, err := b.store.KeepText(ctx, owner, request+"tools", g.Text)
	if err != nil {
		return err
	}
	kept := *g
	kept.Text, kept.Blob = "", blob
	opt.TeamTools = &kept
	return nil
}

// maxToolsInline bounds tools that are not put into the store: each pump gets them.
const maxToolsInline = 1 << 10

// keepGiven keeps long instructions in the store, for a request of an owner.
func (b *Backend) keepGiven(ctx context.Context, owner owned.Owner, request string, g **protocol.GivenText) error {
	if *g == nil || len((*g).Text) <= protocol.MaxGivenInline {
		return nil
	}
	blob, err := b.store.KeepText(ctx, owner, request, (*g).Text)
	if err != nil {
		return err
	}
	kept := **g
	kept.Text, kept.Blob = "", blob
	*g = &kept
	return nil
}

// message returns a message with an id, a random one by default. It keeps a long text in the
// store.
func (b *Backend) message(ctx context.Context, session, id string, in httpapi.NewMessage) (protocol.Message, error) {
	if id == "" {
		id = "m-" + protocol.RandomID()
	}
	return b.messageOf(ctx, owned.Owner{Kind: owned.Session, ID: session}, id, id, in)
}

// messageOf is message for a session, batch or schedule. A long text is kept for a request of
// the owner.
func (b *Backend) messageOf(ctx context.Context, owner owned.Owner, request, id string, in httpapi.NewMessage) (protocol.Message, error) {
	if err := activities.CheckInputs(in.Inputs); err != nil {
		return protocol.Message{}, errkind.Usage("inputs: %v", err).Hinted("POST /v1/inputs takes a file, and answers with what is to be here")
	}
	m := protocol.Message{ID: id, By: b.by(ctx), Inputs: in.Inputs, Mode: in.Mode, Turn: in.Turn, Model: in.Model, Effort: in.Effort, AnyModel: in.AnyModel}
	if len(in.Schema) > 0 {
		if len(in.Schema) > protocol.MaxSchemaInline {
			return m, errkind.Usage("output_schema: %d bytes, at most %d", len(in.Schema), protocol.MaxSchemaInline)
		}
		m.Schema = in.Schema
	}
	if len(in.Text) <= protocol.MaxText {
		m.Text = in.Text
		return m, nil
	}
	blob, err := b.store.KeepText(ctx, owner, request, in.Text)
	if err != nil {
		return m, err
	}
	m.Blob, m.Chars = blob, len([]rune(in.Text))
	return m, nil
}

// options returns the options of a session, which are checked.
func options(in httpapi.StartSession) (session.Options, error) {
	opt := session.Options{
		Zone: in.Zone, Host: in.Host, Rather: in.Prefer, Tenant: in.Tenant, Seed: in.Seed, SeedPool: in.SeedPool, Dir: in.Dir,
		Model: in.Model, Effort: in.Effort, Sandbox: in.Sandbox, ApprovalPolicy: in.ApprovalPolicy, Policy: in.Policy,
		OnInterrupt: in.OnInterrupt, OnLimit: in.OnLimit, OnHostLost: in.OnHostLost, Tools: in.Tools,
		Agents: protocol.Give(in.Instructions), Instructions: in.Developer, CloseAfter: in.CloseAfter,
		Verdict: in.Verdict, OnAuth: in.OnAuth, Base: protocol.Give(in.Base), Personality: in.Personality,
	}
	if s := in.Snapshot; s != nil {
		opt.Snapshot = protocol.SnapshotOptions{Work: s.Work, Exclude: s.Exclude, When: s.When}
		if err := duration("snapshot.every", s.Every, &opt.Snapshot.Every); err != nil {
			return opt, err
		}
	}
	if err := work(in, &opt); err != nil {
		return opt, err
	}
	if err := watches(in, &opt.Watchdogs); err != nil {
		return opt, err
	}
	for i, f := range in.FollowUps {
		rule, err := followUp(f)
		if err != nil {
			return opt, within(fmt.Sprintf("follow_ups[%d]", i), err)
		}
		opt.FollowUps = append(opt.FollowUps, rule)
	}
	if in.TeamTools != "" {
		if len(in.TeamTools) > protocol.MaxGiven {
			return opt, errkind.Usage("team_tools: %d bytes, at most %d", len(in.TeamTools), protocol.MaxGiven)
		}
		var err error
		if opt.TeamTools, err = teamtool.Parse([]byte(in.TeamTools)); err != nil {
			return opt, errkind.Usage("team_tools: %v", err).Hinted("docs/how-to/give-codex-tools-of-your-own.md shows such a file")
		}
	}
	if c := in.Children; c != nil {
		opt.Children = &protocol.Children{Max: c.Max, Depth: c.Depth, Hosts: c.Hosts, Seeds: c.Seeds, SeedPools: c.SeedPools, Models: c.Models, Keep: c.Keep}
	}
	if in.Priority != protocol.DefaultPriority {
		opt.Priority = in.Priority
	}
	opt.Credentials, opt.Egress = in.Credentials, in.Egress
	if in.Host != "" && len(in.Labels)+len(in.Prefer) > 0 {
		return opt, errkind.Usage("host and labels or prefer: give one of them")
	}
	if err := flows.SetLabels(&opt, in.Labels); err != nil {
		return opt, errkind.Usage("labels: %v", err)
	}
	for _, d := range []struct {
		field, text string
		to          *time.Duration
	}{{"approval_timeout", in.Expiry, &opt.Expiry}, {"turn_timeout", in.TurnTimeout, &opt.TurnTimeout}, {"park_after", in.ParkAfter, &opt.ParkAfter}, {"ttl", in.TTL, &opt.TTL}, {"lost_after", in.LostAfter, &opt.LostAfter}} {
		if err := duration(d.field, d.text, d.to); err != nil {
			return opt, err
		}
		if d.text != "" && *d.to <= 0 {
			return opt, errkind.Usage("%s must be greater than 0", d.field)
		}
	}
	if in.StartTimeout != "" {
		opt.StartTimeout = new(time.Duration)
		if err := duration("start_timeout", in.StartTimeout, opt.StartTimeout); err != nil {
			return opt, err
		}
	}
	if in.Budget != nil {
		if in.Budget.By != "" {
			return opt, errkind.Usage("budget.by: who asks is known from the request")
		}
		if err := opt.SetBudget(*in.Budget); err != nil {
			return opt, errkind.Usage("budget: %v", err)
		}
	}
	opt.UseGateway()
	for what, g := range map[string]*protocol.GivenText{"instructions": opt.Agents, "base_instructions": opt.Base} {
		if err := g.Check(what, nil); err != nil {
			return opt, errkind.Usage("%v", err)
		}
	}
	return opt, asFields(flows.Startable(opt))
}

// idempotencyKey is the name of a request's key in errors. The key itself is known to the
// caller only.
const idempotencyKey = "in Idempotency-Key"

func duration(field, text string, to *time.Duration) error {
	if text == "" {
		return nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return errkind.Usage("%s: %.40q is not a time such as 90m or 2h", field, text).Because(err)
	}
	*to = d
	return nil
}

// again binds a key to a request that is not a start. It returns the id under which Temporal
// takes the request once, or a random one without a key.
func (b *Backend) again(ctx context.Context, t *flows.Conn, key, kind, session, doing string, what any) (id string, err error) {
	if key == "" {
		return kind + "-" + protocol.RandomID(), nil
	}
	k, err := flows.RequestOf(key, kind, session, doing, what)
	if err != nil {
		return "", err
	}
	k.Doing, k.Called = doing, idempotencyKey
	if err := k.Take(ctx, t, b.opts.Zone); err != nil {
		return "", err
	}
	return fmt.Sprintf("%s-%.32s", kind, k.Request), nil
}
