package teamtool

import (
	"fmt"
	"slices"
	"strings"

	"fairlead.dev/fairlead/internal/protocol"
)

// OfSeed reads the tools that a seed gives to its sessions: a file as Parse reads it. nil has
// none. Any session may get them, so none has the name of a tool that starts or awaits sessions.
func OfSeed(file []byte) ([]protocol.TeamTool, error) {
	if file == nil {
		return nil, nil
	}
	given, err := Parse(file)
	if err != nil {
		return nil, err
	}
	for _, name := range given.Names {
		if slices.Contains(protocol.ChildTools, name) {
			return nil, fmt.Errorf("tool %s: Fairlead has a tool of this name: choose another one", name)
		}
	}
	return protocol.ParseTeamTools(given.Text)
}

// Join returns the tools of a session in their order: those of its seed, then its own. A tool of
// its own takes the place of the seed's tool of the same name.
func Join(seed, own []protocol.TeamTool) []protocol.TeamTool {
	var all []protocol.TeamTool
	for _, t := range seed {
		if !slices.ContainsFunc(own, func(o protocol.TeamTool) bool { return o.Name == t.Name }) {
			all = append(all, t)
		}
	}
	return append(all, own...)
}

// Shown describes the tools of a seed for people: their names, and who carries out the calls.
func Shown(tools []protocol.TeamTool) (all []protocol.SeedTool) {
	for _, t := range tools {
		handler := "webhook " + t.Webhook
		if t.Activity != nil {
			handler = "activity " + t.Activity.Type + " on the queue " + t.Activity.Queue
		}
		handler = strings.ToValidUTF8(handler[:min(len(handler), protocol.MaxSeedHandler)], "")
		all = append(all, protocol.SeedTool{Name: t.Name, Handler: handler})
	}
	return all
}
