package conversation

import (
	"errors"
	"maps"
	"reflect"
	"strings"
	"testing"

	"fairlead.dev/fairlead/internal/protocol"
)

func bound(n float64) *float64 { return &n }

func TestAnswersFitTheirQuestions(t *testing.T) {
	colours := []protocol.Choice{{Label: "red"}, {Label: "green"}}
	for name, try := range map[string]struct {
		question protocol.Question
		answer   []string // nil: no answer
		want     []string // nil: the question is left out
		wrong    string
	}{
		"own words":                     {question: protocol.Question{}, answer: []string{"as I like"}, want: []string{"as I like"}},
		"nothing":                       {question: protocol.Question{}, wrong: "is not answered"},
		"a blank":                       {question: protocol.Question{}, answer: []string{" \n"}, wrong: "is not answered"},
		"two where one is asked":        {question: protocol.Question{}, answer: []string{"a", "b"}, wrong: "takes one answer, and has 2"},
		"an option":                     {question: protocol.Question{Options: colours}, answer: []string{"green"}, want: []string{"green"}},
		"no option":                     {question: protocol.Question{Options: colours}, answer: []string{"blue"}, wrong: `not one of its options (options: "red", "green")`},
		"not among options, none given": {question: protocol.Question{Options: colours}, wrong: `is not answered (options: "red", "green")`},
		"another than the options":      {question: protocol.Question{Options: colours, Other: true}, answer: []string{"blue"}, want: []string{"blue"}},
		"several options":               {question: protocol.Question{Options: colours, Many: true}, answer: []string{"green", "red"}, want: []string{"green", "red"}},
		"an option twice":               {question: protocol.Question{Options: colours, Many: true}, answer: []string{"red", "red"}, wrong: "twice"},
		"too many options":              {question: protocol.Question{Options: colours, Many: true, Most: bound(1)}, answer: []string{"red", "green"}, wrong: "takes at most 1 answers, and has 2"},
		"optional, nothing":             {question: protocol.Question{Optional: true}},
		"optional, a blank":             {question: protocol.Question{Optional: true, Default: "x"}, answer: []string{""}},
		"a default":                     {question: protocol.Question{Default: "x"}, want: []string{"x"}},
		"a default that does not fit":   {question: protocol.Question{Default: "x", Type: "integer"}, wrong: "whole number"},
		"yes":                           {question: protocol.Question{Type: "boolean"}, answer: []string{"Yes"}, want: []string{"true"}},
		"neither yes nor no":            {question: protocol.Question{Type: "boolean"}, answer: []string{"perhaps"}, wrong: "true or false"},
		"a whole number":                {question: protocol.Question{Type: "integer"}, answer: []string{" 007"}, want: []string{"7"}},
		"no whole number":               {question: protocol.Question{Type: "integer"}, answer: []string{"1.5"}, wrong: "whole number"},
		"a number":                      {question: protocol.Question{Type: "number"}, answer: []string{"1.50"}, want: []string{"1.5"}},
		"no number":                     {question: protocol.Question{Type: "number"}, answer: []string{"NaN"}, wrong: "takes a number"},
		"a number over the bound":       {question: protocol.Question{Type: "number", Least: bound(0), Most: bound(9)}, answer: []string{"10"}, wrong: "0 to 9"},
		"a text too short":              {question: protocol.Question{Least: bound(3)}, answer: []string{"äö"}, wrong: "takes 3 or more characters, and has 2"},
		"a type nobody knows":           {question: protocol.Question{Type: "object"}, answer: []string{"{}"}, wrong: "nobody can answer"},
		"an address":                    {question: protocol.Question{Format: "email"}, answer: []string{"a@b.example"}, want: []string{"a@b.example"}},
		"no address":                    {question: protocol.Question{Format: "email"}, answer: []string{"A <a@b.example>"}, wrong: "format email"},
		"a date":                        {question: protocol.Question{Format: "date"}, answer: []string{"2026-02-30"}, wrong: "format date"},
		"a time":                        {question: protocol.Question{Format: "date-time"}, answer: []string{"2026-02-03T04:05:06Z"}, want: []string{"2026-02-03T04:05:06Z"}},
		"no address of a page":          {question: protocol.Question{Format: "uri"}, answer: []string{"here"}, wrong: "format uri"},
		"too long":                      {question: protocol.Question{}, answer: []string{strings.Repeat("x", MaxAnswer+1)}, wrong: "16384 is the most"},
		"no text":                       {question: protocol.Question{}, answer: []string{"\xff"}, wrong: "no text"},
	} {
		t.Run(name, func(t *testing.T) {
			try.question.ID = "q"
			answers := map[string][]string{}
			if try.answer != nil {
				answers["q"] = try.answer
			}
			before := maps.Clone(answers)
			got, err := CheckAnswers([]protocol.Question{try.question}, answers)
			if !reflect.DeepEqual(answers, before) {
				t.Errorf("what was given is changed: %q", answers)
			}
			if try.wrong != "" {
				var wrong *AnswerError
				if !errors.As(err, &wrong) || wrong.Question != "q" || !strings.Contains(err.Error(), try.wrong) {
					t.Errorf("%v, want %q", err, try.wrong)
				}
				return
			}
			want := map[string][]string{}
			if try.want != nil {
				want["q"] = try.want
			}
			if err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("%q, %v, want %q", got, err, want)
			}
		})
	}
}

func TestAnswersToWhatWasNotAskedAreRefused(t *testing.T) {
	_, err := CheckAnswers([]protocol.Question{{ID: "a", Optional: true}, {ID: "b", Optional: true}}, map[string][]string{"c": {"secret word"}})
	if err == nil || !strings.Contains(err.Error(), `"c" is not one of the questions: "a", "b"`) || strings.Contains(err.Error(), "secret") {
		t.Error(err)
	}
	five := []protocol.Question{{ID: "a"}, {ID: "b"}, {ID: "c"}, {ID: "d"}, {ID: "e"}}
	long := map[string][]string{}
	for _, q := range five {
		long[q.ID] = []string{strings.Repeat("x", MaxAnswer)}
	}
	if _, err := CheckAnswers(five, long); err == nil {
		t.Error("answers of 80 KiB are taken")
	}
}

// An error about an answer may be shown and logged. The answer may not.
func TestWhatIsWrongWithASecretAnswerDoesNotSayIt(t *testing.T) {
	const secret = "hunter2-hunter2"
	for _, q := range []protocol.Question{
		{Type: "integer"}, {Type: "number"}, {Type: "boolean"}, {Type: "object"}, {Format: "email"}, {Most: bound(2)},
		{Options: []protocol.Choice{{Label: "a"}}},
	} {
		q.ID, q.Secret = "q", true
		if _, err := CheckAnswers([]protocol.Question{q}, map[string][]string{"q": {secret}}); err == nil || strings.Contains(err.Error(), secret) {
			t.Errorf("%+v: %v", q, err)
		}
	}
}
