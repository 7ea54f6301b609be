package conversation

import (
	"encoding/json"

	"fairlead.dev/fairlead/internal/protocol"
)

func (r *Redactor) entry(e protocol.Entry) protocol.Entry {
	if r == nil {
		return e
	}
	e.Text, e.Command, e.CWD, e.Tool = r.String(e.Text), r.String(e.Command), r.String(e.CWD), r.String(e.Tool)
	e.Changes = r.changes(e.Changes)
	var plan []protocol.PlanStep
	for _, s := range e.Plan {
		plan = append(plan, protocol.PlanStep{Text: r.String(s.Text), Status: r.String(s.Status)})
	}
	e.Plan = plan
	if e.Data != nil {
		data := make(map[string]string, len(e.Data))
		for k, v := range e.Data {
			data[k] = r.String(v)
		}
		e.Data = data
	}
	return e
}

func (r *Redactor) changes(in []protocol.Change) []protocol.Change {
	var out []protocol.Change
	for _, c := range in {
		out = append(out, protocol.Change{Path: r.String(c.Path), Kind: c.Kind, Diff: r.String(c.Diff)})
	}
	return out
}

func (r *Redactor) problem(p *protocol.Problem) *protocol.Problem {
	if p == nil {
		return nil
	}
	clean := *p
	clean.Message = r.String(p.Message)
	return &clean
}

func (r *Redactor) questions(in []protocol.Question) []protocol.Question {
	var out []protocol.Question
	for _, q := range in {
		q.ID, q.Header, q.Text, q.Default = r.String(q.ID), r.String(q.Header), r.String(q.Text), r.String(q.Default)
		var options []protocol.Choice
		for _, o := range q.Options {
			options = append(options, protocol.Choice{Label: r.String(o.Label), Description: r.String(o.Description)})
		}
		q.Options = options
		out = append(out, q)
	}
	return out
}

// json redacts the texts in raw and returns canonical JSON.
func (r *Redactor) json(raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 {
		return nil
	}
	v, err := plainJSON(raw)
	if err != nil {
		return nil
	}
	return canonical(r.value(v))
}

func (r *Redactor) value(v any) any {
	switch v := v.(type) {
	case string:
		return r.String(v)
	case []any:
		for i := range v {
			v[i] = r.value(v[i])
		}
	case map[string]any:
		clean := make(map[string]any, len(v))
		for name, one := range v {
			clean[r.String(name)] = r.value(one)
		}
		return clean
	}
	return v
}
