package conversation

import (
	"encoding/json"
	"slices"
	"strings"
	"time"
)

// A ModelList is what codex answers to model/list: its own catalogue. Measured
// on 0.125 to 0.169: it is the same whatever the provider is. A provider of the
// config's own is not asked, so what it really serves is not known.
type ModelList struct {
	Models []Model `json:"models"`
	// Codex is the version that listed them.
	Codex string `json:"codex,omitempty"`
}

// A Model is one that codex shows to people.
type Model struct {
	ID      string   `json:"id"` // what turns and threads are given
	Name    string   `json:"name"`
	Efforts []string `json:"efforts"` // lowest first, as codex lists them
	// DefaultEffort is what the model has when nobody says; Default says that
	// the model is codex's own choice.
	DefaultEffort string `json:"default_effort,omitempty"`
	Default       bool   `json:"default,omitempty"`
}

// What a codex may list is bounded, since a workflow keeps it.
const (
	maxModels     = 100
	maxModelID    = 128 // bytes within JSON, of a model's id and of its name
	maxEffort     = 32
	maxEfforts    = 16
	maxModelsText = 64 << 10 // of the whole list
)

// ParseModels reads an answer to model/list. Hidden models are not for people,
// and entries that cannot be read, or are too long to be meant, are skipped; an
// answer that is no list at all has none.
func ParseModels(answer json.RawMessage) []Model {
	var a struct {
		Data   []json.RawMessage `json:"data"`
		Models []json.RawMessage `json:"models"`
	}
	if json.Unmarshal(answer, &a) != nil {
		return nil
	}
	var out []Model
	text := 0
	for _, raw := range append(a.Data, a.Models...) {
		m, ok := parseModel(raw)
		if !ok || slices.ContainsFunc(out, func(o Model) bool { return o.ID == m.ID }) {
			continue
		}
		if text += jsonLen(m); len(out) == maxModels || text > maxModelsText {
			break
		}
		out = append(out, m)
	}
	return out
}

func parseModel(raw json.RawMessage) (Model, bool) {
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
		return Model{}, false
	}
	out := Model{ID: orWord(m.Model, m.ID), Efforts: []string{}, Default: m.Default}
	out.Name = excerpt(orWord(m.DisplayName, out.ID), maxModelID)
	if len(m.DefaultEffort) <= maxEffort {
		out.DefaultEffort = m.DefaultEffort
	}
	for _, e := range m.Efforts {
		if word := effortWord(e); word != "" && !slices.Contains(out.Efforts, word) {
			out.Efforts = append(out.Efforts, word)
		}
	}
	// An id is what codex is given again: one that would have to be cut is none.
	return out, out.ID != "" && wireLen(out.ID) <= maxModelID && len(out.Efforts) <= maxEfforts
}

// effortWord reads an effort level: an object, or a plain word.
func effortWord(raw json.RawMessage) string {
	var o struct {
		Effort string `json:"reasoningEffort"`
	}
	var word string
	if json.Unmarshal(raw, &o) == nil {
		word = o.Effort
	} else {
		_ = json.Unmarshal(raw, &word) // else it is none
	}
	if len(word) > maxEffort {
		return ""
	}
	return word
}

// Find gives the model of that id.
func (l *ModelList) Find(id string) (Model, bool) {
	if l == nil {
		return Model{}, false
	}
	i := slices.IndexFunc(l.Models, func(m Model) bool { return m.ID == id })
	if i < 0 {
		return Model{}, false
	}
	return l.Models[i], true
}

// IDs are the ids of all, in codex's order.
func (l *ModelList) IDs() (ids []string) {
	if l == nil {
		return nil
	}
	for _, m := range l.Models {
		ids = append(ids, m.ID)
	}
	return ids
}

// efforts are the levels that are known, lowest first.
var efforts = []string{"none", "minimal", "low", "medium", "high", "xhigh", "max", "ultra"}

// Level is the effort that this model has in place of one that it may lack: the
// same one, or the next lower one that it has, or its lowest; empty where the
// model takes none at all. Of a level that nobody knows it is the model's own.
func (m Model) Level(effort string) string {
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

// wantModels asks for the models where nothing is opened.
func (m *machine) wantModels() {
	if m.in.Models && m.asks[askModels] == nil {
		m.asks[askModels] = &ask{method: methodModelList, params: struct{}{}, limit: m.lim.Request, optional: true}
	}
	m.asks[askNaming] = &ask{method: methodName, limit: m.lim.Request, optional: true}
}

// questions asks codex what changes nothing for a turn: the models that it
// lists, and that the thread is called as people call it.
func (m *machine) questions() {
	if m.in.Models {
		m.ask(askModels)
		m.tired(askModels, "list its models")
	}
	if m.unnamed() {
		m.asks[askNaming].params = nameParams{ThreadID: m.st.ThreadID, Name: m.in.Thread.Name}
		m.ask(askNaming)
		if m.tired(askNaming, "take the thread's name") {
			m.st.Named = m.in.Thread.Name
		}
	}
}

// tired gives up a question that codex does not answer: a turn does without.
func (m *machine) tired(name askName, what string) bool {
	a := m.asks[name]
	if a.done || !a.tried || m.now-a.first < a.limit {
		return false
	}
	a.done = true
	m.log.Warn("codex did not " + what + " within " + a.limit.Round(time.Second).String())
	return true
}

// asked reports whether all questions have their answers.
func (m *machine) asked() bool {
	return (!m.in.Models || m.asks[askModels].done) && !m.unnamed()
}

// unnamed says that codex has yet to be told what the thread is called. One
// that never had a turn has nowhere to keep it.
func (m *machine) unnamed() bool {
	return m.in.Thread.Name != m.st.Named && m.in.Thread.Name != "" && m.st.Turn > 0 && m.st.ThreadID != ""
}

func (m *machine) modelsListed(r *message) {
	if r.Error != nil {
		m.warn("codex could not list its models: " + r.Error.Message)
		return
	}
	m.models = ModelList{Models: ParseModels(r.Result), Codex: m.st.CodexVersion}
	if m.models.Models == nil {
		m.models.Models = []Model{}
	}
}

// threadNamed takes codex's answer to the thread's name. It is known what it
// thinks of it, so it is not told again, also where it would not have it.
func (m *machine) threadNamed(r *message) {
	m.st.Named = m.in.Thread.Name
	if r.Error != nil {
		m.warn("codex did not take the thread's name: " + strings.TrimSpace(r.Error.Message))
	}
}

type nameParams struct {
	ThreadID string `json:"threadId"`
	Name     string `json:"name"`
}
