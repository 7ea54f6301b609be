package main

import (
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
