package main

import (
	"fmt"

	"fairlead.dev/fairlead/activities/site"
	"fairlead.dev/fairlead/internal/config"
	"fairlead.dev/fairlead/internal/teamtool"
)

func boundsOf(conf *config.Config) site.Bounds {
	b := site.Bounds{All: conf.Bounds.Ceiling(), Zone: conf.Zone}
	for _, h := range conf.Bounds.Hosts {
		b.Hosts = append(b.Hosts, site.HostBounds{Labels: h.Labels, Most: h.Ceiling()})
	}
	return b
}

// targetsOf are the webhooks that tools of teams may call.
func targetsOf(conf *config.Config) (all []teamtool.Target) {
	for _, w := range conf.Tools.Webhooks {
		all = append(all, teamtool.Target{URL: w.URL, SecretFile: w.SecretFile})
	}
	return all
}

// activitiesOf are the activities of teams' own workers that tools of teams may call.
func activitiesOf(conf *config.Config) (all []teamtool.ActivityTarget, err error) {
	for _, q := range conf.Tools.Activities {
		t := teamtool.ActivityTarget{Queue: q.Queue, Types: q.Types}
		if q.KeyFile != "" {
			if t.Keys, err = teamtool.ReadQueueKeys(q.KeyFile); err != nil {
				return nil, fmt.Errorf("read the keys of the queue %s: %w", q.Queue, err)
			}
		}
		all = append(all, t)
	}
	return all, nil
}
