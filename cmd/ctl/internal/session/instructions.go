package session

import (
	"context"
	"fmt"
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
		if v.Given != nil {
			a.Note("no host was prepared for session %s yet: these are its own instructions, to which those of the organisation and the seed are added", id)
		}
		in = given(id, v.Given)
	}
	in.Developer = v.Options["instructions"]
	return a.Print().Show(in, func(p *core.Printer) { printInstructions(p, in) })
}

// given returns a session's own instructions. Of long ones it has only the length: their text is
// in the store.
func given(id string, g *protocol.GivenView) protocol.Instructions {
	in := protocol.Instructions{Session: id, Parts: []protocol.InstructionPart{}}
	if g == nil {
		return in
	}
	if t := g.Agents; t != nil {
		part := protocol.InstructionPart{Of: protocol.OfSession, Text: t.Text}
		if t.Text == "" {
			part.Bytes = t.Bytes
		}
		in.Parts = append(in.Parts, part)
	}
	if t := g.Base; t != nil {
		in.Base = t.Text
		if t.Text == "" {
			in.BaseBytes = t.Bytes
		}
	}
	return in
}

func stored(bytes int) string {
	return fmt.Sprintf("(%d bytes are given: the text is shown once a host is prepared)", bytes)
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
		text := part.Text
		if part.Bytes > 0 {
			text = stored(part.Bytes)
		}
		section(core.Clean(head), text)
	}
	if in.Developer != "" {
		section("# session, in the developer's name", in.Developer)
	}
	base := in.Base
	if in.BaseBytes > 0 {
		base = stored(in.BaseBytes)
	}
	if base != "" {
		section("# base instructions, in place of codex's own", base)
	}
	if !some {
		p.Printf("codex is told nothing but what is its own and what the work folder has\n")
	}
}
