package console

import (
	"net/http"
	"net/url"

	"fairlead.dev/fairlead/internal/access"
)

// A question is the page that a person reads before they change something that others use: what
// will happen, the choices, and one button.
type question struct {
	Text    []string
	Action  string // where the form goes
	Key     string
	Choices []choice
	Fields  []textField
	Reason  bool // it takes a reason
	Button  string
	Grave   bool
	Back    string // the page without the change
}

// A choice is one field of a question.
type choice struct {
	Name, Legend string
	Options      []option
	Is           string // chosen
}

// A textField is a field of a question that may stay empty.
type textField struct{ Name, Label, Hint, Is string }

type option struct{ Value, Label string }

// Given returns what the form says for a choice, if that is one of its options.
func (c choice) Given(f url.Values) string {
	for _, o := range c.Options {
		if o.Value == f.Get(c.Name) {
			return o.Value
		}
	}
	return c.Is
}

// A change is something that a person can do to a host, a batch or a schedule.
type change struct {
	Title    string
	Verb     access.Verb
	Question question
	Method   string // default POST
	Path     string // of the API
	Body     func(url.Values) any
	Done     string // where the person goes then; default Question.Back
	// Begins says that the change begins a session, to which the person goes then.
	Begins bool
}

// confirm asks before a change, and makes it when the form comes back. here is the place in the
// navigation.
func (v *visit) confirm(here string, c change) error {
	if !v.may(c.Verb, "") {
		return &Problem{Status: http.StatusForbidden, Detail: "you may not do this: it needs " + string(c.Verb), Hint: "`ctl access why` says which bindings were looked at"}
	}
	q := c.Question
	ask := func(p *Problem, status int) error {
		q.Key = v.keyAfter(p)
		for i, f := range q.Fields {
			q.Fields[i].Is = v.r.PostForm.Get(f.Name)
		}
		return v.showWith(p, status, "confirm", c.Title, here, "", q)
	}
	if v.r.Method != http.MethodPost {
		return ask(nil, http.StatusOK)
	}
	var body any
	if c.Body != nil {
		body = c.Body(v.r.PostForm)
	}
	method := c.Method
	if method == "" {
		method = http.MethodPost
	}
	var begun struct {
		ID string `json:"id"`
	}
	var out any
	if c.Begins {
		out = &begun
	}
	err := v.ask(v.r.Context(), method, c.Path, v.formKey(), body, out)
	if p, told := err.(*Problem); told && p.Status != http.StatusUnauthorized {
		return ask(p, p.Status)
	}
	if err != nil {
		return err
	}
	if c.Begins {
		return v.see("/sessions/" + url.PathEscape(begun.ID))
	}
	if c.Done != "" {
		return v.see(c.Done)
	}
	return v.see(q.Back)
}
