package conversation

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"fairlead.dev/fairlead/conversation/wire"
	"fairlead.dev/fairlead/internal/protocol"
)

// CheckTools refuses unknown and repeated tool names.
func CheckTools(names []string) error {
	for i, n := range names {
		switch {
		case !slices.Contains(protocol.Tools, n):
			return fmt.Errorf("there is no tool %q; there are %s", n, strings.Join(protocol.Tools, ", "))
		case slices.Contains(names[:i], n):
			return fmt.Errorf("tool %s is named twice", n)
		}
	}
	return nil
}

var toolSpecs = map[string]wire.ToolSpec{
	protocol.ToolAskHuman: {
		Description: "Ask the person you work for one question and wait for the answer. Use it when only they can decide or know something: " +
			"a choice between different results, a missing fact, leave to do something that cannot be undone. " +
			"The answer may take hours, so first do all that does not depend on it, and do not ask for what you can find out yourself. " +
			"Give `choices` where the answer is one of a few. The result is the answer as text, one line for each choice taken; " +
			"if nobody answers, the result says so, and you go on as well as you can or stop and say what is missing.",
		Schema: json.RawMessage(`{"type":"object","properties":{` +
			`"question":{"type":"string","description":"The whole question, with what a person needs to answer it; they do not see your thoughts."},` +
			`"choices":{"type":"array","items":{"type":"string"},"maxItems":20,"description":"The answers to choose from, each a few words."},` +
			`"many":{"type":"boolean","description":"Several choices may be taken. Default false."},` +
			`"allow_other":{"type":"boolean","description":"The person may answer in their own words as well. Default false where there are choices."}},` +
			`"required":["question"],"additionalProperties":false}`),
	},
	protocol.ToolDeliver: {
		Description: "Hand over a finished file to the person you work for: a report, a patch, a build, an archive. " +
			"It is copied as it is now and kept when this machine is gone, so call it once the file is complete. " +
			"Only regular files inside the working directory can be handed over: no directories (pack those into an archive first), and nothing outside of it, by a symbolic link neither. " +
			"The result names the size and SHA-256 of what was taken, or says why it was refused and what you can do about it. " +
			"Delivering again under the same name adds a newer version.",
		Schema: json.RawMessage(`{"type":"object","properties":{` +
			`"path":{"type":"string","description":"The file, relative to the working directory or absolute inside it."},` +
			`"name":{"type":"string","description":"What to call it; a file name without slashes. Default: the last part of path."},` +
			`"description":{"type":"string","description":"One or two sentences on what it is."}},` +
			`"required":["path"],"additionalProperties":false}`),
	},
	protocol.ToolFinish: {
		Description: "Say how your task ended, as the last thing before you end your turn. " +
			"The outcome is `done` if you did all that was asked, and `failed` if you could not: the turn then counts as failed for the person and the programs that gave you the task, " +
			"so do not call failed what is merely imperfect, and do not call done what was not done. " +
			"The summary is shown beside the outcome. It answers at once, and a later call replaces an earlier one.",
		Schema: json.RawMessage(`{"type":"object","properties":{` +
			`"outcome":{"type":"string","enum":["done","failed"]},` +
			`"summary":{"type":"string","description":"A few sentences on what was done, or on why it failed and what is missing; at most 2048 bytes."}},` +
			`"required":["outcome","summary"],"additionalProperties":false}`),
	},
	protocol.ToolProgress: {
		Description: "Tell the person you work for how far you are, in one short line that replaces the last one. " +
			"Call it when a step of longer work begins or ends, not more than about once a minute. It answers at once.",
		Schema: json.RawMessage(`{"type":"object","properties":{` +
			`"text":{"type":"string","description":"What you are doing now; at most 500 bytes."},` +
			`"percent":{"type":"number","minimum":0,"maximum":100,"description":"How much of all the work is done, if you can tell."},` +
			`"step":{"type":"string","description":"The step you are at, such as 3/7 or build."}},` +
			`"required":["text"],"additionalProperties":false}`),
	},
	protocol.ToolStartSession: {
		Description: "Start another session that works on a task of its own, beside you: an agent like you, on a machine and in a working directory of its own, which is empty. " +
			"It knows nothing of what you know, so the prompt must say all that it needs. It has one turn, and ends with it. " +
			"The result names the session at once, while it begins; call wait_session to learn how it ended. To have several work at the same time, start them all before you wait.",
		Schema: json.RawMessage(`{"type":"object","properties":{` +
			`"prompt":{"type":"string","description":"The whole task; at most 16384 bytes."},` +
			`"model":{"type":"string","description":"Default: yours."},` +
			`"effort":{"type":"string","description":"Reasoning effort. Default: yours."},` +
			`"host":{"type":"string","description":"The machine. Default: one as yours is."},` +
			`"seed":{"type":"string","description":"The credentials. Default: yours."},` +
			`"seed_pool":{"type":"string","description":"Any credentials of this pool, instead of seed."},` +
			`"read_only":{"type":"boolean","description":"Its commands may change nothing."},` +
			`"children":{"type":"integer","minimum":0,"description":"How many sessions it may start itself. Default 0."}},` +
			`"required":["prompt"],"additionalProperties":false}`),
	},
	protocol.ToolWaitSession: {
		Description: "Wait until sessions that you started have ended, and get how each of them ended: completed (text is its final answer), " +
			"failed (error says why), cancelled (a person closed it or interrupted it), or running if the timeout came first. " +
			"Waiting costs nothing and may take hours. The results stay, so you can ask again.",
		Schema: json.RawMessage(`{"type":"object","properties":{` +
			`"sessions":{"type":"array","items":{"type":"string"},"maxItems":64,"description":"Their ids. Default: all that you started."},` +
			`"timeout_seconds":{"type":"integer","minimum":1,"maximum":86400,"description":"Default: 86400."}},` +
			`"additionalProperties":false}`),
	},
}

