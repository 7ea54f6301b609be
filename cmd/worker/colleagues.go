package main

import (
	"context"
	"net/url"
	"slices"
	"strings"
	"time"

	enums "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"

	"fairlead.dev/fairlead/internal/api"
	"fairlead.dev/fairlead/internal/config"
	"fairlead.dev/fairlead/internal/protocol"
)

const (
	colleagueFresh = 2 * time.Minute // since it polled
	colleagueWait  = 2 * time.Second
	mostColleagues = 64
)

// colleagues returns a function that asks the workers of a zone for their status, which a start
// by the API needs. Anybody who may poll can write an address into Temporal, so a worker is
// asked only under the same conditions as by ctl: at a unix socket, whose owner the kernel
// names, with a certificate of the CA of the config, or at an address that the config names.
func colleagues(conf *config.Config, own *api.Options) func(ctx context.Context, c client.Client, zone string) ([]api.Status, []string, error) {
	return func(ctx context.Context, c client.Client, zone string) (statuses []api.Status, silent []string, err error) {
		me := own.Status()
		statuses = append(statuses, me)
		seen := []string{me.Identity}
		for _, kind := range []enums.TaskQueueType{enums.TASK_QUEUE_TYPE_WORKFLOW, enums.TASK_QUEUE_TYPE_ACTIVITY} {
			d, err := c.DescribeTaskQueue(ctx, protocol.TaskQueueOf(zone), kind)
			if err != nil {
				return nil, nil, err
			}
			for _, p := range d.GetPollers() {
				id, ok := api.ParseIdentity(p.GetIdentity())
				if !ok || slices.Contains(seen, p.GetIdentity()) || len(seen) > mostColleagues || time.Since(p.GetLastAccessTime().AsTime()) > colleagueFresh {
					continue
				}
				seen = append(seen, p.GetIdentity())
				if st, err := statusOf(ctx, conf, id.API); err == nil {
					statuses = append(statuses, st)
				} else {
					silent = append(silent, p.GetIdentity())
				}
			}
		}
		return statuses, silent, nil
	}
}

func statusOf(ctx context.Context, conf *config.Config, endpoint string) (api.Status, error) {
	if !shows(conf.API, endpoint) {
		return api.Status{}, api.ErrUnreachable
	}
	var proof api.Proof
	if conf.Authority == config.AuthorityRequired {
		proof = api.ProofOfWorker(conf.WorkerKey)
	}
	c, err := api.Connect(endpoint, conf.API, proof)
	if err != nil {
		return api.Status{}, err
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(ctx, colleagueWait)
	defer cancel()
	return c.Status(ctx)
}

// shows reports whether the address or the config proves that one of our workers answers there.
func shows(conf config.API, endpoint string) bool {
	u, err := url.Parse(endpoint)
	plain := func(s string) string { return strings.TrimSuffix(s, "/") }
	return err == nil && (u.Scheme == "unix" || u.Scheme == "https" && conf.TLS != nil && (conf.TLS.CA != "" || conf.TLS.Cert != "") ||
		slices.ContainsFunc(append([]string{conf.Address}, conf.Workers...), func(known string) bool { return known != "" && plain(known) == plain(endpoint) }))
}
