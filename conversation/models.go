package conversation

import (
	"encoding/json"
	"slices"

	"fairlead.dev/fairlead/conversation/wire"
	"fairlead.dev/fairlead/internal/protocol"
)

// The list is bounded because a workflow keeps it.
const (
	maxModels     = 100
	maxModelID    = 128 // bytes in JSON, of an id and of a name
	maxEffort     = 32
	maxEfforts    = 16
	maxModelsText = 64 << 10 // of the whole list
)

// ParseModels reads an answer to model/list, without hidden, unreadable and too long
// entries. It returns nil if the answer is no list.
func ParseModels(answer json.RawMessage) []protocol.Model {
	var a struct {
		Data   []json.RawMessage `json:"data"`
		Models []json.RawMessage `json:"models"`
	}
	if json.Unmarshal(answer, &a) != nil {
		return nil
	}
	var out []protocol.Model
	text := 0
	for _, raw := range append(a.Data, a.Models...) {
		m, ok := parseModel(raw)
		if !ok || slices.ContainsFunc(out, func(o protocol.Model) bool { return o.ID == m.ID }) {
			continue
		}
		if text += wire.JSONLen(m); len(out) == maxModels || text > maxModelsText {
			break
		}
		out = append(out, m)
	}
	return out
}

func parseModel(raw json.RawMessage) (protocol.Model, bool) {
	var m struct {
		ID            string            `json:"id"`
		Model         string            `json:"model"`
		DisplayName   string            `json:"displayName"`
		Hidden        bool              `json:"hidden"`
		Default       bool              `json:"isDefault"`
		Efforts       []json.RawMessage `json:"supportedReasoningEfforts"`
		DefaultEffort string            `json:"defaultReasoningEffort"`
	}
	if json.Unmarshal(raw, &m) != nil || m.Hidden {
		return protocol.Model{}, false
	}
	out := protocol.Model{ID: orWord(m.Model, m.ID), Efforts: []string{}, Default: m.Default}
	out.Name = wire.Excerpt(orWord(m.DisplayName, out.ID), maxModelID)
	if len(m.DefaultEffort) <= maxEffort {
		out.DefaultEffort = m.DefaultEffort
	}
	for _, e := range m.Efforts {
		if word := effortWord(e); word != "" && !slices.Contains(out.Efforts, word) {
			out.Efforts = append(out.Efforts, word)
		}
	}
	// The id is sent back to codex, so it cannot be cut.
	return out, out.ID != "" && wire.Len(out.ID) <= maxModelID && len(out.Efforts) <= maxEfforts
}

// effortWord reads a level, an object or a string. It returns "" for anything else and if
// the level is too long.
func effortWord(raw json.RawMessage) string {
	var o struct {
		Effort string `json:"reasoningEffort"`
	}
	var word string
	if json.Unmarshal(raw, &o) == nil {
		word = o.Effort
	} else {
		_ = json.Unmarshal(raw, &word)
	}
	if len(word) > maxEffort {
		return ""
	}
	return word
}

// efforts are the known levels, lowest first.
var efforts = []string{"none", "minimal", "low", "medium", "high", "xhigh", "max", "ultra"}

// ModelLevel returns the level to use for effort: effort itself if the model has it, else
// its next lower level, else its lowest. An unknown effort gives the model's default, a
// model without levels "".
func ModelLevel(m protocol.Model, effort string) string {
	if effort == "" || slices.Contains(m.Efforts, effort) {
		return effort
	}
	if len(m.Efforts) == 0 {
		return ""
	}
	at := slices.Index(efforts, effort)
	if at < 0 {
		return orWord(m.DefaultEffort, m.Efforts[0])
	}
	for ; at >= 0; at-- {
		if slices.Contains(m.Efforts, efforts[at]) {
			return efforts[at]
		}
	}
	return m.Efforts[0]
}
