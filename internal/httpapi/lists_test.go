package httpapi_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"fairlead.dev/fairlead/internal/access"
	"fairlead.dev/fairlead/internal/api"
)

// asked counts how often somebody asks what conditions see of a session.
type asked struct {
	api.Objects
	n atomic.Int64
}

func (a *asked) Session(_ context.Context, id string) (access.Object, bool, error) {
	a.n.Add(1)
	return access.Object{Session: id, Owner: "ann"}, true, nil
}

// Whoever can never read a session must not make the worker ask each of them.
func TestAListForSomebodyWhoMayReadNothingAsksNoSession(t *testing.T) {
	var objects asked
	p := serve(t, func(o *api.Options) { o.Objects = &objects })
	for _, target := range []string{"/v1/sessions", "/v1/approvals", "/v1/approvals?all=true"} {
		var page struct{ Items []any }
		r := p.ask("narrow", "GET", target, "")
		if err := json.Unmarshal(r.body, &page); err != nil || r.status != 200 || len(page.Items) != 0 {
			t.Errorf("%s: %d %s", target, r.status, r.body)
		}
	}
	if n := objects.n.Load(); n != 0 {
		t.Errorf("sessions were asked %d times", n)
	}
}

func TestAPrincipalHasAFewListsAtATime(t *testing.T) {
	p := serve(t)
	c := contractOf(p)
	const most = 4
	entered, release := make(chan struct{}, most+1), make(chan struct{})
	p.fake.lists = func() {
		entered <- struct{}{}
		<-release
	}
	statuses := make([]int, most+1)
	var asks sync.WaitGroup
	for i := range most {
		asks.Go(func() { statuses[i] = p.ask("viewer", "GET", "/v1/sessions", "").status })
	}
	for range most {
		<-entered
	}
	for _, target := range []string{"/v1/sessions", "/v1/approvals"} {
		r := p.ask("viewer", "GET", target, "")
		c.holds("GET", target, r)
		if got := r.problem(t); r.status != 429 || got.Kind != "busy" || r.header.Get("Retry-After") != "1" {
			t.Errorf("one list more, %s: %d, Retry-After %q, %s", target, r.status, r.header.Get("Retry-After"), r.body)
		}
	}
	if r := p.ask("operator", "GET", "/v1/approvals", ""); r.status != 200 {
		t.Errorf("a list of somebody else: %d %s", r.status, r.body)
	}
	close(release)
	asks.Wait()
	statuses[most] = p.ask("viewer", "GET", "/v1/sessions", "").status
	if slices.ContainsFunc(statuses, func(s int) bool { return s != 200 }) {
		t.Errorf("the lists ended with %v", statuses)
	}
}

// Somebody decides while a program reads page after page of the open approvals.
func TestAListOfApprovalsGoesOnAfterOneThatWasDecided(t *testing.T) {
	p := serve(t)
	var page struct {
		Items  []struct{ ID string }
		Cursor string
	}
	var ids []string
	for next := ""; ; next = "&cursor=" + page.Cursor {
		page.Items, page.Cursor = nil, ""
		r := p.ask("viewer", "GET", "/v1/approvals?limit=1"+next, "")
		if err := json.Unmarshal(r.body, &page); err != nil || r.status != 200 || len(page.Items) != 1 {
			t.Fatalf("after %v: %d %s", ids, r.status, r.body)
		}
		ids = append(ids, page.Items[0].ID)
		p.fake.gone = append(p.fake.gone, page.Items[0].ID)
		if page.Cursor == "" {
			break
		}
	}
	if fmt.Sprint(ids) != "[s1.1 s1.2 s2.1]" {
		t.Errorf("approvals %v", ids)
	}
}
