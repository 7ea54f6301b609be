package workflows

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"fairlead.dev/fairlead/activities"
)

// Messages that control a session, beside those to codex.
const (
	SignalSet       = "set"       // Set → SessionView
	SignalUnsend    = "unsend"    // Unsend → SessionView
	SignalModels    = "models"    // AskModels → ModelsView; query QueryModels for the answer
	SignalArchive   = "archive"   // Archive → SessionView
	SignalUnarchive = "unarchive" // Archive → SessionView

	QueryModels = "models_listed" // → ModelsView
)

// Set changes what a session works with from its next turn on; omitted values stay.
type Set struct {
	By     string  `json:"by,omitempty"`
	Model  string  `json:"model,omitempty"`
	Effort string  `json:"effort,omitempty"`
	Name   *string `json:"name,omitempty"` // empty for none
	// AnyModel accepts a model that codex does not list.
	AnyModel bool `json:"any_model,omitempty"`
}

// Unsend takes back a message whose turn has not begun.
type Unsend struct {
	Message string `json:"message"`
	By      string `json:"by,omitempty"`
}

// AskModels asks codex which models it lists.
type AskModels struct {
	By string `json:"by,omitempty"`
}

// Archive archives or unarchives a session.
type Archive struct {
	By string `json:"by,omitempty"`
}

type archived struct {
	At time.Time `json:"at"`
	By string    `json:"by,omitempty"`
}

// ModelsView is the model list that codex gave last, and what the session works with.
type ModelsView struct {
	Session  string             `json:"session"`
	Model    string             `json:"model"`
	Effort   string             `json:"effort"`
	Provider string             `json:"provider"`
	Codex    string             `json:"codex"`
	At       time.Time          `json:"at,omitzero"` // zero if codex was never asked
	Models   []activities.Model `json:"models"`
	// Error says why codex, when asked, gave no list.
	Error string `json:"error,omitempty"`
}

// QueuedView is a message whose turn has not begun.
type QueuedView struct {
	ID   string `json:"id"`
	N    int    `json:"n"`             // the turn it will be
	Act  string `json:"act,omitempty"` // compact or review, if it is one
	Text string `json:"text"`          // its beginning
	By   string `json:"by,omitempty"`
}

// chosen is what people chose for the session, and the models that codex lists.
type chosen struct {
	Name string `json:"name,omitempty"`
	// Models is codex's newest list, as of ModelsAt.
	Models   *activities.ModelList `json:"models,omitempty"`
	ModelsAt time.Time             `json:"models_at,omitzero"`
	Ask      bool                  `json:"ask,omitempty"`      // somebody asked for the list, and there is none yet
	Unlisted string                `json:"unlisted,omitempty"` // why there are none, after codex was asked
	// AnyModel says that somebody insisted on an unlisted model.
	AnyModel bool `json:"any_model,omitempty"`
}

// choicesPart keeps the model, the effort and the name that people chose. It calls no
// other part.
type choicesPart struct {
	*core
}

// choiceState is what people chose for the session while it lives.
type choiceState struct {
	Chosen   chosen    `json:"chosen,omitzero"`
	Model    string    `json:"model,omitempty"` // as a message last asked for it; a resumed thread gets it again
	Effort   string    `json:"effort,omitempty"`
	Archived *archived `json:"archived,omitempty"`
}

// model returns the model of the next turn; empty for codex's own choice.
func (s *choicesPart) model() string { return cmp.Or(s.st.Model, s.opt.Model) }

func (s *choicesPart) effort() string { return cmp.Or(s.st.Effort, s.opt.Effort) }

// refuseModel returns an error if codex does not list the model or its effort. Without a list
// nothing is refused: listed checks once codex is up.
func (s *choicesPart) refuseModel(what, model, effort string, any bool) error {
	list := s.st.Chosen.Models
	if list == nil || len(list.Models) == 0 {
		return nil
	}
	if model != "" && !any {
		if _, ok := list.Find(model); !ok {
			return refuse(RefusedState, "%s: codex lists no model %.100q; it lists %s%s", what, model, strings.Join(list.IDs(), ", "), s.ownProvider())
		}
	}
	if effort == "" {
		return nil
	}
	m, ok := list.Find(cmp.Or(model, cmp.Or(s.model(), s.st.Pump.Model)))
	if ok && !slices.Contains(m.Efforts, effort) {
		return refuse(RefusedState, "%s: model %s has no effort %.100q; it has %s", what, m.ID, effort, cmp.Or(strings.Join(m.Efforts, ", "), "none to choose"))
	}
	return nil
}

