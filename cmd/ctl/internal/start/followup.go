package start

import (
	"fairlead.dev/fairlead/cmd/ctl/internal/core"
	"fairlead.dev/fairlead/internal/followup"
	"fairlead.dev/fairlead/internal/protocol"
)

const maxFollowUpFile = 192 << 10

// readFollowUps returns the rules in a file of --follow-up.
func readFollowUps(name string) ([]protocol.FollowUp, error) {
	data, err := core.ReadSmall("--follow-up", name, maxFollowUpFile)
	if err != nil {
		return nil, err
	}
	rules, err := followup.Parse("--follow-up "+name, data)
	if err != nil {
		return nil, core.Usage("%v", err).Hinted(followup.Example)
	}
	return rules, nil
}
