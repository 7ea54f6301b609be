package console

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"fairlead.dev/fairlead/internal/access"
	"fairlead.dev/fairlead/internal/protocol"
)

type hostList struct {
	Zone  string
	Hosts []protocol.HostView
	Pools []poolRow // of those who may read all of a zone
	Queue []protocol.PoolWaiter
	More  bool
}

// A poolRow is a zone with its slots, now and over time.
type poolRow struct {
	protocol.PoolView
	Over *slotGraph // nil if nobody keeps it
}

// hosts lists the hosts of a zone, and the zones with their slots.
func (v *visit) hosts() error {
	list := hostList{Zone: strings.TrimSpace(v.r.URL.Query().Get("zone"))}
	var page struct {
		Items  []protocol.HostView `json:"items"`
		Cursor string              `json:"cursor"`
	}
	if err := v.get("/v1/hosts?"+url.Values{"limit": {"500"}, "zone": {list.Zone}}.Encode(), &page); err != nil {
		return err
	}
	list.Hosts, list.More = page.Items, page.Cursor != ""
	var pools struct {
		Items []protocol.PoolView `json:"items"`
	}
	var p *Problem
	if err := v.get("/v1/pools?limit=500", &pools); err != nil && !errors.As(err, &p) {
		return err
	}
	for _, pool := range pools.Items {
		row := poolRow{PoolView: pool}
		if v.opts.Slots != nil {
			now := time.Now()
			row.Over = graphOf(append(v.opts.Slots(pool.Zone), SlotSample{now, pool.Slots, pool.Used, pool.Waiting}), now)
		}
		list.Pools = append(list.Pools, row)
		if pool.Zone == list.Zone || list.Zone == "" && len(list.Hosts) > 0 && pool.Zone == list.Hosts[0].Zone {
			list.Queue = pool.Queue
		}
	}
	return v.show(http.StatusOK, "hosts", "Hosts", "hosts", "/live?"+url.Values{"of": {"hosts"}, "zone": {list.Zone}}.Encode(), list)
}

type hostPage struct {
	protocol.HostView
	Query  string // with the zone
	Labels []string
	May    bool
	Checks []protocol.Check // of a check that this page asked for
}

// Drains reports whether the host is on its way to be empty, or is so.
func (h hostPage) Drains() bool { return h.Drain != nil || h.State == "cordoned" }

// hostQuery is what follows the path of a host.
func (v *visit) hostQuery() string {
	if zone := v.r.URL.Query().Get("zone"); zone != "" {
		return "?" + url.Values{"zone": {zone}}.Encode()
	}
	return ""
}

func (v *visit) readHost() (h hostPage, err error) {
	h.Query = v.hostQuery()
	if err := v.get("/v1/hosts/"+url.PathEscape(v.r.PathValue("name"))+h.Query, &h.HostView); err != nil {
		return h, err
	}
	all := map[string]string{}
	maps.Copy(all, h.Found)
	maps.Copy(all, h.HostView.Labels)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		h.Labels = append(h.Labels, name+"="+all[name])
	}
	h.May = v.may(access.HostWrite, "")
	return h, nil
}

func (v *visit) host() error {
	h, err := v.readHost()
	if err != nil {
		return err
	}
	return v.showHost(nil, http.StatusOK, h)
}

func (v *visit) showHost(p *Problem, status int, h hostPage) error {
	live := "/live?" + url.Values{"of": {"host"}, "id": {h.Name}, "zone": {v.r.URL.Query().Get("zone")}}.Encode()
	if h.Checks != nil {
		live = "" // the answer to a form cannot be fetched again
	}
	return v.showWith(p, status, "host", "Host "+h.Name, "hosts", live, h)
}

// hostAct changes a host, after a question, or checks it.
func (v *visit) hostAct() error {
	h, err := v.readHost()
	if err != nil {
		return err
	}
	at := "/hosts/" + url.PathEscape(h.Name)
	act := v.r.PathValue("act")
	c := change{Verb: access.HostWrite, Path: "/v1" + at + "/" + act + h.Query,
		Question: question{Action: at + "/" + act + h.Query, Back: at + h.Query}}
	here := plural(h.Used, "session has a slot here", "sessions have a slot here")
	switch act {
	case "drain":
		how := choice{Name: "how", Legend: "What sessions do when their turn has ended", Is: protocol.DrainPark,
			Options: []option{{protocol.DrainPark, "park, until their next message"}, {protocol.DrainMove, "move to another host"}}}
		c.Title, c.Question.Button, c.Question.Grave = "Drain host "+h.Name, "Drain it", true
		c.Question.Text = []string{here + ". They leave it when their turn has ended.", "No new session comes onto it until somebody lets them."}
		c.Question.Choices = []choice{how}
		c.Body = func(f url.Values) any { return map[string]string{"how": how.Given(f)} }
	case "undrain":
		c.Title, c.Question.Button = "Let sessions onto host "+h.Name, "Let them"
		c.Question.Text = []string{"The host takes new sessions again. If it is being drained, the drain ends."}
	case "check":
		if v.r.Method == http.MethodPost {
			return v.checkHost(h, c.Path)
		}
		c.Title, c.Question.Button = "Check host "+h.Name, "Check it"
		c.Question.Text = []string{"A worker logs in to it, and finds out whether sessions can run there. This may take a minute."}
	default:
		return v.nowhere()
	}
	return v.confirm("hosts", c)
}

// checkWait is how long a page waits for the check of a host.
const checkWait = time.Minute

func (v *visit) checkHost(h hostPage, path string) error {
	var found struct {
		protocol.CheckHostResult
	}
	// The API waits for a check for some seconds. Whoever asks again waits for the same one.
	var p *Problem
	var err error
	for end := time.Now().Add(checkWait); ; {
		err = v.ask(v.r.Context(), http.MethodPost, path, "", nil, &found)
		if !errors.As(err, &p) || p.Status != http.StatusGatewayTimeout || time.Now().After(end) {
			break
		}
		p = nil
	}
	if errors.As(err, &p) && p.Status != http.StatusUnauthorized {
		h.Checks = []protocol.Check{}
		return v.showHost(p, p.Status, h)
	}
	if err != nil {
		return err
	}
	checks := found.Checks
	if h, err = v.readHost(); err != nil {
		return err
	}
	h.Checks = append([]protocol.Check{}, checks...)
	if !found.OK {
		p = &Problem{Status: http.StatusOK, Detail: fmt.Sprintf("sessions cannot run on %s", h.Name)}
	}
	return v.showHost(p, http.StatusOK, h)
}
