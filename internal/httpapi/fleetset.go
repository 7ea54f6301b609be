package httpapi

import (
	"context"
	"net/http"

	"fairlead.dev/fairlead/internal/access"
	"fairlead.dev/fairlead/internal/protocol"
)

// NewHost says where a host is. A program cannot confirm a key that a host shows, so it gives the
// host's keys.
type NewHost struct {
	Address  string            `json:"address" minLength:"1" maxLength:"255" doc:"DNS name or IP address, without a port"`
	Port     int               `json:"port,omitempty" minimum:"1" maximum:"65535" doc:"22 by default"`
	User     string            `json:"user,omitempty" maxLength:"255" doc:"login name; the worker's own by default"`
	HostKeys []string          `json:"host_keys" minItems:"1" maxItems:"16" doc:"type and base64 as in known_hosts, or SHA256:…"`
	Jump     string            `json:"jump,omitempty" maxLength:"63" doc:"name of the host in the inventory through which this one is reached"`
	Root     string            `json:"root,omitempty" maxLength:"1024" doc:"folder of Fairlead on the host; ~/.fairlead by default"`
	Labels   map[string]string `json:"labels,omitempty"`
	Slots    int               `json:"slots,omitempty" minimum:"1" maximum:"10000" doc:"sessions at the same time; 4 by default"`
	Replace  bool              `json:"replace,omitempty" doc:"also if the inventory has a host of this name"`
}

// HostSettings changes a host. What is left out stays.
type HostSettings struct {
	Labels  map[string]string `json:"labels,omitempty" doc:"labels to give"`
	Unlabel []string          `json:"unlabel,omitempty" maxItems:"64" doc:"labels to take away"`
	Slots   int               `json:"slots,omitempty" minimum:"1" maximum:"10000" doc:"sessions at the same time; fewer end no session"`
}

// PoolSettings says what a tenant or a seed may have of a zone.
type PoolSettings struct {
	Tenant string `json:"tenant,omitempty" maxLength:"63" doc:"a tenant, in place of a seed"`
	Seed   string `json:"seed,omitempty" maxLength:"63" doc:"a seed, in place of a tenant"`
	Weight *int   `json:"weight,omitempty" minimum:"1" maximum:"1000" doc:"of a tenant: its share of the slots"`
	Limit  *int   `json:"limit,omitempty" minimum:"0" maximum:"100000" doc:"slots at the same time; 0 is no limit"`
}

// SeedSettings says who may have a seed, and what judges and bounds its sessions. What is left out stays.
type SeedSettings struct {
	Share       *int              `json:"share,omitempty" minimum:"0" doc:"sessions at the same time; 0 is any number"`
	Pools       *[]string         `json:"pools,omitempty" maxItems:"64" doc:"put it into these pools, and take it out of all others"`
	Policy      *string           `json:"policy,omitempty" maxLength:"65536" doc:"the text of a policy file for each session with the seed; empty removes it"`
	Amend       *bool             `json:"amend,omitempty" doc:"its sessions are offered decisions that change codex's rules for good"`
	Bounds      *protocol.Ceiling `json:"bounds,omitempty" doc:"what sessions with the seed may ask for, in place of all former bounds"`
	Credentials *string           `json:"credentials,omitempty" enum:"planted,gateway,none" doc:"how sessions that do not say it get the credential; none: as the workers' configuration says"`
}

// SeedVerification is the body of a verification.
type SeedVerification struct {
	Force bool `json:"force,omitempty" doc:"also if the refresh token may be spent already, which may burn the login"`
}

// OfZone names a zone in a path.
type OfZone struct {
	Zone string `path:"zone" maxLength:"63" doc:"zone"`
}

