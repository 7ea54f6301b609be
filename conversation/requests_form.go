package conversation

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"fairlead.dev/fairlead/internal/protocol"
)

// The form of an MCP server is a flat object with one question per property. A form that
// questions cannot express is refused: any answer would be to something that was not asked.

type formSchema struct {
	Type       string                     `json:"type"`
	Properties map[string]json.RawMessage `json:"properties"`
	Required   []string                   `json:"required"`
}

type formField struct {
	Type        string          `json:"type"`
	Title       string          `json:"title"`
	Description string          `json:"description"`
	Default     json.RawMessage `json:"default"`
	Format      string          `json:"format"`
	MinLength   *float64        `json:"minLength"`
	MaxLength   *float64        `json:"maxLength"`
	Minimum     *float64        `json:"minimum"`
	Maximum     *float64        `json:"maximum"`
	MinItems    *float64        `json:"minItems"`
	MaxItems    *float64        `json:"maxItems"`
	Enum        []string        `json:"enum"`
	EnumNames   []string        `json:"enumNames"`
	OneOf       []titled        `json:"oneOf"`
	Items       struct {
		Enum  []string `json:"enum"`
		AnyOf []titled `json:"anyOf"`
		OneOf []titled `json:"oneOf"`
	} `json:"items"`
}

type titled struct {
	Const string `json:"const"`
	Title string `json:"title"`
}

// formQuestions returns a form's questions, with property names as ids, or none if the form
// only needs a yes or a no.
func formQuestions(raw json.RawMessage) ([]protocol.Question, error) {
	var f formSchema
	if err := json.Unmarshal(raw, &f); err != nil {
		return nil, fmt.Errorf("its form cannot be read: %w", err)
	}
	if f.Type != "object" {
		return nil, errors.New("its form is no object")
	}
	var all []protocol.Question
	for _, name := range sorted(f.Properties) {
		q, err := formQuestion(name, f.Properties[name])
		if err != nil {
			return nil, fmt.Errorf("field %q of its form cannot be filled in: %w", short(name), err)
		}
		q.Optional = !slices.Contains(f.Required, name)
		all = append(all, q)
	}
	if len(all) == 0 {
		return nil, nil
	}
	return all, checkQuestions(all)
}

func formQuestion(name string, raw json.RawMessage) (protocol.Question, error) {
	var w formField
	if err := json.Unmarshal(raw, &w); err != nil {
		return protocol.Question{}, err
	}
	q := protocol.Question{ID: name, Header: w.Title, Text: orWord(w.Description, orWord(w.Title, name)), Type: w.Type, Format: w.Format}
	switch w.Type {
	case "string":
		q.Secret = w.Format == "password"
		q.Options = append(choicesOf(w.Enum, w.EnumNames), titledChoices(w.OneOf)...)
		q.Least, q.Most = w.MinLength, w.MaxLength
		if len(q.Options) > 0 {
			q.Least, q.Most = nil, nil
		}
	case "number", "integer":
		q.Least, q.Most = w.Minimum, w.Maximum
	case "boolean":
	case "array":
		q.Type, q.Many = "string", true
		q.Options = append(choicesOf(w.Items.Enum, nil), titledChoices(append(w.Items.AnyOf, w.Items.OneOf...))...)
		q.Least, q.Most = w.MinItems, w.MaxItems
		if len(q.Options) == 0 {
			return q, errors.New("it is a list without fixed options")
		}
	default:
		return q, fmt.Errorf("its type is %q", short(w.Type))
	}
	q.Default = plainDefault(w.Default)
	return q, nil
}

func choicesOf(values, names []string) (all []protocol.Choice) {
	for i, v := range values {
		c := protocol.Choice{Label: v}
		if i < len(names) {
			c.Description = names[i]
		}
		all = append(all, c)
	}
	return all
}

func titledChoices(in []titled) (all []protocol.Choice) {
	for _, o := range in {
		all = append(all, protocol.Choice{Label: o.Const, Description: o.Title})
	}
	return all
}

func plainDefault(raw json.RawMessage) string {
	var v any
	if len(raw) == 0 || json.Unmarshal(raw, &v) != nil {
		return ""
	}
	switch v := v.(type) {
	case string:
		return v
	case bool:
		return strconv.FormatBool(v)
	case float64:
		return strconv.FormatFloat(v, 'g', -1, 64)
	}
	return ""
}

// formContent returns a form's answer, each value in its type.
func formContent(questions []protocol.Question, answers map[string][]string) (map[string]any, error) {
	content := map[string]any{}
	for _, q := range questions {
		given := answers[q.ID]
		if len(given) == 0 {
			continue
		}
		switch {
		case q.Many:
			content[q.ID] = given
		case q.Type == "boolean":
			content[q.ID] = given[0] == "true"
		case q.Type == "integer" || q.Type == "number":
			if !json.Valid([]byte(given[0])) {
				return nil, &AnswerError{q.ID, "is no number"}
			}
			content[q.ID] = json.Number(given[0])
		default:
			content[q.ID] = given[0]
		}
	}
	return content, nil
}
