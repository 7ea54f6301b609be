package session

import (
	"context"
	"strings"

	"fairlead.dev/fairlead/cmd/ctl/internal/conn"
	"fairlead.dev/fairlead/cmd/ctl/internal/core"
	"fairlead.dev/fairlead/cmd/ctl/internal/live"
	"fairlead.dev/fairlead/internal/protocol"
)

// showInstructions prints what codex is told before all messages. Before a host is prepared,
// that is only what the session itself was given.
func showInstructions(ctx context.Context, a *core.App, t *conn.Conn, id string) error {
	v, err := live.Session(ctx, a, t, id)
	if err != nil {
		return err
	}
	worker, err := conn.WorkerFor(ctx, a, t, id)
	if err != nil {
		return err
	}
	in, err := worker.Instructions(ctx, id)
	if err != nil {
		err = conn.APIFailure("read the instructions of session "+id, err)
		if core.ExitCode(err) != core.ExitNotFound {
			return err
		}
		in = protocol.Instructions{Session: id, Parts: []protocol.InstructionPart{}}
		if g := v.Given; g != nil {
			a.Note("no host was prepared for session %s yet: these are its own instructions, to which those of the organisation and the seed are added", id)
			if g.Agents != nil && g.Agents.Text != "" {
				in.Parts = append(in.Parts, protocol.InstructionPart{Of: protocol.OfSession, Text: g.Agents.Text})
			}
			if g.Base != nil {
				in.Base = g.Base.Text
			}
		}
	}
	in.Developer = v.Options["instructions"]
	return a.Print().Show(in, func(p *core.Printer) { printInstructions(p, in) })
}

func printInstructions(p *core.Printer, in protocol.Instructions) {
	some := false
	section := func(head, text string) {
		if some {
			p.Printf("\n")
		}
		some = true
		p.Printf("%s\n%s\n", p.Paint(core.Bold, head), core.Clean(strings.TrimRight(text, "\n")))
	}
	for _, part := range in.Parts {
		head := "# " + part.Of
		if part.Name != "" {
			head += " " + part.Name
		}
		if in.File != "" {
			head += ", in " + in.File + " of CODEX_HOME"
		}
		section(core.Clean(head), part.Text)
	}
	if in.Developer != "" {
		section("# session, in the developer's name", in.Developer)
	}
	if in.Base != "" {
		section("# base instructions, in place of codex's own", in.Base)
	}
	if !some {
		p.Printf("codex is told nothing but what is its own and what the work folder has\n")
	}
}
