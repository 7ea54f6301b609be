package session

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"go.temporal.io/sdk/workflow"

	"fairlead.dev/fairlead/conversation"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/internal/kit"
)

type chosen struct {
	Name     string              `json:"name,omitempty"`
	Models   *protocol.ModelList `json:"models,omitempty"`
	ModelsAt time.Time           `json:"models_at,omitzero"`
	Ask      bool                `json:"ask,omitempty"`      // asked for, and not yet given
	Unlisted string              `json:"unlisted,omitempty"` // why codex gave no list
	// AnyModel says that somebody insisted on an unlisted model.
	AnyModel bool `json:"any_model,omitempty"`
}

type choicesPart struct {
	*core
}

type choiceState struct {
	Chosen   chosen    `json:"chosen,omitzero"`
	Model    string    `json:"model,omitempty"` // chosen last by a person; a resumed thread gets it again
	Effort   string    `json:"effort,omitempty"`
	Archived *archived `json:"archived,omitempty"`
}

// model returns the next turn's model; empty for codex's own choice.
func (s *choicesPart) model() string { return cmp.Or(s.st.Model, s.opt.Model) }

func (s *choicesPart) effort() string { return cmp.Or(s.st.Effort, s.opt.Effort) }

// refuseModel refuses a model or an effort that codex does not list. Without a list it
// refuses nothing; listed then checks later.
func (s *choicesPart) refuseModel(what, model, effort string, any bool) error {
	list := s.st.Chosen.Models
	if list == nil || len(list.Models) == 0 {
		return nil
	}
	if model != "" && !any {
		if _, ok := list.Find(model); !ok {
			return kit.Refuse(protocol.RefusedState, "%s: codex lists no model %.100q; it lists %s%s", what, model, strings.Join(list.IDs(), ", "), s.ownProvider())
		}
	}
	if effort == "" {
		return nil
	}
	m, ok := list.Find(cmp.Or(model, cmp.Or(s.model(), s.st.Pump.Model)))
	if ok && !slices.Contains(m.Efforts, effort) {
		return kit.Refuse(protocol.RefusedState, "%s: model %s has no effort %.100q; it has %s", what, m.ID, effort, cmp.Or(strings.Join(m.Efforts, ", "), "none to choose"))
	}
	return nil
}

// ownProvider returns a hint that the provider may serve unlisted models.
func (s *choicesPart) ownProvider() string {
	p := s.st.Pump.Provider
	if p == "" || p == "openai" {
		return " (--any-model takes it all the same)"
	}
	return fmt.Sprintf(" (codex does not ask provider %s what it serves: --any-model takes it all the same)", p)
}

// choose sets model and effort from the next turn on. Without effort, a present effort that
// the new model lacks becomes one that the model has, or none.
func (s *choicesPart) choose(model, effort string, any bool) {
	if model != "" {
		s.st.Model, s.st.Chosen.AnyModel = model, any
	}
	if effort != "" {
		s.st.Effort = effort
		return
	}
	s.level()
}

func (s *choicesPart) level() {
	m, ok := s.st.Chosen.Models.Find(s.model())
	was := s.effort()
	if !ok || was == "" {
		return
	}
	now := conversation.ModelLevel(m, was)
	if now == was {
		return
	}
	s.st.Effort = now
	text := fmt.Sprintf("effort %s instead of %s, which model %s does not have", now, was, m.ID)
	if now == "" {
		s.opt.Effort = ""
		text = fmt.Sprintf("no effort instead of %s: model %s has none to choose", was, m.ID)
	}
	s.note(conversation.Note{Type: protocol.EntryState, Text: text, Data: map[string]string{"model": m.ID, "effort": now}})
}

// listed takes codex's list. It reports once if a chosen model is not in the list.
func (s *choicesPart) listed(l protocol.ModelList) {
	if l.Models == nil {
		return
	}
	c := &s.st.Chosen
	c.Models, c.ModelsAt, c.Ask, c.Unlisted = &l, workflow.Now(s.ctx), false, ""
	if model := s.st.Model; model != "" && !c.AnyModel && len(l.Models) > 0 {
		if _, ok := l.Find(model); !ok {
			s.note(conversation.Note{Type: protocol.EntryError, Text: fmt.Sprintf("codex lists no model %q, which the session was set to; it lists %s", model, strings.Join(l.IDs(), ", ")),
				Data: map[string]string{"model": model}})
			c.AnyModel = true
		}
	}
	s.level()
}

