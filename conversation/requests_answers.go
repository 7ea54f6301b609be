package conversation

import (
	"fmt"
	"math"
	"net/mail"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"fairlead.dev/fairlead/conversation/wire"
	"fairlead.dev/fairlead/internal/protocol"
)

// Bounds on a person's answers.
const (
	// MaxAnswer bounds one answer, in bytes.
	MaxAnswer = 16 << 10
	// MaxAnswers bounds all answers to a request, in bytes.
	MaxAnswers = 64 << 10
)

// An AnswerError says what is wrong with an answer. It never contains the answer, which may
// be secret.
type AnswerError struct {
	Question string
	What     string
}

func (e *AnswerError) Error() string { return fmt.Sprintf("%q %s", e.Question, e.What) }

// CheckAnswers returns the answers for codex, by question id. A question without an answer
// gets its default. A blank answer leaves an optional question out, and is an error
// otherwise. An error in one question is an *AnswerError.
func CheckAnswers(questions []protocol.Question, answers map[string][]string) (map[string][]string, error) {
	known, all := map[string]bool{}, 0
	for _, q := range questions {
		known[q.ID] = true
	}
	for _, id := range sorted(answers) {
		if !known[id] {
			return nil, &AnswerError{short(id), "is not one of the questions: " + questionIDs(questions)}
		}
		for _, a := range answers[id] {
			if all += len(a); len(a) > MaxAnswer {
				return nil, &AnswerError{id, fmt.Sprintf("is answered with %d bytes, and %d is the most", len(a), MaxAnswer)}
			}
		}
	}
	if all > MaxAnswers {
		return nil, fmt.Errorf("the answers are %d bytes, and %d is the most", all, MaxAnswers)
	}
	good := map[string][]string{}
	for _, q := range questions {
		given, said := answers[q.ID]
		given = slices.DeleteFunc(slices.Clone(given), func(a string) bool { return strings.TrimSpace(a) == "" })
		if !said && q.Default != "" {
			given = []string{q.Default}
		}
		if len(given) == 0 {
			if q.Optional {
				continue
			}
			return nil, &AnswerError{q.ID, "is not answered" + offeredChoices(q)}
		}
		one, err := checkGiven(q, given)
		if err != nil {
			return nil, err
		}
		good[q.ID] = one
	}
	return good, nil
}

// checkGiven checks the answers, at least one, to one question.
func checkGiven(q protocol.Question, given []string) ([]string, error) {
	wrong := func(format string, args ...any) ([]string, error) {
		return nil, &AnswerError{q.ID, fmt.Sprintf(format, args...)}
	}
	if !q.Many && len(given) > 1 {
		return wrong("takes one answer, and has %d", len(given))
	}
	if q.Many && !fitsBounds(q, float64(len(given))) {
		return wrong("takes %s answers, and has %d", boundsOf(q), len(given))
	}
	var good []string
	for _, a := range given {
		if !utf8.ValidString(a) {
			return wrong("is answered with bytes that are no text")
		}
		if slices.Contains(good, a) {
			return wrong("is answered twice with the same")
		}
		if len(q.Options) > 0 && !q.Other && !slices.ContainsFunc(q.Options, func(c protocol.Choice) bool { return c.Label == a }) {
			return wrong("has an answer that is not one of its options%s", offeredChoices(q))
		}
		a, err := typedAnswer(q, a)
		if err != nil {
			return nil, err
		}
		good = append(good, a)
	}
	return good, nil
}

func typedAnswer(q protocol.Question, a string) (string, error) {
	wrong := func(format string, args ...any) (string, error) {
		return "", &AnswerError{q.ID, fmt.Sprintf(format, args...)}
	}
	plain := strings.TrimSpace(a)
	switch q.Type {
	case "", "string":
		if n := utf8.RuneCountInString(a); !q.Many && !fitsBounds(q, float64(n)) {
			return wrong("takes %s characters, and has %d", boundsOf(q), n)
		}
		if !fits(q.Format, a) {
			return wrong("is not answered with a value of the format %s", q.Format)
		}
		return a, nil
	case "boolean":
		switch strings.ToLower(plain) {
		case "true", "yes", "y":
			return "true", nil
		case "false", "no", "n":
			return "false", nil
		}
		return wrong("takes true or false")
	case "integer":
		n, err := strconv.ParseInt(plain, 10, 64)
		if err != nil {
			return wrong("takes a whole number")
		}
		if !fitsBounds(q, float64(n)) {
			return wrong("takes a whole number of %s", boundsOf(q))
		}
		return strconv.FormatInt(n, 10), nil
	case "number":
		n, err := strconv.ParseFloat(plain, 64)
		if err != nil || math.IsNaN(n) || math.IsInf(n, 0) {
			return wrong("takes a number")
		}
		if !fitsBounds(q, n) {
			return wrong("takes a number of %s", boundsOf(q))
		}
		return strconv.FormatFloat(n, 'g', -1, 64), nil
	}
	return wrong("is of the type %s, which nobody can answer here", q.Type)
}

// fits checks the formats of MCP forms; other formats always fit.
func fits(format, text string) bool {
	var err error
	switch format {
	case "email":
		var a *mail.Address
		if a, err = mail.ParseAddress(text); err == nil && a.Address != text {
			return false
		}
	case "uri":
		var u *url.URL
		if u, err = url.Parse(text); err == nil && u.Scheme == "" {
			return false
		}
	case "date":
		_, err = time.Parse(time.DateOnly, text)
	case "date-time":
		_, err = time.Parse(time.RFC3339, text)
	}
	return err == nil
}

func fitsBounds(q protocol.Question, n float64) bool {
	return (q.Least == nil || n >= *q.Least) && (q.Most == nil || n <= *q.Most)
}

func boundsOf(q protocol.Question) string {
	number := func(n *float64) string { return strconv.FormatFloat(*n, 'g', -1, 64) }
	switch {
	case q.Least != nil && q.Most != nil:
		return number(q.Least) + " to " + number(q.Most)
	case q.Least != nil:
		return number(q.Least) + " or more"
	case q.Most != nil:
		return "at most " + number(q.Most)
	}
	return "any number of"
}

func offeredChoices(q protocol.Question) string {
	if len(q.Options) == 0 {
		return ""
	}
	var labels []string
	for i, o := range q.Options {
		if i == 10 {
			labels = append(labels, "…")
			break
		}
		labels = append(labels, strconv.Quote(short(o.Label)))
	}
	return " (options: " + strings.Join(labels, ", ") + ")"
}

func questionIDs(questions []protocol.Question) string {
	var ids []string
	for i, q := range questions {
		if i == 10 {
			ids = append(ids, "…")
			break
		}
		ids = append(ids, strconv.Quote(short(q.ID)))
	}
	return strings.Join(ids, ", ")
}

func short(s string) string { return wire.Excerpt(s, 80) }

func sorted[V any](m map[string]V) []string {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
