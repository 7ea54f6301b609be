package main

import (
	"fairlead.dev/fairlead/activities/site"
	"fairlead.dev/fairlead/internal/config"
)

func boundsOf(conf *config.Config) site.Bounds {
	b := site.Bounds{All: conf.Bounds.Ceiling(), Zone: conf.Zone}
	for _, h := range conf.Bounds.Hosts {
		b.Hosts = append(b.Hosts, site.HostBounds{Labels: h.Labels, Most: h.Ceiling()})
	}
	return b
}
