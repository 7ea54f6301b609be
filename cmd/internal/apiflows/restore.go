package apiflows

import (
	"context"
	"slices"
	"time"

	"fairlead.dev/fairlead/cmd/internal/flows"
	"fairlead.dev/fairlead/cmd/internal/restores"
	"fairlead.dev/fairlead/internal/errkind"
	"fairlead.dev/fairlead/internal/httpapi"
	"fairlead.dev/fairlead/internal/owned"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/snapshots"
	"fairlead.dev/fairlead/workflows/session"
)

// goesOn are the options of a session that goes on from a snapshot.
func goesOn(in httpapi.StartSession) (opt session.Options, given func(flag string) bool, err error) {
	for _, f := range []struct {
		field string
		given bool
	}{{"dir", in.Dir != ""}, {"repo", in.Repo != nil}, {"from_snapshot", in.FromSnapshot != ""}} {
		if f.given {
			return opt, nil, errkind.Usage("%s: a session that goes on from a snapshot has the work folder of that snapshot", f.field).
				Hinted("leave it out, or start a new session with it")
		}
	}
	if in.Message != nil || in.CloseAfter {
		return opt, nil, errkind.Usage("message and close_after: the session waits for its first message").Hinted("POST /v1/sessions/{id}/messages, once it is there")
	}
	said := map[string]bool{
		"sandbox": in.Sandbox != "", "approval-policy": in.ApprovalPolicy != "", "model": in.Model != "", "effort": in.Effort != "",
		"snapshot": in.Snapshot != nil && in.Snapshot.Work != "", "snapshot-exclude": in.Snapshot != nil && in.Snapshot.Exclude != nil,
		"on-interrupt": in.OnInterrupt != "", "on-auth": in.OnAuth != "", "credentials": in.Credentials != "", "tools": in.Tools != nil, restores.TeamTools: in.TeamTools != "",
		"profile": in.Profile != "", "read": in.Read != nil, "write": in.Write != nil, "network": in.Network != "", "egress": in.Egress != nil, "policy": in.Policy != "",
		"instructions": in.Instructions != "", "developer-instructions": in.Developer != "", "base-instructions": in.Base != "", "personality": in.Personality != "",
		"turn-timeout": in.TurnTimeout != "" || in.Budget != nil && in.Budget.TurnTimeout != "", "budget": in.Budget != nil,
	}
	if in.Policy == none {
		in.Policy = ""
	}
	if in.TeamTools == none {
		in.TeamTools = ""
	}
	opt, err = options(in)
	return opt, func(flag string) bool { return said[flag] }, err
}

// none, as a request's policy or team_tools, says that the new session has none even if the former
// had some.
const none = "none"

// Restore implements httpapi.Sessions.
func (b *Backend) Restore(ctx context.Context, key, snapshot string, in httpapi.StartSession) (httpapi.Started, error) {
	return b.goOn(ctx, key, "restore snapshot "+snapshot, snapshot, in, func(context.Context, *flows.Conn) (snapshots.Manifest, error) {
		return b.store.Snapshot(ctx, snapshot)
	})
}

// Fork implements httpapi.Sessions.
func (b *Backend) Fork(ctx context.Context, key, id string, in httpapi.StartSession) (httpapi.Started, error) {
	return b.goOn(ctx, key, "fork session "+id, id, in, func(ctx context.Context, t *flows.Conn) (snapshots.Manifest, error) {
		return b.toFork(ctx, t, key, id)
	})
}

// goOn starts a session that goes on from the snapshot that from returns.
func (b *Backend) goOn(ctx context.Context, key, doing, of string, in httpapi.StartSession, from func(context.Context, *flows.Conn) (snapshots.Manifest, error)) (httpapi.Started, error) {
	opt, given, err := goesOn(in)
	if err != nil {
		return httpapi.Started{}, err
	}
	// An empty list differs from a missing one, but JSON leaves out both. So empty is part of the request.
	empty := []bool{in.Tools != nil, in.Read != nil, in.Write != nil, in.Snapshot != nil && in.Snapshot.Exclude != nil}
	k, err := flows.RequestOf(key, protocol.ClaimSession, in.ID, doing+" over HTTP", of, in, empty)
	if err != nil {
		return httpapi.Started{}, err
	}
	if k != nil {
		k.Called = idempotencyKey
	}
	out := httpapi.Started{ID: in.ID}
	if out.ID == "" {
		out.ID = k.IDOr("s-" + protocol.RandomID())
	}
	t, err := b.conn()
	if err != nil {
		return out, err
	}
	if out.Existing, err = k.Look(ctx, t); err != nil || out.Existing {
		return out, err
	}
	m, err := from(ctx, t)
	if err != nil {
		return out, err
	}
	opt.By = b.by(ctx)
	if _, err := restores.Settings(ctx, t, m, &opt, in.Budget, given); err != nil {
		return out, asFields(err)
	}
	if err := b.keepAllGiven(ctx, owned.Owner{Kind: owned.Session, ID: out.ID}, key, &opt); err != nil {
		return out, err
	}
	out.Existing, err = t.StartSession(ctx, out.ID, session.NewInput(out.ID, opt, nil), k)
	return out, err
}

// forkWait bounds how long a request waits for a snapshot.
const forkWait = time.Minute

// toFork returns the snapshot from which a fork begins: a new one if the session is on a host.
func (b *Backend) toFork(ctx context.Context, t *flows.Conn, key, id string) (m snapshots.Manifest, err error) {
	doing := "fork session " + id
	v, err := view(ctx, t, id)
	if err != nil && errkind.ExitCode(err) != errkind.ExitNotFound {
		return m, err
	}
	if err != nil || !restores.Takes(v) {
		all, err := b.store.Snapshots(ctx, id)
		if err != nil {
			return m, err
		}
		slices.SortStableFunc(all, func(x, y snapshots.Manifest) int { return x.CreatedAt.Compare(y.CreatedAt) })
		return restores.Newest(doing, v, all)
	}
	if key != "" {
		key += "-snapshot"
	}
	acc, err := b.TakeSnapshot(ctx, key, id)
	if err != nil {
		return m, err
	}
	taken, err := awaitSnapshot(ctx, t, doing, acc)
	if err != nil {
		return m, err
	}
	return b.store.Snapshot(ctx, taken)
}

// awaitSnapshot returns the id of a snapshot that was asked for.
func awaitSnapshot(ctx context.Context, t *flows.Conn, doing string, acc protocol.SnapshotAccepted) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, forkWait)
	defer cancel()
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	for {
		v, err := view(ctx, t, acc.Session)
		s := v.Snapshot
		switch {
		case ctx.Err() != nil || errkind.ExitCode(err) == errkind.ExitUnreachable: // below
		case err != nil:
			return "", err
		case acc.N > 0 && s != nil && s.N >= acc.N:
			return s.ID, nil
		case flows.HasEnded(v.State):
			return "", flows.RefuseEnded(doing, v)
		case s != nil && s.Tried >= acc.N && s.Error != nil:
			return "", flows.FailureExit(doing, s.Error)
		case s != nil && s.Tried >= acc.N:
			return "", errkind.Refused("%s: there is nothing to snapshot yet", doing).Hinted("send the session a message first")
		}
		select {
		case <-ctx.Done():
			return "", errkind.TimedOut("%s: its snapshot is not whole within %s", doing, forkWait).Hinted("send the request again, with the same Idempotency-Key: the same snapshot is waited for")
		case <-tick.C:
		}
	}
}
