package host

import (
	"fmt"
	"strconv"
	"strings"

	"fairlead.dev/fairlead/cmd/ctl/internal/core"
	"fairlead.dev/fairlead/internal/protocol"
)

func foldersText(h protocol.HostView) string {
	if h.Folders == nil {
		return ""
	}
	text := fmt.Sprintf("looked at %s", h.Folders.At.Local().Format("2006-01-02 15:04:05"))
	if n := h.Folders.Unknown; n > 0 {
		text += fmt.Sprintf(", %d of them unknown", n)
	}
	return text
}

// showUnknownFolders lists folders of no known session and what to do about them.
func showUnknownFolders(p *core.Printer, h protocol.HostView) {
	if h.Folders == nil || h.Folders.Unknown == 0 {
		return
	}
	dir := core.Clean(h.Folders.Dir) // reported by the host
	p.Printf("\n%s\n", p.Paint(core.Yellow, fmt.Sprintf("not known to be of sessions of this installation, and left alone: %s in %s", core.CountOf(h.Folders.Unknown, "folder"), dir)))
	var rows [][]core.Cell
	for _, f := range h.UnknownFolders {
		generation := ""
		if f.Generation > 0 {
			generation = strconv.FormatInt(f.Generation, 10)
		}
		rows = append(rows, []core.Cell{core.Painted(core.Bold, f.Session), core.Plain(generation), core.Plain(f.Since), core.Plain(f.Why)})
	}
	if more := h.Folders.Unknown - len(rows); more > 0 && len(rows) > 0 {
		rows = append(rows, []core.Cell{core.Plain(fmt.Sprintf("and %d more", more)), core.Plain(""), core.Plain(""), core.Plain("")})
	}
	if len(rows) > 0 {
		p.Table([]string{"SESSION", "GENERATION", "SINCE", ""}, rows)
	}
	p.Printf("another installation that shares this host may live there, or sessions from before this one's database was lost; see `ctl host exec %s -- ls -la '%s'`, keep what is worth it, and remove by hand what nobody uses\n", h.Name, strings.ReplaceAll(dir, "'", `'\''`))
}