// ownProvider returns a hint that the list need not be the provider's own.
func (s *choicesPart) ownProvider() string {
	p := s.st.Pump.Provider
	if p == "" || p == "openai" {
		return " (--any-model takes it all the same)"
	}
	return fmt.Sprintf(" (codex does not ask provider %s what it serves: --any-model takes it all the same)", p)
}

// choose sets model and effort from the next turn on. An effort that the new model lacks, and
// that was not chosen with it, becomes one that the model has, or none.
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
	now := m.Level(was)
	if now == was {
		return
	}
	s.st.Effort = now
	text := fmt.Sprintf("effort %s instead of %s, which model %s does not have", now, was, m.ID)
	if now == "" {
		s.opt.Effort = ""
		text = fmt.Sprintf("no effort instead of %s: model %s has none to choose", was, m.ID)
	}
	s.note(activities.Note{Type: activities.EntryState, Text: text, Data: map[string]string{"model": m.ID, "effort": now}})
}

// listed takes codex's list, and reports choices that codex does not know: they were made before
// there was a list.
func (s *choicesPart) listed(l activities.ModelList) {
	if l.Models == nil {
		return
	}
	c := &s.st.Chosen
	c.Models, c.ModelsAt, c.Ask, c.Unlisted = &l, workflow.Now(s.ctx), false, ""
	if model := s.st.Model; model != "" && !c.AnyModel && len(l.Models) > 0 {
		if _, ok := l.Find(model); !ok {
			s.note(activities.Note{Type: activities.EntryError, Text: fmt.Sprintf("codex lists no model %q, which the session was set to; it lists %s", model, strings.Join(l.IDs(), ", ")),
				Data: map[string]string{"model": model}})
			c.AnyModel = true // report it once
		}
	}
	s.level()
}

// unlisted follows a pump that was to ask for the models, was not called back and brought no
// list. No other is sent until somebody asks.
func (s *choicesPart) unlisted(p *activities.Problem) {
	c := &s.st.Chosen
	if !c.Ask {
		return
	}
	c.Ask, c.Unlisted = false, "codex was asked for its models, and refused or did not answer in time"
	if p != nil {
		c.Unlisted = "codex could not be asked for its models: " + excerpt(p.Message, maxReason)
	}
	s.note(activities.Note{Type: activities.EntryError, Text: c.Unlisted})
}

// wantsAnswers reports whether codex is to be asked for its models or told the session's name,
// outside a turn.
func (s *choicesPart) wantsAnswers() bool {
	if s.st.Running || s.st.Pump.Opened != s.st.Incarnation {
		return s.st.Chosen.Ask && !s.st.Running
	}
	return s.st.Chosen.Ask || s.st.HasTurn && s.st.Chosen.Name != "" && s.st.Chosen.Name != s.st.Pump.Named
}

func (s *choicesPart) checkSet(c Set) error {
	what := "set session " + s.id
	if err := s.ends(); err != nil {
		return err
	}
	if c.Model == "" && c.Effort == "" && c.Name == nil {
		return refuse(RefusedBadInput, "%s: none of model, effort and name is given", what)
	}
	if err := short([]text{{"model", c.Model, maxWord}, {"effort", c.Effort, 64}, {"by", c.By, maxWord}}); err != nil {
		return refuse(RefusedBadInput, "%s: %v", what, err)
	}
	if c.Name != nil {
		if n := *c.Name; len(n) > maxWord || strings.ContainsFunc(n, unicode.IsControl) || strings.TrimSpace(n) != n {
			return refuse(RefusedBadInput, "%s: a name has one line, at most %d bytes, and no blank at its ends", what, maxWord)
		}
	}
	return s.refuseModel(what, c.Model, c.Effort, c.AnyModel)
}

