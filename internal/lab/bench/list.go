package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"fairlead.dev/fairlead/internal/lab"
	"fairlead.dev/fairlead/internal/protocol"
)

const listPage = 100 // the default of `ctl session list`

// measureList lists many sessions. They are workflows with the type, id and
// search attributes of sessions, but no worker runs them. Temporal lists them
// like sessions, and ctl takes them for ended ones, which most of a list are.
// Then it lists a whole page of sessions that answer queries.
func measureList(ctx context.Context, o *options) (err error) {
	f, err := newFleet(ctx, lab.Options{Repo: o.repo, Script: []byte(script), Keep: o.keep}, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	const queue = "bench-listed"
	w := worker.New(f.c, queue, worker.Options{})
	w.RegisterWorkflowWithOptions(listed, workflow.RegisterOptions{Name: protocol.TypeSession})
	if err := w.Start(); err != nil {
		return err
	}
	defer w.Stop()
	begin := time.Now()
	if err := f.startListed(ctx, "bench-nobody", protocol.Closed, o.listed); err != nil {
		return err
	}
	fmt.Printf("  %d sessions made in %v\n", o.listed, time.Since(begin).Round(time.Second))
	if err := f.lists(ctx, o, "ended ones"); err != nil {
		return err
	}
	if err := f.startListed(ctx, queue, protocol.Parked, listPage); err != nil {
		return err
	}
	return f.lists(ctx, o, "ones that are there and are asked")
}

// listed is a workflow that looks like a session in a list.
func listed(ctx workflow.Context, id string, state protocol.SessionStatus) error {
	view := protocol.SessionView{ID: id, State: state, Host: "web-1", Seed: "team", CreatedAt: workflow.GetInfo(ctx).WorkflowStartTime,
		Requests: []protocol.RequestBrief{}, Messages: []protocol.MessageView{}, Budget: &protocol.BudgetView{}}
	if err := workflow.SetQueryHandler(ctx, protocol.QueryState, func() (protocol.SessionView, error) { return view, nil }); err != nil {
		return err
	}
	return workflow.Await(ctx, func() bool { return false })
}

// startListed starts n more and waits until lists have them.
func (f *fleet) startListed(ctx context.Context, queue string, state protocol.SessionStatus, n int) error {
	ids := make([]string, n)
	for i := range ids {
		ids[i] = fmt.Sprintf("%s-%06d", state, i)
	}
	attrs := temporal.NewSearchAttributes(
		temporal.NewSearchAttributeKeyKeyword("FairleadState").ValueSet(string(state)), temporal.NewSearchAttributeKeyKeyword("FairleadHost").ValueSet("web-1"),
		temporal.NewSearchAttributeKeyKeyword("FairleadSeed").ValueSet("team"), temporal.NewSearchAttributeKeyInt64("FairleadTurn").ValueSet(1),
	)
	err := each(ids, 16, func(id string) error {
		_, err := f.c.ExecuteWorkflow(ctx, client.StartWorkflowOptions{ID: protocol.SessionID(id), TaskQueue: queue, TypedSearchAttributes: attrs},
			protocol.TypeSession, id, state)
		return err
	})
	if err != nil {
		return err
	}
	query := fmt.Sprintf("WorkflowType = '%s' AND FairleadState = '%s'", protocol.TypeSession, state)
	return lab.Until(ctx, fmt.Sprintf("%d sessions that are %s", n, state), func() (bool, error) {
		r, err := f.c.CountWorkflow(ctx, &workflowservice.CountWorkflowExecutionsRequest{Query: query})
		return err == nil && r.GetCount() == int64(n), err
	})
}

// lists measures ctl's first page, the same page queried by a connected client,
// the same page over HTTP, and the time that ctl takes to start and exit.
func (f *fleet) lists(ctx context.Context, o *options, of string) error {
	api := f.program()
	defer api.CloseIdleConnections()
	var ours, plain, bare, overHTTP series
	for range o.lists {
		for _, one := range []struct {
			to *series
			do func() error
		}{
			{&ours, func() error { return linesOf(f.lab.Command(ctx, "session", "list"), listPage+1) }},
			{&plain, func() error { return f.plainPage(ctx) }},
			{&overHTTP, func() error { return apiPage(ctx, api) }},
			{&bare, func() error { return linesOf(f.lab.Command(ctx, "--help"), 1) }},
		} {
			begin := time.Now()
			if err := one.do(); err != nil {
				return err
			}
			*one.to = append(*one.to, time.Since(begin))
		}
	}
	fmt.Printf("  the first page, %d %s\n", listPage, of)
	ours.against("ctl session list, its process included", 300*time.Millisecond)
	overHTTP.against("GET /v1/sessions?limit=100, on a kept connection", 100*time.Millisecond)
	fmt.Printf("  ctl --help, which asks nobody                  %v\n", bare)
	compare(ours, plain)
	fmt.Printf("  load average                                   %s\n", loadAverage())
	return nil
}

func linesOf(cmd *exec.Cmd, least int) error {
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%v: %w: %.200s", cmd.Args, err, out)
	}
	if n := strings.Count(string(out), "\n"); n < least {
		return fmt.Errorf("%v: %d lines of at least %d", cmd.Args, n, least)
	}
	return nil
}

func (f *fleet) plainPage(ctx context.Context) error {
	r, err := f.c.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{PageSize: listPage,
		Query: fmt.Sprintf("WorkflowType = '%s' AND ExecutionStatus != 'ContinuedAsNew' AND FairleadArchived IS NULL", protocol.TypeSession)})
	if err == nil && len(r.GetExecutions()) != listPage {
		err = fmt.Errorf("a page of %d", len(r.GetExecutions()))
	}
	return err
}

// program returns a client of the worker's API.
func (f *fleet) program() *http.Client {
	socket := filepath.Join(f.lab.State, "api.sock")
	return &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	}}}
}

// apiPage reads a page of sessions as a program does.
func apiPage(ctx context.Context, c *http.Client) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://worker/v1/sessions?limit=%d", listPage), nil)
	if err != nil {
		return err
	}
	resp, err := c.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	var page struct{ Items []protocol.SessionView }
	if err := json.NewDecoder(resp.Body).Decode(&page); err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK || len(page.Items) != listPage {
		return fmt.Errorf("status %d and %d sessions of %d", resp.StatusCode, len(page.Items), listPage)
	}
	return nil
}