func (a *API) addFleetSettings() {
	host := func(method, path, id, summary string) spot {
		return spot{method: method, path: "/v1/hosts/{name}" + path, id: id, summary: summary, verb: access.HostWrite, begins: true}
	}
	put := host(http.MethodPost, "", "addHost", "Add a host to the inventory of a zone")
	put.status = http.StatusCreated
	add(a, put, func(ctx context.Context, in *struct {
		OfHost
		Keyed
		Body NewHost
	}) (*Body[protocol.HostView], error) {
		if !a.records.May(ctx, access.HostWrite, access.Object{Host: in.Name, HostLabels: in.Body.Labels}) {
			return nil, forbidden("host "+in.Name, access.HostWrite)
		}
		if in.Body.Replace { // the host that is there may be one of others
			if was, err := a.sessions.Host(ctx, in.Zone, in.Name); err == nil && !a.records.May(ctx, access.HostWrite, objectOfHost(was)) {
				return nil, forbidden("host "+in.Name, access.HostWrite)
			}
		}
		return answer(a.sessions.PutHost(ctx, in.of(ctx), in.Zone, in.Name, in.Body))
	})
	add(a, host(http.MethodPost, "/settings", "setHost", "Change a host's labels and slots"), func(ctx context.Context, in *struct {
		OfHost
		Keyed
		Body HostSettings
	}) (*Body[protocol.DrainView], error) {
		b := in.Body
		if len(b.Labels)+len(b.Unlabel) == 0 && b.Slots == 0 {
			return nil, badInput("there is nothing to change: give labels, unlabel or slots")
		}
		return a.setHost(ctx, &in.OfHost, in.Keyed, protocol.SetHost{Labels: b.Labels, Unlabel: b.Unlabel, Slots: b.Slots})
	})
	add(a, host(http.MethodPost, "/cordon", "cordonHost", "Let no new session onto a host"), func(ctx context.Context, in *struct {
		OfHost
		Keyed
	}) (*Body[protocol.DrainView], error) {
		yes := true
		return a.setHost(ctx, &in.OfHost, in.Keyed, protocol.SetHost{Cordon: &yes})
	})
	add(a, host(http.MethodDelete, "", "removeHost", "Take a host out of the inventory"), func(ctx context.Context, in *struct {
		OfHost
		Force bool `query:"force" doc:"also if a session may have left a credential there, which nobody will wipe then"`
	}) (*Body[protocol.HostView], error) {
		if _, err := a.host(ctx, &in.OfHost, access.HostWrite); err != nil {
			return nil, err
		}
		return answer(a.sessions.RemoveHost(ctx, in.Zone, protocol.RemoveHost{Name: in.Name, Force: in.Force}))
	})
	pool := func(path, id, summary string) spot {
		return spot{method: http.MethodPost, path: "/v1/pools/{zone}/" + path, id: id, summary: summary, verb: access.HostWrite, whole: true}
	}
	add(a, pool("pause", "pausePool", "Start no session in a zone until it is resumed"), func(ctx context.Context, in *struct {
		OfZone
		Keyed
		Body *Reasoned
	}) (*Body[protocol.PoolView], error) {
		var said Reasoned
		if in.Body != nil {
			said = *in.Body
		}
		return answer(a.sessions.PausePool(ctx, in.of(ctx), in.Zone, protocol.PausePool{Reason: said.Reason}))
	})
	add(a, pool("resume", "resumePool", "Start sessions in a zone again"), func(ctx context.Context, in *struct {
		OfZone
		Keyed
	}) (*Body[protocol.PoolView], error) {
		return answer(a.sessions.PausePool(ctx, in.of(ctx), in.Zone, protocol.PausePool{Resume: true}))
	})
	add(a, pool("settings", "setPool", "Say what a tenant or a seed may have of a zone"), func(ctx context.Context, in *struct {
		OfZone
		Keyed
		Body PoolSettings
	}) (*Body[protocol.PoolView], error) {
		b := in.Body
		if (b.Tenant == "") == (b.Seed == "") || b.Weight == nil && b.Limit == nil {
			return nil, badInput("give one of tenant and seed, and weight or limit")
		}
		return answer(a.sessions.SetPool(ctx, in.of(ctx), in.Zone, protocol.SetPool{Tenant: b.Tenant, Seed: b.Seed, Weight: b.Weight, Limit: b.Limit}))
	})
	a.addSeedSettings()
}

func (a *API) addSeedSettings() {
	seed := func(method, path, id, summary string) spot {
		return spot{method: method, path: "/v1/seeds/{name}" + path, id: id, summary: summary, verb: access.SeedWrite, begins: true}
	}
	change := func(ctx context.Context, of OfSeed, key string, msg any) (*Body[protocol.SeedView], error) {
		if !a.records.May(ctx, access.SeedWrite, access.Object{Seed: of.Name}) {
			return nil, forbidden("seed "+of.Name, access.SeedWrite)
		}
		return answer(a.sessions.ChangeSeed(ctx, key, of.Name, msg))
	}
	add(a, seed(http.MethodPost, "/settings", "setSeed", "Say who may have a seed, and what judges and bounds its sessions"), func(ctx context.Context, in *struct {
		OfSeed
		Keyed
		Body SeedSettings
	}) (*Body[protocol.SeedView], error) {
		b := in.Body
		if b == (SeedSettings{}) {
			return nil, badInput("there is nothing to set: give share, pools, policy, amend or bounds")
		}
		return change(ctx, in.OfSeed, in.of(ctx), protocol.SetSeed{Share: b.Share, Pools: b.Pools, Policy: b.Policy, Amend: b.Amend, Bounds: b.Bounds, Credentials: b.Credentials})
	})
	add(a, seed(http.MethodPost, "/verify", "verifySeed", "Find out whether a seed is alive, without a model call"), func(ctx context.Context, in *struct {
		OfSeed
		Keyed
		Body *SeedVerification
	}) (*Body[protocol.SeedView], error) {
		return change(ctx, in.OfSeed, in.of(ctx), protocol.VerifySeed{Force: in.Body != nil && in.Body.Force})
	})
	add(a, seed(http.MethodPost, "/revive", "reviveSeed", "Go on with the stored login of a suspect or recovering seed"), func(ctx context.Context, in *struct {
		OfSeed
		Keyed
	}) (*Body[protocol.SeedView], error) {
		return change(ctx, in.OfSeed, in.of(ctx), protocol.ReviveSeed{})
	})
	add(a, seed(http.MethodDelete, "", "deleteSeed", "Forget a seed"), func(ctx context.Context, in *struct {
		OfSeed
		Purge bool `query:"purge" doc:"remove its encrypted bundles from the store as well"`
	}) (*Body[protocol.SeedView], error) {
		return change(ctx, in.OfSeed, "", protocol.DeleteSeed{Purge: in.Purge})
	})
}
