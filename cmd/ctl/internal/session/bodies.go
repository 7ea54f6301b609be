package session

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"fairlead.dev/fairlead/activities/records"
	"fairlead.dev/fairlead/cmd/ctl/internal/conn"
	"fairlead.dev/fairlead/cmd/ctl/internal/core"
)

func bodiesCommand(a *core.App) *cobra.Command {
	return &cobra.Command{
		Use: "bodies ID [BODY]", Short: "what codex asked the model gateway, and what it got", Args: cobra.RangeArgs(1, 2),
		Long: `Lists the bodies that workers kept of a session's requests to the model gateway, oldest first,
or shows one. Workers keep them only if models.bodies in their configuration says so, for the
time that it says. Reading one needs the right to run commands in the session, and is on the
audit record.`,
		Example: "  ctl session bodies release-42\n  ctl session bodies release-42 20261103t120000.000000z-20261102t120000.000000z-abcdefgh",
		RunE: func(c *cobra.Command, args []string) error {
			if err := core.CheckName("session id", args[0]); err != nil {
				return err
			}
			t, err := conn.Open(c.Context(), a)
			if err != nil {
				return err
			}
			worker, err := conn.AnyWorker(c.Context(), a, t)
			if err != nil {
				return err
			}
			if len(args) == 2 {
				b, err := worker.ModelBody(c.Context(), args[0], args[1])
				if err != nil {
					return conn.APIFailure("read a body of session "+args[0], err)
				}
				return a.Print().Show(b, func(p *core.Printer) { showBody(p, b) })
			}
			list, err := worker.ModelBodies(c.Context(), args[0])
			if err != nil {
				return conn.APIFailure("list the bodies of session "+args[0], err)
			}
			return core.ShowAll(a.Print(), list, func(p *core.Printer) {
				if len(list) == 0 {
					p.Printf("nothing is kept: models.bodies in the configuration of workers says whether bodies are\n")
					return
				}
				var rows [][]core.Cell
				for _, b := range list {
					rows = append(rows, []core.Cell{core.Plain(b.ID), core.Plain(core.Age(b.At)), core.Plain(b.Until.UTC().Format("2006-01-02 15:04 MST")), core.Plain(b.Bytes)})
				}
				p.Table([]string{"BODY", "ASKED", "KEPT UNTIL", "BYTES"}, rows)
			})
		},
	}
}

func showBody(p *core.Printer, b records.ModelBody) {
	how := fmt.Sprintf("%s, status %d, %d attempts", b.Kind, b.Status, b.Attempts)
	if b.Message != "" {
		how += ": " + b.Message
	}
	p.Fields(core.Plain("body"), core.Plain(b.ID), core.Plain("at"), core.Plain(b.At.UTC().Format("2006-01-02 15:04:05.000 MST")), core.Plain("asked"), core.Plain(b.Path+" "+b.Model),
		core.Plain("of"), core.Plain(strings.TrimSpace(b.Upstream+" "+b.Asked)), core.Plain("ended"), core.Plain(how))
	for _, part := range []struct {
		name string
		text records.BodyText
	}{{"request", b.Request}, {"answer", b.Answer}} {
		head := fmt.Sprintf("# %s, %d bytes", part.name, part.text.Bytes)
		if part.text.Cut {
			head += fmt.Sprintf(", of which about the first %d are kept", len(part.text.Text))
		}
		p.Printf("\n%s\n%s\n", p.Paint(core.Bold, head), strings.TrimRight(part.text.Text, "\n"))
	}
}
