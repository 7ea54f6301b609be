package workflows

import (
	"testing"
	"time"

	"go.temporal.io/sdk/workflow"

	"fairlead.dev/fairlead/activities/logins"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/session"
)

func TestASessionThatDoesNotSayItGetsItsCredentialAsItsSeedAndTheOrganisationSay(t *testing.T) {
	const planted, gateway = protocol.CredentialsPlanted, protocol.CredentialsGateway
	for name, c := range map[string]struct {
		says, seed, organisation, host string
		way, by                        string
	}{
		"nobody says it":                    {},
		"the seed":                          {seed: gateway, way: gateway, by: protocol.BySeed},
		"the organisation":                  {organisation: gateway, way: gateway, by: protocol.ByOrganisation},
		"the seed before the organisation":  {seed: planted, organisation: gateway, way: planted, by: protocol.BySeed},
		"the session before both":           {says: planted, seed: gateway, organisation: gateway, way: planted},
		"the session":                       {says: gateway, way: gateway},
		"this host is none for the gateway": {seed: gateway, host: protocol.LocalHost, way: planted, by: protocol.ByLocalHost},
	} {
		w := newWorld(t)
		w.way, w.fake.way = c.seed, c.organisation
		if c.host != "" {
			w.hosts = []string{c.host}
		}
		w.fake.rest = endsTurn("completed", "done")
		w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
		w.whenTurn(1, "completed", func() {
			v := w.view()
			if v.Options["credentials"] != c.way || v.Options["credentials_by"] != c.by {
				t.Errorf("%s: the credential comes %s by %q, want %s by %q", name, v.Options["credentials"], v.Options["credentials_by"], c.way, c.by)
			}
			if query[protocol.SessionAsks](w, protocol.QueryAsks).Unsaid {
				t.Errorf("%s: it is to be decided again", name)
			}
			w.way, w.fake.way = gateway, gateway
			if c.way == gateway {
				w.way, w.fake.way = planted, ""
			}
			w.send(protocol.SignalPark, protocol.Park{})
		})
		w.when(protocol.Parked, func() { w.send(protocol.SignalMessage, hello("m2")) })
		w.whenTurn(2, "completed", func() {
			if v := w.view(); v.Options["credentials"] != c.way {
				t.Errorf("%s: after a change of the default, the credential comes %s", name, v.Options["credentials"])
			}
			w.send(protocol.SignalClose, protocol.Close{})
		})
		w.start(session.Options{Seed: "team", Host: c.host, Credentials: c.says, Snapshot: protocol.SnapshotOptions{Work: protocol.WorkFull}})
		for i, p := range w.fake.prepared {
			if p.Credentials != c.way && (i > 0 || c.by != protocol.ByOrganisation || p.Credentials != "") {
				t.Errorf("%s: preparation %d gives the credential %q", name, i, p.Credentials)
			}
		}
		for _, r := range w.fake.ran {
			if r.Credentials != c.way {
				t.Errorf("%s: a pump ran with %q", name, r.Credentials)
			}
		}
	}
}

// TestAHostThatAnOlderWorkerPreparedStaysPlanted covers a run in which a worker that knows no
// defaults of seeds met one: its history has no letter.
func TestAHostThatAnOlderWorkerPreparedStaysPlanted(t *testing.T) {
	w := newWorld(t)
	w.OnGetVersion("defaults of credentials", workflow.DefaultVersion, workflow.Version(1)).Return(workflow.DefaultVersion)
	w.way = protocol.CredentialsGateway
	w.fake.rest = endsTurn("completed", "done")
	w.at(time.Second, func() { w.send(protocol.SignalMessage, hello("m1")) })
	w.whenTurn(1, "completed", func() {
		if v := w.view(); v.Options["credentials"] != "" || v.Options["credentials_by"] != "" {
			t.Errorf("the credential comes %s by %q", v.Options["credentials"], v.Options["credentials_by"])
		}
		if query[protocol.SessionAsks](w, protocol.QueryAsks).Unsaid {
			t.Error("it is to be decided again")
		}
		w.send(protocol.SignalClose, protocol.Close{})
	})
	w.start(session.Options{Seed: "team", Snapshot: protocol.SnapshotOptions{Work: protocol.WorkFull}})
	if len(w.fake.prepared) != 1 || w.fake.prepared[0].Credentials != "" || len(w.fake.ran) != 1 || w.fake.ran[0].Credentials != "" {
		t.Errorf("prepared %+v, ran %+v", w.fake.prepared, w.fake.ran)
	}
}

func TestASeedTakesOnlyADefaultThatItCanServe(t *testing.T) {
	set := func(way string) protocol.SetSeed { return protocol.SetSeed{Credentials: &way} }
	of := func(generation, kind string) protocol.PutSeed {
		in := login(generation)
		in.Ref.Kind = kind
		return in
	}
	p, _ := newVerifyWorld(t, nil, nil)
	n := 0
	then := func(want string, do func()) {
		n++
		step := n
		p.at(time.Duration(n)*time.Second, func() {
			if v := p.seed(); v.Credentials != want {
				t.Errorf("before step %d, the default is %q, want %q", step, v.Credentials, want)
			}
			do()
		})
	}
	then("", func() {
		for _, way := range []string{protocol.CredentialsGateway, protocol.CredentialsBroker, ""} { // of a ChatGPT login
			p.refuses(p.send(protocol.UpdateSetSeed, set(way)), protocol.RefusedBadInput)
		}
		p.takes(p.send(protocol.UpdatePutSeed, of("2", "api_key")))
	})
	then("", func() { p.takes(p.send(protocol.UpdateSetSeed, set(protocol.CredentialsGateway))) })
	then("gateway", func() { p.takes(p.send(protocol.UpdateSetSeed, protocol.SetSeed{Share: new(int)})) })
	then("gateway", func() { p.takes(p.send(protocol.UpdatePutSeed, of("3", logins.KindChatGPT))) })
	then("", func() { p.takes(p.send(protocol.UpdatePutSeed, of("4", "api_key"))) })
	then("", func() { p.takes(p.send(protocol.UpdateSetSeed, set(protocol.CredentialsGateway))) })
	then("gateway", func() { p.takes(p.send(protocol.UpdateSetSeed, set(protocol.NoDefault))) })
	then("", func() {})
	p.runSeed(time.Minute)
}
