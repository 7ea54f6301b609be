package gateways

import (
	"net/http"

	"fairlead.dev/fairlead/activities/site"
	"fairlead.dev/fairlead/internal/gateway"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/seeds"
)

// failures are the kinds of failures of the gateway, by the names that seeds use.
var failures = map[string][]gateway.Kind{
	seeds.FailConnect:    {gateway.KindUnreached},
	seeds.FailServer:     {gateway.KindFailed, gateway.KindIdle, gateway.KindCut, gateway.KindGarbage},
	seeds.FailRateLimit:  {gateway.KindRateLimit},
	seeds.FailQuota:      {gateway.KindUsageLimit},
	seeds.FailAuth:       {gateway.KindAuth},
	seeds.FailBadRequest: {gateway.KindBadRequest},
}

// upstreamsOf returns whom the gateway asks with a seed, in this order, and when it asks the next.
func upstreamsOf(b *seeds.Bundle) ([]gateway.Upstream, gateway.FallBack, error) {
	first, err := seeds.EndpointOf(b)
	if err != nil {
		return nil, gateway.FallBack{}, err
	}
	more, err := seeds.FallBackOf(b)
	if err != nil {
		return nil, gateway.FallBack{}, err
	}
	back := gateway.FallBack{Attempts: more.Attempts, Stay: more.Stay}
	for _, name := range more.On {
		back.On = append(back.On, failures[name]...)
	}
	var all []gateway.Upstream
	for _, e := range append([]seeds.Endpoint{first}, more.Upstreams...) {
		all = append(all, gateway.Upstream{Name: e.Name, BaseURL: e.BaseURL, Key: e.Key.Reveal(), Header: http.Header(e.Header), Query: e.Query, Models: e.Models})
	}
	return all, back, nil
}

// CheckBundle refuses a seed with which no gateway can be opened.
func CheckBundle(b *seeds.Bundle) error {
	upstreams, back, err := upstreamsOf(b)
	if err == nil {
		_, err = gateway.New(gateway.Options{Upstreams: upstreams, FallBack: back, Tokens: &gateway.Tokens{}})
	}
	return err
}

// standingOf returns what has failed at the upstreams of a seed, for all of its sessions on this
// worker. A bundle that was imported anew begins with nothing.
func standingOf(s *site.Site, seed *protocol.SeedRef) *gateway.Standing {
	type standing struct {
		blob string
		*gateway.Standing
	}
	fresh := standing{seed.Blob, &gateway.Standing{}}
	for {
		v, loaded := s.Standings.LoadOrStore(seed.Name, fresh)
		if now := v.(standing); !loaded || now.blob == seed.Blob {
			return now.Standing
		}
		if s.Standings.CompareAndSwap(seed.Name, v, fresh) {
			return fresh.Standing
		}
	}
}
