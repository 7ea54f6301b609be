package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"go.temporal.io/sdk/interceptor"
	"golang.org/x/crypto/ssh"

	"fairlead.dev/fairlead/activities/audits"
	"fairlead.dev/fairlead/activities/inquiry"
	"fairlead.dev/fairlead/activities/records"
	"fairlead.dev/fairlead/activities/site"
	"fairlead.dev/fairlead/internal/access"
	"fairlead.dev/fairlead/internal/api"
	"fairlead.dev/fairlead/internal/authority"
	"fairlead.dev/fairlead/internal/config"
	"fairlead.dev/fairlead/internal/notify"
	"fairlead.dev/fairlead/internal/owned"
	"fairlead.dev/fairlead/internal/payload"
	"fairlead.dev/fairlead/internal/sshsig"
	"fairlead.dev/fairlead/internal/store"
)

var errNoAccess = errors.New("authority: required needs an access file: set access in the config")

// keeperOf returns the keeper of the config's access file, or nil with authority: local.
func keeperOf(ctx context.Context, conf *config.Config, blobs *store.Store, log *slog.Logger) (*authority.Keeper, error) {
	if conf.Authority != config.AuthorityRequired {
		return nil, nil
	}
	if conf.Access == "" {
		return nil, errNoAccess
	}
	k, err := authority.Open(conf.Access, log)
	if err != nil {
		return nil, err
	}
	since, err := conf.Temporal.WorkersSince()
	if err != nil {
		return nil, fmt.Errorf("read temporal.worker_payload_since: %w", err)
	}
	k.AllowBefore(since)
	required, err := conf.RequiredSince()
	if err != nil {
		return nil, fmt.Errorf("read authority_since: %w", err)
	}
	k.RequiredSince(required)
	k.OnLoad(func(digest string, data []byte) error { return keepAccess(ctx, blobs, digest, data) })
	go k.Watch(ctx)
	return k, nil
}

// revokedOf returns the keeper of the file that revoked names, for a worker with authority:
// local. Without such a file it returns nil.
func revokedOf(ctx context.Context, conf *config.Config, log *slog.Logger) (*authority.Keeper, error) {
	if conf.Revoked == "" {
		return nil, nil
	}
	k, err := authority.OpenRevoked(conf.Revoked, log)
	if err != nil {
		return nil, err
	}
	go k.Watch(ctx)
	return k, nil
}

// keepAccessFor bounds one attempt to keep an access file in the store.
const keepAccessFor = 30 * time.Second

// keepAccess puts an access file into the store, which may have it.
func keepAccess(ctx context.Context, blobs *store.Store, digest string, data []byte) error {
	ctx, cancel := context.WithTimeout(ctx, keepAccessFor)
	defer cancel()
	if err := blobs.Create(ctx, records.AccessKey(digest), data); err != nil && !errors.Is(err, store.ErrExists) {
		return fmt.Errorf("keep the access file: %w", err)
	}
	return nil
}

// readsOf asks the access file who may read what a session or batch has; nil without one.
func readsOf(k *authority.Keeper, objects api.Objects) func(context.Context, string, []string, owned.Owner, bool) (string, error) {
	if k == nil {
		return nil
	}
	return func(ctx context.Context, who string, groups []string, of owned.Owner, blind bool) (string, error) {
		ask := access.Request{Who: who, Groups: groups, Verb: access.SessionRead, Object: access.Object{Unknown: true}}
		find := objects.Session
		switch of.Kind {
		case owned.Session:
			ask.Object.Session = of.ID
		case owned.Batch:
			find = objects.Batch
		default:
			blind = true
		}
		if !blind && !k.Decide(ask).Allowed { // most need no condition, and then nobody has to be asked
			ctx, cancel := context.WithTimeout(ctx, inquiry.AskTimeout)
			defer cancel()
			o, known, err := find(ctx, of.ID)
			if err != nil {
				return "", err
			}
			if known {
				ask.Object = o
			}
		}
		return k.Decide(ask).Reason, nil
	}
}

// judgeOf answers the questions of activities by the access file, or is nil.
func judgeOf(k *authority.Keeper) func(site.Question) string {
	if k == nil {
		return nil
	}
	return func(q site.Question) string {
		answer := k.Decide(access.Request{Who: q.Principal, Groups: q.Groups, Verb: access.Verb(q.Verb),
			Object: access.Object{Host: q.Host, HostLabels: q.Labels, Seed: q.Seed, Unknown: q.Unknown}})
		if answer.Allowed {
			return ""
		}
		return cmp.Or(answer.Reason, "it is not allowed")
	}
}

