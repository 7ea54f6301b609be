package httpapi

import (
	"context"
	"maps"
	"net/http"

	"fairlead.dev/fairlead/internal/access"
	"fairlead.dev/fairlead/internal/protocol"
)

// InZone names a zone.
type InZone struct {
	Zone string `query:"zone" maxLength:"63" doc:"zone of the hosts; the default zone without it"`
}

type hostsInput struct {
	InZone
	Paged
}

// OfHost names a host.
type OfHost struct {
	Name string `path:"name" maxLength:"63" doc:"host"`
	InZone
}

// Drain says how sessions leave a host.
type Drain struct {
	How string `json:"how,omitempty" enum:"park,move" doc:"what sessions do when their turn has ended; park by default"`
}

// HostChecked says whether sessions can run on a host.
type HostChecked struct {
	Name string `json:"name"`
	protocol.CheckHostResult
}

func (a *API) addHosts() {
	spotOf := func(method, path, id, summary string, verb access.Verb) spot {
		return spot{method: method, path: "/v1/hosts" + path, id: id, summary: summary, verb: verb, begins: true}
	}
	add(a, spotOf(http.MethodGet, "", "listHosts", "List the hosts of a zone, with slots and states", access.HostRead), a.hosts)
	add(a, spotOf(http.MethodGet, "/{name}", "showHost", "Show all that is known of a host", access.HostRead),
		func(ctx context.Context, in *OfHost) (*Body[protocol.HostView], error) {
			return answer(a.host(ctx, in, access.HostRead))
		})
	add(a, spotOf(http.MethodPost, "/{name}/check", "checkHost", "Find out whether sessions can run on a host", access.HostWrite),
		func(ctx context.Context, in *OfHost) (*Body[HostChecked], error) {
			if _, err := a.host(ctx, in, access.HostWrite); err != nil {
				return nil, err
			}
			out, err := a.sessions.CheckHost(ctx, in.Zone, in.Name)
			return answer(HostChecked{in.Name, out}, err)
		})
	drain := spotOf(http.MethodPost, "/{name}/drain", "drainHost", "Empty a host: no new session, and those that are there leave", access.HostWrite)
	drain.status = http.StatusAccepted
	add(a, drain, func(ctx context.Context, in *struct {
		OfHost
		Keyed
		Body *Drain
	}) (*Body[protocol.DrainView], error) {
		how := protocol.DrainPark
		if in.Body != nil && in.Body.How != "" {
			how = in.Body.How
		}
		return a.setHost(ctx, &in.OfHost, in.Keyed, protocol.SetHost{Drain: &protocol.Draining{How: how}})
	})
	undrain := spotOf(http.MethodPost, "/{name}/undrain", "undrainHost", "Let new sessions onto a host again; ends a drain", access.HostWrite)
	add(a, undrain, func(ctx context.Context, in *struct {
		OfHost
		Keyed
	}) (*Body[protocol.DrainView], error) {
		return a.setHost(ctx, &in.OfHost, in.Keyed, protocol.SetHost{Cordon: new(bool)})
	})
	add(a, spot{method: http.MethodGet, path: "/v1/pools", id: "listPools", summary: "List the zones, with slots and who waits", verb: access.HostRead, whole: true},
		func(ctx context.Context, in *Paged) (*Body[Page[protocol.PoolView]], error) {
			list, err := a.sessions.Pools(ctx)
			if err != nil {
				return nil, err
			}
			return answer(pageOf(*in, "pools", list, func(v protocol.PoolView) string { return v.Zone }))
		})
	add(a, spot{method: http.MethodGet, path: "/v1/pools/{zone}", id: "showPool", summary: "Show a zone's hosts, who waits and why, and the tenants", verb: access.HostRead, whole: true},
		func(ctx context.Context, in *struct {
			Zone string `path:"zone" maxLength:"63" doc:"zone"`
		}) (*Body[protocol.PoolView], error) {
			return answer(a.sessions.Pool(ctx, in.Zone))
		})
}

func objectOfHost(h protocol.HostView) access.Object {
	labels := map[string]string{}
	maps.Copy(labels, h.Found)
	maps.Copy(labels, h.Labels)
	return access.Object{Host: h.Name, HostLabels: labels}
}

func (a *API) hosts(ctx context.Context, in *hostsInput) (*Body[Page[protocol.HostView]], error) {
	all, err := a.sessions.Hosts(ctx, in.Zone)
	if err != nil {
		return nil, err
	}
	var list []protocol.HostView
	for _, h := range all {
		if a.records.May(ctx, access.HostRead, objectOfHost(h)) {
			list = append(list, h)
		}
	}
	return answer(pageOf(in.Paged, "hosts "+in.Zone, list, func(h protocol.HostView) string { return h.Name }))
}

// host returns a host to which the caller may do something.
func (a *API) host(ctx context.Context, in *OfHost, verb access.Verb) (protocol.HostView, error) {
	h, err := a.sessions.Host(ctx, in.Zone, in.Name)
	if err == nil && !a.records.May(ctx, verb, objectOfHost(h)) {
		err = forbidden("host "+in.Name, verb)
	}
	return h, err
}

func (a *API) setHost(ctx context.Context, in *OfHost, k Keyed, set protocol.SetHost) (*Body[protocol.DrainView], error) {
	if _, err := a.host(ctx, in, access.HostWrite); err != nil {
		return nil, err
	}
	set.Name = in.Name
	return answer(a.sessions.SetHost(ctx, k.of(ctx), in.Zone, set))
}

func forbidden(what string, verb access.Verb) error {
	return problem(http.StatusForbidden, "forbidden", "no binding gives you "+string(verb)+" for "+what, "`ctl access why` says which bindings were looked at")
}
