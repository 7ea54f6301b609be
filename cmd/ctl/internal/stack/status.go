package stack

import (
	"cmp"
	"context"
	"fmt"

	"github.com/spf13/cobra"
	"go.temporal.io/api/workflowservice/v1"

	"fairlead.dev/fairlead/cmd/ctl/internal/conn"
	"fairlead.dev/fairlead/cmd/ctl/internal/core"
	"fairlead.dev/fairlead/cmd/ctl/internal/show"
	"fairlead.dev/fairlead/internal/api"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/internal/stack"
)

// A statusView is the JSON of `ctl status`.
type statusView struct {
	Temporal struct {
		Address   string `json:"address"`
		Namespace string `json:"namespace"`
		UI        string `json:"ui"`
		PID       int    `json:"pid"`
		// CLI is a file for TEMPORAL_CONFIG_FILE of Temporal's own programs; empty if unknown.
		CLI string `json:"cli"`
		// PayloadKey is the id of ctl's key; empty if ctl does not encrypt payloads.
		PayloadKey    string `json:"payload_key"`
		CodecEndpoint string `json:"codec_endpoint"`
	} `json:"temporal"`
	Workers  []conn.WorkerView `json:"workers"`
	Store    api.StoreInfo     `json:"store"`
	Pools    []poolLine        `json:"pools"` // empty if no worker answers
	Versions struct {
		CTL      string `json:"ctl"`
		Worker   string `json:"worker"`
		Temporal string `json:"temporal"`
		Codex    string `json:"codex"`
	} `json:"versions"`
}

type poolLine struct {
	Zone    string              `json:"zone"`
	Slots   int                 `json:"slots"`
	Used    int                 `json:"used"`
	Waiting int                 `json:"waiting"`
	Paused  *protocol.PoolPause `json:"paused,omitempty"`
}

// poolLines leaves out zones that do not answer: the list of workers shows that they have
// none.
func poolLines(ctx context.Context, a *core.App, t *conn.Conn) []poolLine {
	lines := []poolLine{}
	ctx, cancel := a.Bounded(ctx, conn.AnswerWait)
	defer cancel()
	zones, err := t.Zones(ctx)
	if err != nil {
		a.Note("%v", err)
	}
	for _, zone := range zones {
		var v protocol.PoolView
		if t.Query(ctx, "show zone "+zone, protocol.PoolID(zone), protocol.QueryPool, &v) == nil {
			lines = append(lines, poolLine{v.Zone, v.Slots, v.Used, v.Waiting, v.Paused})
		}
	}
	return lines
}

func Status(a *core.App) *cobra.Command {
	return &cobra.Command{
		Use:     "status",
		Short:   "what is reachable: Temporal, workers, the store, versions",
		Example: "  ctl status\n  ctl status -o json | jq .workers",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, args []string) error {
			t, err := conn.Open(c.Context(), a)
			if err != nil {
				return err
			}
			v, err := status(c.Context(), a, t)
			if err != nil {
				return err
			}
			return a.Print().Show(v, v.text)
		},
	}
}

func status(ctx context.Context, a *core.App, t *conn.Conn) (*statusView, error) {
	v := &statusView{Workers: []conn.WorkerView{}}
	v.Temporal.Address, v.Temporal.Namespace = t.Address, t.Namespace
	v.Temporal.PayloadKey, _ = t.Codec.Encrypts()
	v.Versions.CTL = core.Version()
	cluster, cancel := a.Bounded(ctx, conn.AnswerWait)
	defer cancel()
	if info, err := t.WorkflowService().GetClusterInfo(cluster, &workflowservice.GetClusterInfoRequest{}); err == nil {
		v.Versions.Temporal = info.GetServerVersion()
	}
	own, err := conn.Stack(a)
	if err == nil && own.Temporal.Address == t.Address {
		v.Temporal.UI, v.Temporal.PID, v.Temporal.CLI = own.Temporal.UI, own.Temporal.PID, own.CLI
	} else {
		own = nil
	}
	workers, statuses, err := conn.Workers(ctx, a, t)
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
		v.Pools = poolLines(ctx, a, t)
	}
	v.Temporal.CodecEndpoint = codecEndpoint(own, statuses)
	return v, nil
}

// codecEndpoint is that of a worker or, if a worker of our stack has one, that of the stack's
// UI. own may be nil.
func codecEndpoint(own *stack.Info, statuses []api.Status) string {
	at := ""
	for _, st := range statuses {
		at = cmp.Or(at, st.CodecEndpoint)
	}
	if at != "" && own != nil && own.CodecEndpoint != "" {
		return own.CodecEndpoint
	}
	return at
}

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

func (v *statusView) webUI() string {
	if v.Temporal.CLI == "" {
		return v.Temporal.UI
	}
	return v.Temporal.UI + " (`ctl ui --temporal` logs you in)"
}

func (v *statusView) cli() string {
	if v.Temporal.CLI == "" {
		return ""
	}
	return "TEMPORAL_CONFIG_FILE=" + v.Temporal.CLI + " temporal workflow list"
}

func (v *statusView) text(p *core.Printer) {
	temporal := v.Temporal.Address + ", namespace " + v.Temporal.Namespace
	if v.Temporal.PID > 0 {
		temporal += fmt.Sprintf(", pid %d", v.Temporal.PID)
	}
	p.Fields(
		core.Plain("temporal"), core.Plain(temporal),
		core.Plain("web ui"), core.Plain(v.webUI()),
		core.Plain("cli"), core.Plain(v.cli()),
		core.Plain("payloads"), core.Plain(v.payloads()),
		core.Plain("store"), core.Plain(v.Store.URL),
		core.Plain("store id"), core.Plain(v.Store.ID),
		core.Plain("versions"), core.Plain(fmt.Sprintf("ctl %s, worker %s, temporal %s, codex %s", v.Versions.CTL,
			orNone(v.Versions.Worker), orNone(v.Versions.Temporal), orNone(v.Versions.Codex))),
	)
	if len(v.Workers) == 0 {
		p.Printf("%s\n", p.Paint(core.Yellow, "no worker polls: sessions wait until one does"))
		return
	}
	p.Printf("\n")
	var rows [][]core.Cell
	for _, w := range v.Workers {
		state := core.Painted(core.Green, "ready")
		if w.Refused {
			state = core.Painted(core.Red, "not trusted (`ctl doctor` says why)")
		} else if !w.Reachable {
			state = core.Painted(core.Red, "its API does not answer")
		} else if !w.Ready {
			state = core.Painted(core.Yellow, "waits for "+w.Problem)
		} else if w.Problem != "" {
			state = core.Painted(core.Yellow, "ready; "+w.Problem)
		}
		name := w.Identity
		if id, ok := api.ParseIdentity(w.Identity); ok {
			name = id.Name
		}
		rows = append(rows, []core.Cell{core.Plain(name), core.Plain(w.PID), core.Plain(w.Zone), core.Plain(w.API), state})
	}
	p.Table([]string{"WORKER", "PID", "ZONE", "API", "STATE"}, rows)
	for _, z := range v.Pools {
		if z.Paused != nil {
			p.Printf("%s\n", p.Paint(core.Yellow, "zone "+z.Zone+" is paused "+show.PauseText(z.Paused)+" (`ctl pool resume` ends it)"))
		}
		if z.Waiting > 0 {
			p.Printf("%d sessions wait in zone %s (`ctl pool show %s` says for what)\n", z.Waiting, z.Zone, z.Zone)
		}
	}
}

func orNone(s string) string {
	if s == "" {
		return "unknown"
	}
	return s
}
