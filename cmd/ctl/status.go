package main

import (
	"cmp"
	"context"
	"fmt"

	"github.com/spf13/cobra"
	"go.temporal.io/api/workflowservice/v1"

	"fairlead.dev/fairlead/internal/api"
	"fairlead.dev/fairlead/workflows"
)

// A statusView is the JSON of `ctl status`.
type statusView struct {
	Temporal struct {
		Address   string `json:"address"`
		Namespace string `json:"namespace"`
		UI        string `json:"ui"`
		PID       int    `json:"pid"`
		// PayloadKey is the id of the key with which ctl encrypts what it sends, empty if
		// it does not encrypt.
		PayloadKey    string `json:"payload_key"`
		CodecEndpoint string `json:"codec_endpoint"`
	} `json:"temporal"`
	Workers  []workerView  `json:"workers"`
	Store    api.StoreInfo `json:"store"`
	Pools    []poolLine    `json:"pools"` // empty if no worker answers
	Versions struct {
		CTL      string `json:"ctl"`
		Worker   string `json:"worker"`
		Temporal string `json:"temporal"`
		Codex    string `json:"codex"`
	} `json:"versions"`
}

// A workerView is one worker. Reachable says whether its API answers from here.
type workerView struct {
	Identity   string   `json:"identity"`
	PID        int      `json:"pid"`
	TaskQueues []string `json:"task_queues"`
	API        string   `json:"api"`
	Reachable  bool     `json:"reachable"`
	Ready      bool     `json:"ready"`
	Zone       string   `json:"zone"`
	Version    string   `json:"version"`
	StoreID    string   `json:"store_id"`
	PayloadKey string   `json:"payload_key"` // the id of the key that encrypts, empty for none
	Problem    string   `json:"problem,omitempty"`
}

// A poolLine is the summary of a zone's pool.
type poolLine struct {
	Zone    string               `json:"zone"`
	Slots   int                  `json:"slots"`
	Used    int                  `json:"used"`
	Waiting int                  `json:"waiting"`
	Paused  *workflows.PoolPause `json:"paused,omitempty"`
}

// poolLines queries each zone. It omits a zone that does not answer: the list of workers
// already shows that it has none.
func (a *app) poolLines(ctx context.Context, t *temporal) []poolLine {
	lines := []poolLine{}
	ctx, cancel := a.bounded(ctx, answerWait)
	defer cancel()
	zones, err := t.zones(ctx)
	if err != nil {
		a.note("%v", err)
	}
	for _, zone := range zones {
		var v workflows.PoolView
		if t.query(ctx, "show zone "+zone, workflows.PoolID(zone), workflows.QueryPool, &v) == nil {
			lines = append(lines, poolLine{v.Zone, v.Slots, v.Used, v.Waiting, v.Paused})
		}
	}
	return lines
}

func statusCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "status",
		Short:   "what is reachable: Temporal, workers, the store, versions",
		Example: "  ctl status\n  ctl status -o json | jq .workers",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, args []string) error {
			t, err := a.temporal(c.Context())
			if err != nil {
				return err
			}
			v, err := a.status(c.Context(), t)
			if err != nil {
				return err
			}
			return a.print().show(v, v.text)
		},
	}
}

func (a *app) status(ctx context.Context, t *temporal) (*statusView, error) {
	v := &statusView{Workers: []workerView{}}
	v.Temporal.Address, v.Temporal.Namespace = t.address, t.namespace
	v.Temporal.PayloadKey, _ = t.codec.Encrypts()
	v.Versions.CTL = version()
	cluster, cancel := a.bounded(ctx, answerWait)
	defer cancel()
	if info, err := t.WorkflowService().GetClusterInfo(cluster, &workflowservice.GetClusterInfoRequest{}); err == nil {
		v.Versions.Temporal = info.GetServerVersion()
	}
	own, err := a.stack()
	if err == nil && own.Temporal.Address == t.address {
		v.Temporal.UI, v.Temporal.PID = own.Temporal.UI, own.Temporal.PID
	}
	workers, statuses, err := a.workers(ctx, t)
	if err != nil {
		return nil, err
	}
	v.Workers = append(v.Workers, workers...)
	for _, st := range statuses {
		v.Store, v.Versions.Worker, v.Versions.Codex = st.Store, st.Version, st.Codex
		break
	}
	v.Pools = []poolLine{}
	if len(statuses) > 0 {
		v.Pools = a.poolLines(ctx, t)
	}
	for _, st := range statuses {
		v.Temporal.CodecEndpoint = cmp.Or(v.Temporal.CodecEndpoint, st.CodecEndpoint)
	}
	return v, nil
}