// unlisted follows a pump that asked for the models in vain. No other pump asks until a
// person does.
func (s *choicesPart) unlisted(p *protocol.Problem) {
	c := &s.st.Chosen
	if !c.Ask {
		return
	}
	c.Ask, c.Unlisted = false, "codex was asked for its models, and refused or did not answer in time"
	if p != nil {
		c.Unlisted = "codex could not be asked for its models: " + kit.Cut(p.Message, kit.MaxReason)
	}
	s.note(conversation.Note{Type: protocol.EntryError, Text: c.Unlisted})
}

// wantsAnswers reports whether to ask codex for its models, or tell it the session's name,
// outside a turn.
func (s *choicesPart) wantsAnswers() bool {
	if s.st.Running || s.st.Pump.Opened != s.st.Incarnation {
		return s.st.Chosen.Ask && !s.st.Running
	}
	return s.st.Chosen.Ask || s.st.HasTurn && s.st.Chosen.Name != "" && s.st.Chosen.Name != s.st.Pump.Named
}

func (s *choicesPart) checkSet(c protocol.Set) error {
	what := "set session " + s.id
	if err := s.ends(); err != nil {
		return err
	}
	if c.Model == "" && c.Effort == "" && c.Name == nil {
		return kit.Refuse(protocol.RefusedBadInput, "%s: none of model, effort and name is given", what)
	}
	if err := kit.Short([]kit.Text{{What: "model", Is: c.Model, Max: kit.MaxWord}, {What: "effort", Is: c.Effort, Max: 64}, {What: "by", Is: c.By, Max: kit.MaxWord}}); err != nil {
		return kit.Refuse(protocol.RefusedBadInput, "%s: %v", what, err)
	}
	if c.Name != nil {
		if n := *c.Name; len(n) > kit.MaxWord || strings.ContainsFunc(n, unicode.IsControl) || strings.TrimSpace(n) != n {
			return kit.Refuse(protocol.RefusedBadInput, "%s: a name has one line, at most %d bytes, and no blank at its ends", what, kit.MaxWord)
		}
	}
	return s.refuseModel(what, c.Model, c.Effort, c.AnyModel)
}

func (s *choicesPart) takeSet(c protocol.Set) (protocol.SessionView, error) {
	if err := s.checkSet(c); err != nil {
		return protocol.SessionView{}, err
	}
	said := map[string]string{"by": c.By}
	var words []string
	if c.Name != nil {
		s.st.Chosen.Name, said["name"] = *c.Name, *c.Name
		words = append(words, "name "+cmp.Or(*c.Name, "none"))
	}
	if c.Model != "" {
		said["model"] = c.Model
		words = append(words, "model "+c.Model+" from the next turn on")
	}
	if c.Effort != "" {
		said["effort"] = c.Effort
		words = append(words, "effort "+c.Effort+" from the next turn on")
	}
	s.note(conversation.Note{Type: protocol.EntryState, Text: "set: " + strings.Join(words, ", "), Data: said})
	if c.Model != "" || c.Effort != "" {
		s.choose(c.Model, c.Effort, c.AnyModel)
	}
	s.st.UpdatedAt = workflow.Now(s.ctx)
	return s.view(), nil
}

func (s *choicesPart) checkModels(a protocol.AskModels) error {
	if err := kit.Short([]kit.Text{{What: "by", Is: a.By, Max: kit.MaxWord}}); err != nil {
		return kit.Refuse(protocol.RefusedBadInput, "models of session %s: %v", s.id, err)
	}
	return s.ends()
}

// takeModels has a pump ask codex if it runs and has given no list.
func (s *choicesPart) takeModels(a protocol.AskModels) (protocol.ModelsView, error) {
	if err := s.checkModels(a); err != nil {
		return protocol.ModelsView{}, err
	}
	if c := &s.st.Chosen; s.st.Alive && c.Models == nil {
		c.Ask, c.Unlisted = true, ""
	}
	return s.modelsView(), nil
}

func (s *choicesPart) modelsView() protocol.ModelsView {
	v := protocol.ModelsView{Session: s.id, Model: cmp.Or(s.model(), s.st.Pump.Model), Effort: s.effort(), Provider: s.st.Pump.Provider,
		Codex: s.st.Pump.CodexVersion, At: s.st.Chosen.ModelsAt, Models: []protocol.Model{}, Error: s.st.Chosen.Unlisted}
	if l := s.st.Chosen.Models; l != nil {
		v.Models, v.Codex = append(v.Models, l.Models...), cmp.Or(l.Codex, v.Codex)
	}
	return v
}
