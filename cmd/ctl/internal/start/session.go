package start

import (
	"cmp"
	"context"
	"errors"
	"io"
	"strings"
	"unicode/utf8"

	enums "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"

	"fairlead.dev/fairlead/activities/logins"
	"fairlead.dev/fairlead/cmd/ctl/internal/conn"
	"fairlead.dev/fairlead/cmd/ctl/internal/core"
	"fairlead.dev/fairlead/internal/owned"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/session"
)

// place refuses selectors that no host can ever meet. A session works on the worker's own
// machine only if it names it: place names it if it is the only host and nothing is asked of
// the host, and says so.
func place(ctx context.Context, a *core.App, t *conn.Conn, opt *session.Options) error {
	if opt.Elsewhere = opt.Host == ""; !opt.Elsewhere {
		return nil
	}
	var v protocol.PlaceView
	err := t.Ask(ctx, "find a host", protocol.PoolID(opt.Zone), protocol.QueryPlace, &v, protocol.PlaceQuery{Labels: opt.Labels, Select: opt.Select, Elsewhere: true})
	if conn.NoInventory(err) || errors.Is(err, context.DeadlineExceeded) {
		return nil // the session waits for hosts
	}
	if err == nil && v.Never != nil && len(opt.Labels)+len(opt.Select) == 0 {
		// no host but local
		opt.Host, opt.Elsewhere = protocol.LocalHost, false
		if _, err := t.Host(ctx, "find host "+opt.Host, opt.Zone, opt.Host); err != nil {
			return conn.FailureExit("find a host", v.Never)
		}
		a.Note("on host local, this worker's machine: zone %s has no other (--host local says so)", cmp.Or(opt.Zone, "default"))
		return nil
	}
	if err == nil && v.Never != nil {
		return conn.FailureExit("find a host", v.Never)
	}
	return err
}

// CheckNames refuses unknown hosts, seeds, pools and zones. It names host local if that is
// the only one.
func CheckNames(ctx context.Context, a *core.App, t *conn.Conn, opt *session.Options) error {
	a.Begins = true
	if err := startable(*opt); err != nil { // again: a restore takes over options
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
	if err := place(ctx, a, t, opt); err != nil {
		return err
	}
	if opt.Seed != "" {
		seed, err := t.Seed(ctx, opt.Seed)
		if err != nil {
			return err
		}
		if opt.Credentials == protocol.CredentialsBroker && seed.Kind != logins.KindChatGPT {
			return core.Usage("seed %s is of kind %s: only a ChatGPT login has access tokens that a broker can give", opt.Seed, seed.Kind).
				Hinted("leave --credentials broker out")
		}
	}
	if opt.SeedPool != "" {
		return t.SeedPool(ctx, opt.SeedPool)
	}
	return nil
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

// Session starts a session without a message; there says that the same request already did.
func Session(ctx context.Context, a *core.App, t *conn.Conn, id string, opt session.Options, k *conn.Keyed) (there bool, err error) {
	if there, err := k.Look(ctx, t); err != nil || there {
		return there, err
	}
	if err := CheckNames(ctx, a, t, &opt); err != nil {
		return false, err
	}
	if err := k.Take(ctx, t, opt.Zone); err != nil {
		return false, err
	}
	start := WorkflowOptions(id, opt)
	start.WorkflowExecutionErrorWhenAlreadyStarted = true
	k.Mark(&start)
	_, err = t.Start(ctx, "start session "+id, start, protocol.TypeSession, session.Input{ID: id, Options: opt})
	return k.Ours(ctx, t, err)
}

// Prompt returns the argument, or standard input for "-".
func Prompt(a *core.App, arg string) (string, error) {
	text := arg
	if arg == "-" {
		data, err := io.ReadAll(io.LimitReader(a.In, 4*protocol.MaxChars+1))
		if err != nil {
			return "", core.Failed("read the prompt from standard input: %v", err)
		}
		text = string(data)
	}
	n := utf8.RuneCountInString(text)
	switch {
	case n > protocol.MaxChars:
		return "", core.Usage("the prompt has more than the %d characters that codex takes", protocol.MaxChars).
			Hinted("put it into a file on the host and name the file")
	case strings.TrimSpace(text) == "":
		return "", core.Usage("the prompt is empty").Hinted("say what codex is to do")
	case !utf8.ValidString(text):
		return "", core.Usage("the prompt is not UTF-8 text")
	}
	return text, nil
}

// OfSession names a new folder for a session's data.
func OfSession(id string) string {
	return owned.Owner{Kind: owned.Session, ID: id}.NewFolder()
}

// Message returns a message. It uploads a long text under folder.
func Message(ctx context.Context, a *core.App, t *conn.Conn, folder, text, id string) (protocol.Message, error) {
	if id == "" {
		id = "m-" + core.RandomID()
	}
	m := protocol.Message{ID: id, By: core.Person()}
	if len(text) <= protocol.MaxText {
		m.Text = text
		return m, nil
	}
	worker, err := conn.AnyWorker(ctx, a, t)
	if err != nil {
		return m, err
	}
	stored, err := worker.PutMessage(ctx, folder, text)
	if err != nil {
		return m, conn.APIFailure("keep the prompt", err)
	}
	m.Blob, m.Chars = stored.Blob, stored.Chars
	return m, nil
}
