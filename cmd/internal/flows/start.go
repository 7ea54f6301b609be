package flows

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"strings"

	enums "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"

	"fairlead.dev/fairlead/activities/gateways"
	"fairlead.dev/fairlead/activities/logins"
	"fairlead.dev/fairlead/internal/errkind"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/session"
)

// place refuses selectors that no host can ever meet. A session works on the worker's own
// machine only if it names it: place names it if it is the only host and nothing is asked of
// the host, and says so.
func (t *Conn) place(ctx context.Context, opt *session.Options) error {
	if opt.Elsewhere = opt.Host == ""; !opt.Elsewhere {
		return nil
	}
	var v protocol.PlaceView
	err := t.Ask(ctx, "find a host", protocol.PoolID(opt.Zone), protocol.QueryPlace, &v, protocol.PlaceQuery{Labels: opt.Labels, Select: opt.Select, Elsewhere: true})
	if NoInventory(err) || errors.Is(err, context.DeadlineExceeded) {
		return nil // the session waits for hosts
	}
	if err == nil && v.Never != nil && len(opt.Labels)+len(opt.Select) == 0 {
		// no host but local
		opt.Host, opt.Elsewhere = protocol.LocalHost, false
		if _, err := t.Host(ctx, "find host "+opt.Host, opt.Zone, opt.Host); err != nil {
			return FailureExit("find a host", v.Never)
		}
		t.Side.Note("on host local, this worker's machine: zone %s has no other (--host local says so)", cmp.Or(opt.Zone, "default"))
		return nil
	}
	if err == nil && v.Never != nil {
		return FailureExit("find a host", v.Never)
	}
	return err
}

// CheckNames refuses unknown hosts, seeds, pools and zones. It names host local if that is
// the only one.
func (t *Conn) CheckNames(ctx context.Context, opt *session.Options) error {
	t.Side.Begin()
	if err := Startable(*opt); err != nil { // again: a restore takes over options
		return err
	}
	if err := t.KnownZone(ctx, "find zone "+opt.Zone, opt.Zone); err != nil {
		return err
	}
	if opt.Host != "" {
		if _, err := t.Host(ctx, "find host "+opt.Host, opt.Zone, opt.Host); err != nil {
			return err
		}
	}
	if err := t.place(ctx, opt); err != nil {
		return err
	}
	if opt.Seed != "" {
		seed, err := t.Seed(ctx, opt.Seed)
		if err != nil {
			return err
		}
		t.noteDefault(seed.Credentials, *opt)
		if opt.Credentials == protocol.CredentialsBroker && seed.Kind != logins.KindChatGPT {
			return errkind.Usage("seed %s is of kind %s: only a ChatGPT login has access tokens that a broker can give", opt.Seed, seed.Kind).
				Hinted("leave --credentials broker out")
		}
		if opt.Credentials == protocol.CredentialsGateway {
			if err := gateways.CheckKind(seed.Kind); err != nil {
				return errkind.Usage("seed %s: %v", opt.Seed, err).Hinted("leave --credentials gateway out, or import a seed with an API key or a model provider")
			}
		}
	}
	if opt.SeedPool != "" {
		if err := t.SeedPool(ctx, opt.SeedPool); err != nil {
			return err
		}
	}
	if of, ok := t.Side.(Asks); ok {
		return of.Understood(ctx, opt.Zone, protocol.Requires(*opt))
	}
	return nil
}

// noteDefault says how a session that does not say it gets the credential of its seed.
func (t *Conn) noteDefault(way string, opt session.Options) {
	switch {
	case opt.Credentials != "" || way == "":
	case way == protocol.CredentialsGateway && opt.Host == protocol.LocalHost:
		t.Side.Note("credentials: planted, because the model gateway, the default of seed %s, does not serve host %s", opt.Seed, opt.Host)
	default:
		t.Side.Note("credentials: %s, the default of seed %s", way, opt.Seed)
	}
}

// Asks is a Side that can ask the workers of a zone.
type Asks interface {
	// Understood refuses a session if a worker of its zone is known to drop options that the
	// session requires.
	Understood(ctx context.Context, zone string, requires []string) error
}

// WorkflowOptions returns the options of a session's workflow.
func WorkflowOptions(id string, opt session.Options) client.StartWorkflowOptions {
	return client.StartWorkflowOptions{
		ID: protocol.SessionID(id), TaskQueue: protocol.TaskQueueOf(opt.Zone),
		// Transcripts of two sessions with one id would mix.
		WorkflowIDReusePolicy:    enums.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE,
		WorkflowIDConflictPolicy: enums.WORKFLOW_ID_CONFLICT_POLICY_FAIL,
		StaticSummary:            "codex session " + id,
	}
}

// StartSession starts a session. there reports whether an earlier request with the same key has
// started it.
func (t *Conn) StartSession(ctx context.Context, id string, in session.Input, k *Keyed) (there bool, err error) {
	if there, err := k.Look(ctx, t); err != nil || there {
		return there, err
	}
	if err := t.CheckNames(ctx, &in.Options); err != nil {
		return false, err
	}
	if err := k.Take(ctx, t, in.Options.Zone); err != nil {
		return false, err
	}
	in.Requires = protocol.Requires(in.Options)
	start := WorkflowOptions(id, in.Options)
	start.WorkflowExecutionErrorWhenAlreadyStarted = true
	k.Mark(&start)
	_, err = t.Start(ctx, "start session "+id, start, protocol.TypeSession, in)
	return k.Ours(ctx, t, err)
}

// Startable refuses options that the workflow or the host would refuse.
func Startable(opt session.Options) error {
	if opt.Dir != "" && !path.IsAbs(opt.Dir) {
		return errkind.Usage("dir %q is not an absolute path on the host", opt.Dir)
	}
	if err := opt.Check(); err != nil {
		return errkind.Usage("the session would be refused: %v", err).Because(err)
	}
	return nil
}

// SetLabels sets the conditions on a session's host. It stores k=v as a label, as earlier
// versions did, and other forms as selectors.
func SetLabels(opt *session.Options, labels []string) error {
	wants, err := protocol.ParseSelectors(labels)
	if err != nil {
		return err
	}
	for _, s := range wants {
		before, twice := opt.Labels[s.Key]
		switch {
		case s.Op != "=":
			opt.Select = append(opt.Select, s.String())
		case twice && before != s.Value:
			return fmt.Errorf("%s and %s=%s: no host has both", s, s.Key, before)
		case opt.Labels == nil:
			opt.Labels = map[string]string{s.Key: s.Value}
		default:
			opt.Labels[s.Key] = s.Value
		}
	}
	return nil
}

// NetworkWords reads on, off, or hosts separated by commas.
func NetworkWords(text string) (word string, hosts []string) {
	switch text {
	case "", protocol.NetworkOn, protocol.NetworkOff:
		return text, nil
	}
	for h := range strings.SplitSeq(text, ",") {
		hosts = append(hosts, strings.ToLower(strings.TrimSpace(h)))
	}
	return protocol.NetworkHosts, hosts
}