// markedBy says how this worker marks what it writes, and whether it takes unmarked
// payloads.
func markedBy(conf *config.Config) (payload.Workers, error) {
	keys, err := payload.LoadKeys(conf.Temporal.WorkerPayloadKey)
	if err != nil {
		return payload.Workers{}, fmt.Errorf("the keys of workers: %w", err)
	}
	since, err := conf.Temporal.WorkersSince()
	if err != nil {
		return payload.Workers{}, fmt.Errorf("read temporal.worker_payload_since: %w", err)
	}
	required := conf.Authority == config.AuthorityRequired
	if required && len(keys) == 0 {
		return payload.Workers{}, errors.New("authority: required needs a key that all workers have and ctl does not have: set temporal.worker_payload_key in the config")
	}
	return payload.Workers{Keys: keys, Required: required, Since: since, Internal: authority.IsInternal}, nil
}

// recordRefusals writes the records of refused commands. The result stops that, and waits
// for the last ones.
func recordRefusals(ctx context.Context, r *audits.Refusals) (end func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx)) // the worker refuses commands until it has stopped
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.Run(ctx)
	}()
	return func() {
		cancel()
		<-done
	}
}

// stateDir returns the folder for what must survive this worker, or "" if there is no place
// for it.
func stateDir(conf *config.Config) string {
	dir := cmp.Or(conf.State, os.Getenv("FAIRLEAD_STATE"))
	if conf.State != "" {
		return dir
	}
	if dir == "" {
		base := os.Getenv("XDG_STATE_HOME")
		if home, err := os.UserHomeDir(); base == "" && err == nil {
			base = filepath.Join(home, ".local", "state")
		}
		if base == "" {
			return ""
		}
		dir = filepath.Join(base, "fairlead")
	}
	if !filepath.IsAbs(dir) {
		return ""
	}
	return filepath.Join(dir, "worker")
}

// keepRefusals makes the records of refused commands survive this worker. If the config names a
// folder, it must be writable. Otherwise the worker also starts without one.
func keepRefusals(r *audits.Refusals, store string, conf *config.Config, log *slog.Logger) error {
	err := errors.New("there is no state folder")
	if dir := stateDir(conf); dir != "" {
		err = r.KeepIn(filepath.Join(dir, "refusals", store)) // workers of other stores have other folders
	}
	if err != nil && conf.State != "" {
		return fmt.Errorf("%w: state in the config names another folder", err)
	}
	if err != nil {
		log.Warn("if this worker dies while the store is slow, records of refused commands are lost: set state in the config to a folder of this machine", "err", err)
	}
	return nil
}

// senderOf returns the interceptor that signs what this worker sends, or nil.
func senderOf(conf *config.Config) ([]interceptor.ClientInterceptor, error) {
	if conf.Authority != config.AuthorityRequired {
		return nil, nil
	}
	key, err := signingKey(conf)
	if err != nil {
		return nil, err
	}
	return []interceptor.ClientInterceptor{authority.Sender(key)}, nil
}

// signingKey reads the key with which this worker signs.
func signingKey(conf *config.Config) (ssh.Signer, error) {
	if conf.WorkerKey == "" {
		return nil, errors.New("authority: required needs a key of the worker, which the access file lists under workers: make one with ssh-keygen, and set worker_key in the config")
	}
	pem, err := os.ReadFile(conf.WorkerKey)
	if err != nil {
		return nil, fmt.Errorf("read the worker's key: %w", err)
	}
	key, err := sshsig.ParseKey(pem, nil)
	if err != nil {
		return nil, fmt.Errorf("read the worker's key %s: %w", conf.WorkerKey, err)
	}
	return key, nil
}

// checkAuthority checks the files that say who may do what and who is told, and the key with which a worker with authority: required signs. The access
// file must list that key. Otherwise the sessions of batches, and the logins that the worker
// captures, would be refused.
func checkAuthority(conf *config.Config) error {
	if conf.Revoked != "" {
		if _, err := authority.OpenRevoked(conf.Revoked, slog.New(slog.DiscardHandler)); err != nil {
			return err
		}
	}
	if conf.Notifications != "" {
		if _, err := notify.Open(conf.Notifications, slog.New(slog.DiscardHandler)); err != nil {
			return err
		}
	}
	if conf.Authority != config.AuthorityRequired {
		return nil
	}
	if conf.Access == "" {
		return errNoAccess
	}
	k, err := authority.Open(conf.Access, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	key, err := signingKey(conf)
	if err != nil {
		return err
	}
	public, a := key.PublicKey(), k.Current()
	if cert, ok := public.(*ssh.Certificate); ok {
		public = cert.Key
	}
	if why := a.Revoked(public); why != "" {
		return fmt.Errorf("check the worker's key %s by the access file %s: %s: make another key with ssh-keygen, set worker_key to it, and list its public key under workers in the access file", conf.WorkerKey, conf.Access, why)
	}
	if !a.Workers().Has(public) {
		return fmt.Errorf("check the worker's key %s by the access file %s: the file does not list key %s under workers, so other workers would refuse what this worker signs: add it to the file:\nworkers:\n  - %s",
			conf.WorkerKey, conf.Access, ssh.FingerprintSHA256(public), strings.TrimSpace(string(ssh.MarshalAuthorizedKey(public))))
	}
	return nil
}
