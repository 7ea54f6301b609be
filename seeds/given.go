package seeds

import (
	"encoding/json"
	"errors"

	"fairlead.dev/fairlead/internal/followup"
	"fairlead.dev/fairlead/internal/protocol"
)

// Tools returns the tools that the seed gives to each of its sessions, as the JSON of a file of
// tools, or nil. They are not checked. The bundle may be nil.
func (b *Bundle) Tools() ([]byte, error) {
	if b == nil {
		return nil, nil
	}
	own, err := settingsOf(b.File(settingsFile))
	if err != nil || own == nil || own.Tools == nil {
		return nil, err
	}
	file, err := json.Marshal(map[string]any{"tools": own.Tools})
	if err != nil {
		return nil, errors.New("tools in the settings cannot be written as JSON: want texts, numbers, lists and keys that are texts")
	}
	return file, nil
}

// FollowUps returns the rules for follow-ups that the seed gives to each of its sessions. The
// bundle may be nil.
func (b *Bundle) FollowUps() ([]protocol.FollowUp, error) {
	if b == nil {
		return nil, nil
	}
	own, err := settingsOf(b.File(settingsFile))
	if err != nil || own == nil {
		return nil, err
	}
	return followup.OfSeed(own.FollowUps)
}