// workers asks every known worker for its status. A worker that does not answer is listed
// with what the task queue knows of it. A worker that was replaced is left out.
func (a *app) workers(ctx context.Context, t *temporal) (views []workerView, statuses []api.Status, err error) {
	conf, err := a.config()
	if err != nil {
		return nil, nil, err
	}
	polls, err := t.pollers(ctx, conf.Zone)
	if err != nil {
		return nil, nil, err
	}
	if own, err := a.stack(); err == nil && own.Temporal.Address == t.address {
		for _, w := range own.Workers {
			if id, ok := api.ParseIdentity(w.Identity); ok {
				polls = append(polls, poller{Identity: id, text: w.Identity})
			}
		}
	}
	answered := map[string]bool{}
	var silent []workerView
	for _, p := range polls {
		if _, done := answered[p.API]; done {
			continue
		}
		st, err := func() (api.Status, error) {
			c, err := api.Connect(p.API, conf.API)
			if err != nil {
				return api.Status{}, err
			}
			defer c.Close()
			return a.askWorker(ctx, c)
		}()
		if ctx.Err() != nil {
			return nil, nil, context.Cause(ctx)
		}
		answered[p.API] = err == nil
		if err != nil {
			silent = append(silent, workerView{Identity: p.text, PID: p.PID, API: p.API, TaskQueues: []string{}, Problem: clean(err.Error())})
			continue
		}
		statuses = append(statuses, st)
		views = append(views, workerView{
			Identity: st.Identity, PID: st.PID, TaskQueues: st.TaskQueues, API: st.API, Reachable: true,
			Ready: st.Ready, Zone: st.Zone, Version: st.Version, StoreID: st.Store.ID, PayloadKey: st.PayloadKey, Problem: st.Waits,
		})
	}
	return append(views, silent...), statuses, nil
}

// payloads says whether the payloads that Temporal keeps are encrypted.
func (v *statusView) payloads() string {
	if v.Temporal.PayloadKey == "" {
		return "plain: whoever reads Temporal's database reads prompts and commands"
	}
	text := "encrypted with key " + v.Temporal.PayloadKey
	if v.Temporal.CodecEndpoint != "" {
		text += ", read by the UI through " + v.Temporal.CodecEndpoint
	}
	return text
}

func (v *statusView) text(p *printer) {
	temporal := v.Temporal.Address + ", namespace " + v.Temporal.Namespace
	if v.Temporal.PID > 0 {
		temporal += fmt.Sprintf(", pid %d", v.Temporal.PID)
	}
	p.fields(
		plain("temporal"), plain(temporal),
		plain("web ui"), plain(v.Temporal.UI),
		plain("payloads"), plain(v.payloads()),
		plain("store"), plain(v.Store.URL),
		plain("store id"), plain(v.Store.ID),
		plain("versions"), plain(fmt.Sprintf("ctl %s, worker %s, temporal %s, codex %s", v.Versions.CTL,
			orNone(v.Versions.Worker), orNone(v.Versions.Temporal), orNone(v.Versions.Codex))),
	)
	if len(v.Workers) == 0 {
		p.printf("%s\n", p.paint(yellow, "no worker polls: sessions wait until one does"))
		return
	}
	p.printf("\n")
	var rows [][]cell
	for _, w := range v.Workers {
		state := painted(green, "ready")
		if !w.Reachable {
			state = painted(red, "its API does not answer")
		} else if !w.Ready {
			state = painted(yellow, "waits for "+w.Problem)
		}
		name := w.Identity
		if id, ok := api.ParseIdentity(w.Identity); ok {
			name = id.Name
		}
		rows = append(rows, []cell{plain(name), plain(w.PID), plain(w.Zone), plain(w.API), state})
	}
	p.table([]string{"WORKER", "PID", "ZONE", "API", "STATE"}, rows)
	for _, z := range v.Pools {
		if z.Paused != nil {
			p.printf("%s\n", p.paint(yellow, "zone "+z.Zone+" is paused "+pauseText(z.Paused)+" (`ctl pool resume` ends it)"))
		}
		if z.Waiting > 0 {
			p.printf("%d sessions wait in zone %s (`ctl pool show %s` says for what)\n", z.Waiting, z.Zone, z.Zone)
		}
	}
}

func orNone(s string) string {
	if s == "" {
		return "unknown"
	}
	return s
}