func (s *choicesPart) takeSet(c Set) (SessionView, error) {
	if err := s.checkSet(c); err != nil {
		return SessionView{}, err
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
	s.note(activities.Note{Type: activities.EntryState, Text: "set: " + strings.Join(words, ", "), Data: said})
	if c.Model != "" || c.Effort != "" {
		s.choose(c.Model, c.Effort, c.AnyModel)
	}
	s.st.UpdatedAt = workflow.Now(s.ctx)
	return s.view(), nil
}

func (s *choicesPart) checkModels(a AskModels) error {
	if err := short([]text{{"by", a.By, maxWord}}); err != nil {
		return refuse(RefusedBadInput, "models of session %s: %v", s.id, err)
	}
	return s.ends()
}

// takeModels has codex asked if it is up and has given no list. Otherwise the list stays.
func (s *choicesPart) takeModels(a AskModels) (ModelsView, error) {
	if err := s.checkModels(a); err != nil {
		return ModelsView{}, err
	}
	if c := &s.st.Chosen; s.st.Alive && c.Models == nil {
		c.Ask, c.Unlisted = true, ""
	}
	return s.modelsView(), nil
}

func (s *choicesPart) modelsView() ModelsView {
	v := ModelsView{Session: s.id, Model: cmp.Or(s.model(), s.st.Pump.Model), Effort: s.effort(), Provider: s.st.Pump.Provider,
		Codex: s.st.Pump.CodexVersion, At: s.st.Chosen.ModelsAt, Models: []activities.Model{}, Error: s.st.Chosen.Unlisted}
	if l := s.st.Chosen.Models; l != nil {
		v.Models, v.Codex = append(v.Models, l.Models...), cmp.Or(l.Codex, v.Codex)
	}
	return v
}

func (s *messagesPart) checkUnsend(u Unsend) error {
	if err := s.ends(); err != nil {
		return err
	}
	if err := short([]text{{"by", u.By, maxWord}}); err != nil || u.Message == "" {
		return refuse(RefusedBadInput, "take back a message of session %s: it needs the message's id, and a short name of who does", s.id)
	}
	if slices.ContainsFunc(s.st.Queue, func(q queuedMessage) bool { return q.ID == u.Message }) {
		return nil
	}
	a := s.accepted(u.Message)
	if a == nil {
		return refuse(RefusedNotFound, "session %s knows no message %.100q", s.id, u.Message)
	}
	if v := s.st.turn(a.N); v != nil && v.MessageID == u.Message && v.Error != nil && v.Error.Kind == unsent {
		return refuse(RefusedState, "message %.100s was taken back already", u.Message)
	}
	return refuse(RefusedState, "message %.100s is in turn %d, which has begun: interrupt it, if it still runs", u.Message, a.N)
}

// unsent is the kind of failure of a turn that never began because its message was withdrawn.
const unsent = "unsent"

// takeUnsend removes a message from the queue. Its turn keeps its number, since later messages
// were promised theirs.
func (s *messagesPart) takeUnsend(u Unsend) (SessionView, error) {
	if err := s.checkUnsend(u); err != nil {
		return SessionView{}, err
	}
	i := slices.IndexFunc(s.st.Queue, func(q queuedMessage) bool { return q.ID == u.Message })
	q := s.st.Queue[i]
	s.st.Queue = slices.Delete(s.st.Queue, i, i+1)
	s.st.remember(q.Message, q.N)
	by := "taken back by " + cmp.Or(u.By, "somebody") + " before its turn began"
	s.st.putTurn(TurnView{Session: s.id, N: q.N, MessageID: q.ID, Act: string(q.Do), Status: "interrupted", EndedAt: workflow.Now(s.ctx),
		Error: &Failure{Kind: unsent, Message: by}})
	s.track(q.ID, kindMessage, q.N, voided)
	s.note(activities.Note{Type: activities.EntryState, Turn: q.N, Text: fmt.Sprintf("message %s was %s", q.ID, by),
		Data: map[string]string{"message": q.ID, "by": u.By}})
	s.st.UpdatedAt = workflow.Now(s.ctx)
	s.st.Held = s.st.Held && len(s.st.Queue) > 0
	if l := s.st.Limit; l != nil && l.Message == q.ID {
		s.bounds.stopWaiting()
	}
	if s.opt.CloseAfter && len(s.st.Queue) == 0 && !s.st.Running && s.st.Close == nil {
		s.st.Close = &Close{By: u.By}
	}
	return s.view(), nil
}

// putTurn inserts a turn in the order of numbers.
func (st *sessionState) putTurn(v TurnView) {
	i, _ := slices.BinarySearchFunc(st.Turns, v.N, func(t TurnView, n int) int { return t.N - n })
	st.Turns = slices.Insert(st.Turns, i, v)
	st.trim()
}

// makeRoom raises by one the number of each turn after the running one, for a message that the
// session puts before them.
func (s *messagesPart) makeRoom() {
	for i := range s.st.Queue {
		s.st.Queue[i].N++
	}
	for i := range s.st.Turns {
		if v := &s.st.Turns[i]; v.N > s.st.TurnN {
			v.N++
		}
	}
	for i := range s.st.Seen {
		if m := &s.st.Seen[i]; m.N > s.st.TurnN {
			m.N++
		}
	}
	s.st.NextN++
}

// checkAct checks a message that compacts or reviews.
func (s *messagesPart) checkAct(m Message) error {
	switch {
	case m.Review != nil && m.Do != activities.ActReview:
		return refuse(RefusedBadInput, "message %s: what is to be reviewed is of a review alone", m.ID)
	case m.Do == "":
		return nil
	case m.Do != activities.ActCompact && m.Do != activities.ActReview:
		return refuse(RefusedBadInput, "message %s: do %.100q is none of compact, review", m.ID, m.Do)
	case m.Text != "" || m.Blob != "" || m.Chars != 0:
		return refuse(RefusedBadInput, "message %s: a %s takes no text", m.ID, m.Do)
	case m.Mode != "" && m.Mode != "queue" || m.Turn != 0:
		return refuse(RefusedBadInput, "message %s: a %s is a turn of its own and steers none", m.ID, m.Do)
	case m.Model != "" || m.Effort != "":
		return refuse(RefusedBadInput, "message %s: a %s has the session's model (ctl session set changes it)", m.ID, m.Do)
	case len(m.Inputs) > 0 || m.shape() != nil:
		return refuse(RefusedBadInput, "message %s: a %s takes no files and no output schema", m.ID, m.Do)
	case m.Do == activities.ActCompact && s.st.NextN == 0:
		return refuse(RefusedState, "session %s has had no turn: there is nothing to compact", s.id)
	}
	r := m.Review
	if r == nil {
		return nil
	}
	if err := r.Check(); err != nil {
		return refuse(RefusedBadInput, "message %s: %v", m.ID, err)
	}
	if err := short([]text{{"base", r.Base, maxWord}, {"commit", r.Commit, maxWord}, {"instructions", r.Instructions, maxInline}}); err != nil {
		return refuse(RefusedBadInput, "message %s: %v", m.ID, err)
	}
	return nil
}

// checkSteer refuses to steer if no turn runs, another one than was named, or one that takes no
// messages.
func (s *messagesPart) checkSteer(m Message) error {
	switch v := s.st.turn(s.st.TurnN); {
	case !s.st.Running && m.Turn != 0:
		return refuse(RefusedState, "session %s has no running turn to steer: turn %d does not run", s.id, m.Turn)
	case !s.st.Running:
		return refuse(RefusedState, "session %s has no running turn to steer", s.id)
	case m.Turn != 0 && m.Turn != s.st.TurnN:
		return refuse(RefusedState, "session %s runs turn %d, not turn %d, which was to be steered", s.id, s.st.TurnN, m.Turn)
	case v != nil && v.Act != "":
		return refuse(RefusedState, "turn %d of session %s is a %s, which takes no messages: send it as the next turn, or interrupt this one", s.st.TurnN, s.id, v.Act)
	}
	return nil
}

// acting returns the running turn's act if it takes no text.
func (s *messagesPart) acting() string {
	if v := s.st.turn(s.st.TurnN); v != nil && s.st.Running {
		return v.Act
	}
	return ""
}

// tooLate voids a message that was meant for one turn alone, if that has ended.
func (s *messagesPart) tooLate(p pendingSend) {
	s.track(p.Send.ID, string(activities.SendSteer), p.Send.Turn, voided)
	s.note(activities.Note{Type: activities.EntryState, Text: fmt.Sprintf("turn %d ended before message %s could steer it, and it was meant for that turn alone", p.Send.Turn, p.Send.ID),
		Data: map[string]string{"message": p.Send.ID}})
}

func (s *messagesPart) queue() []QueuedView {
	out := []QueuedView{}
	if s.st.Ended {
		return out
	}
	for _, q := range s.st.Queue {
		text := q.Text
		if q.Review != nil {
			text = cmp.Or(q.Review.Instructions, cmp.Or(q.Review.Base, q.Review.Commit))
		}
		out = append(out, QueuedView{ID: q.ID, N: q.N, Act: string(q.Do), Text: excerpt(text, 200), By: q.By})
	}
	return out
}

func (s *parkingPart) checkArchive(a Archive) error {
	if s.st.Archived != nil {
		return nil // it already is
	}
	if s.st.Parked == nil && s.st.Lease == nil {
		if err := s.ends(); err != nil {
			return err
		}
		return refuse(RefusedState, "session %s is %s: it can be archived when it is idle or parked", s.id, s.st.Status)
	}
	if len(s.st.Queue) > 0 {
		return refuse(RefusedState, "session %s has %d messages queued: take them back, or let them have their turns, then archive it", s.id, len(s.st.Queue))
	}
	return s.checkPark(Park(a))
}

// takeArchive parks and archives a session: it is in no list unless archived ones are asked for,
// and takes no messages until unarchived. codex's own thread/archive is not used: it moves the
// rollout to where a resume refuses it.
func (s *parkingPart) takeArchive(a Archive) (SessionView, error) {
	if err := s.checkArchive(a); err != nil {
		return SessionView{}, err
	}
	if s.st.Archived == nil {
		s.st.Archived = &archived{At: workflow.Now(s.ctx), By: a.By}
		s.note(activities.Note{Type: activities.EntryState, Text: "archived", Data: map[string]string{"by": a.By}})
		s.st.UpdatedAt = workflow.Now(s.ctx)
		s.forgetTrouble()
	}
	return s.view(), nil
}

func (s *parkingPart) checkUnarchive(a Archive) error {
	if err := s.ends(); err != nil {
		return err
	}
	if err := short([]text{{"by", a.By, maxWord}}); err != nil {
		return refuse(RefusedBadInput, "unarchive session %s: %v", s.id, err)
	}
	if s.st.Archived == nil {
		return refuse(RefusedState, "session %s is not archived", s.id)
	}
	return nil
}

func (s *parkingPart) takeUnarchive(a Archive) (SessionView, error) {
	if err := s.checkUnarchive(a); err != nil {
		return SessionView{}, err
	}
	s.st.Archived = nil
	s.note(activities.Note{Type: activities.EntryState, Text: "unarchived", Data: map[string]string{"by": a.By}})
	s.st.UpdatedAt = workflow.Now(s.ctx)
	return s.view(), nil
}

func (s *core) putAway() error {
	if s.st.Archived == nil {
		return nil
	}
	return refuse(RefusedState, "session %s is archived: `ctl session unarchive %s` takes it out first", s.id, s.id)
}

// stillHere unarchives a session that could not park.
func (s *parkingPart) stillHere() {
	if s.st.Archived == nil || s.st.Parked != nil || s.st.Close != nil || s.full() || s.st.Park != nil {
		return
	}
	s.st.Archived = nil
	why := "it could not park"
	if s.st.Error != nil {
		why = s.st.Error.Message
	}
	s.note(activities.Note{Type: activities.EntryError, Text: "not archived: " + why})
}

// actSum distinguishes acts and messages for a certain turn in sum; empty for all others.
func (m Message) actSum() string {
	if m.Do == "" && m.Turn == 0 {
		return ""
	}
	out := fmt.Sprintf("\x00%s\x00%d", m.Do, m.Turn)
	if r := m.Review; r != nil {
		out += "\x00" + r.Base + "\x00" + r.Commit + "\x00" + r.Instructions
	}
	return out
}

// Search attributes of people's choices. A session has them only once somebody chose, because not
// every cluster knows them.
var (
	attrName     = temporal.NewSearchAttributeKeyKeyword("FairleadName")
	attrArchived = temporal.NewSearchAttributeKeyBool("FairleadArchived")
)

func (s *viewsPart) tellChosen(now attributes) (more []temporal.SearchAttributeUpdate) {
	if now.name != s.shown.name {
		more = append(more, attrName.ValueSet(now.name))
	}
	switch {
	case now.archived && !s.shown.archived:
		more = append(more, attrArchived.ValueSet(true))
	case !now.archived && s.shown.archived:
		more = append(more, attrArchived.ValueUnset())
	}
	return more
}

// outOfDate reports whether the search attributes lack the present name or archived state.
func (s *viewsPart) outOfDate() bool {
	return s.shown.name != s.st.Chosen.Name || s.shown.archived != (s.st.Archived != nil)
}

// onlyAsks reports whether a pump would only serve wantsAnswers, which does not change the
// session's state.
func (s *processPart) onlyAsks() bool {
	return !s.st.Running && len(s.st.Sends) == 0 && s.st.Retired == nil && s.choices.wantsAnswers()
}