func (t ThreadSpec) dynamicTools() []wire.ToolSpec {
	var specs []wire.ToolSpec
	for _, n := range t.Tools {
		s := toolSpecs[n]
		if n == protocol.ToolDeliver && t.Verdict {
			s.Description += verdictDescription
		}
		if n == protocol.ToolStartSession {
			s.Description += t.Children
		}
		s.Type, s.Name = "function", n
		specs = append(specs, s)
	}
	for _, t := range t.Team {
		specs = append(specs, wire.ToolSpec{Type: "function", Name: t.Name, Description: t.Description, Schema: t.Schema})
	}
	return specs
}

// A ToolCall is a call that the caller of Run carries out.
type ToolCall struct {
	// ID is unique in the session and the same for every attempt. A call is carried out
	// once for each ID.
	ID     string          `json:"id"`
	Call   string          `json:"call"` // codex's id, which the model chose
	Tool   string          `json:"tool"`
	Args   json.RawMessage `json:"args,omitempty"`
	Turn   int             `json:"turn"`
	TurnID string          `json:"turn_id,omitempty"`
	AtMS   int64           `json:"at_ms,omitempty"`
}

// A ToolReply is the reply to the model.
type ToolReply struct {
	Text string
	OK   bool
	// Delivered is the file that deliver took. If the session asks for verdicts, the reply is
	// the verdict on it.
	Delivered *protocol.Deliverable
}

// A Tooler carries out a call, from a goroutine of the pump, and must stop when ctx ends.
// It may be called again with the same ID, and must then give the same reply. An error ends
// the pump, which is run again. A failure that the model can act on is a reply.
type Tooler func(ctx context.Context, call ToolCall) (ToolReply, error)

func toolAnswer(r ToolReply) any {
	return map[string]any{"success": r.OK, "contentItems": []wire.TextInput{{Type: "inputText", Text: r.Text}}}
}

type toolParams struct {
	wire.Notice
	CallID string          `json:"callId"`
	Space  *string         `json:"namespace"`
	Tool   string          `json:"tool"`
	Args   json.RawMessage `json:"arguments"`
}

const (
	maxQuestion = 16 << 10
	maxChoices  = 20
	maxChoice   = 500
)

// humanQuestion reads the arguments of ask_human. The question's id is "answer", and errors
// are for the model.
func humanQuestion(args json.RawMessage) ([]protocol.Question, error) {
	var a struct {
		Question string   `json:"question"`
		Choices  []string `json:"choices"`
		Many     bool     `json:"many"`
		Other    bool     `json:"allow_other"`
	}
	if err := json.Unmarshal(args, &a); err != nil {
		return nil, fmt.Errorf("the arguments are not as described: %w", err)
	}
	switch {
	case strings.TrimSpace(a.Question) == "":
		return nil, fmt.Errorf("question is empty: say what you want to know")
	case len(a.Question) > maxQuestion:
		return nil, fmt.Errorf("question has %d bytes, at most %d are asked: put the rest into a file and name it", len(a.Question), maxQuestion)
	case len(a.Choices) > maxChoices:
		return nil, fmt.Errorf("%d choices are too many to choose from, at most %d", len(a.Choices), maxChoices)
	case !utf8.ValidString(a.Question):
		return nil, fmt.Errorf("question is not UTF-8 text")
	}
	q := protocol.Question{ID: "answer", Text: a.Question, Many: a.Many && len(a.Choices) > 0, Other: a.Other || len(a.Choices) == 0}
	for i, c := range a.Choices {
		switch {
		case strings.TrimSpace(c) == "" || len(c) > maxChoice:
			return nil, fmt.Errorf("choice %d is empty or has more than %d bytes", i+1, maxChoice)
		case slices.Contains(a.Choices[:i], c):
			return nil, fmt.Errorf("choice %q is there twice", c)
		}
		q.Options = append(q.Options, protocol.Choice{Label: c})
	}
	return []protocol.Question{q}, nil
}

func humanAnswer(answers map[string][]string) ToolReply {
	return ToolReply{Text: strings.Join(answers["answer"], "\n"), OK: true}
}

func humanSilence(reason string) ToolReply {
	text := "Nobody answered this question."
	if reason != "" {
		text = "The question was not answered: " + reason
	}
	return ToolReply{Text: text + " Go on without an answer as well as you can, or stop and say what is missing."}
}
