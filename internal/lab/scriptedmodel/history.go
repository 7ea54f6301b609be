package scriptedmodel

import (
	"encoding/json"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// history is what has happened since the latest user message.
type history struct {
	step    int // the step to answer with: the number of those already seen
	results []Result
	// running are the commands and programs that codex has answered for while
	// they still run, and that the step must wait for.
	running []running
}

type running struct {
	session string // of a command: polled with write_stdin
	cell    string // of a program: polled with wait
	result  int    // index in results to which further output belongs
}

var (
	stillSession = regexp.MustCompile(`(?m)^Process running with session ID (\d+)$`)
	stillCell    = regexp.MustCompile(`^Script running with cell ID (\S+)`)
	exitCode     = regexp.MustCompile(`(?m)^(?:Process exited with code|Exit code:) (\d+)$`)
)

// readHistory reads the server's calls, recognised by their ids, and their
// outputs.
func readHistory(items []item) history {
	var h history
	calls := map[string]item{}
	for _, it := range items {
		switch it.Type {
		case "function_call", "custom_tool_call":
			if m := callIDs.FindStringSubmatch(it.CallID); m != nil {
				step, _ := strconv.Atoi(m[1])
				h.step = max(h.step, step+1)
				calls[it.CallID] = it
			}
		case "function_call_output", "custom_tool_call_output":
			if call, ok := calls[it.CallID]; ok {
				h.add(call, it.Output)
			}
		}
	}
	return h
}

func (h *history) add(call item, output content) {
	kind := callKind(callIDs.FindStringSubmatch(call.CallID)[2])
	found, still := readOutput(call, output)
	at := len(h.results)
	if kind == waitingCall {
		if i := slices.IndexFunc(h.running, func(r running) bool { return r.polledBy(call) }); i >= 0 {
			at = h.running[i].result
			h.running = slices.Delete(h.running, i, i+1)
		}
	}
	for i, r := range found {
		if at+i < len(h.results) {
			h.results[at+i].Output += r.Output
			h.results[at+i].ExitCode = r.ExitCode
			continue
		}
		h.results = append(h.results, r)
	}
	if kind != backgroundCall && still != (running{}) {
		still.result = at
		h.running = append(h.running, still)
	}
}

// polledBy reports whether call is the server's own poll of r.
func (r running) polledBy(call item) bool {
	var args struct {
		Session json.Number `json:"session_id"`
		Cell    string      `json:"cell_id"`
	}
	text, _ := call.Arguments.(string)
	if json.Unmarshal([]byte(text), &args) != nil {
		return false
	}
	return r.session != "" && r.session == args.Session.String() || r.cell != "" && r.cell == args.Cell
}

// readOutput parses an output of either dialect. The output of one of the
// server's programs contains the results of its calls as JSON after codex's
// header.
func readOutput(call item, output content) ([]Result, running) {
	whole := strings.Join(output, "")
	if m := stillCell.FindStringSubmatch(whole); m != nil {
		return nil, running{cell: m[1]}
	}
	if call.Name == "exec" || call.Name == "wait" {
		var settled []struct {
			Error *string
			Value json.RawMessage
		}
		if json.Unmarshal([]byte(output.last()), &settled) == nil {
			results := make([]Result, len(settled))
			for i, s := range settled {
				if s.Error != nil {
					results[i] = Result{Output: *s.Error, ExitCode: -1}
					continue
				}
				results[i] = readValue(s.Value)
			}
			return results, running{}
		}
	}
	var still running
	if m := stillSession.FindStringSubmatch(whole); m != nil {
		still.session = m[1]
	}
	r := Result{Output: whole, ExitCode: -1}
	if head, body, ok := strings.Cut(whole, "\nOutput:\n"); ok {
		r.Output = body
		if m := exitCode.FindStringSubmatch(head); m != nil {
			r.ExitCode, _ = strconv.Atoi(m[1])
		}
	}
	return []Result{r}, still
}

// readValue parses what a tool returned to a program: a command's output and
// exit code, a text, or anything else.
func readValue(value json.RawMessage) Result {
	var command struct {
		Output *string `json:"output"`
		Exit   *int    `json:"exit_code"`
	}
	var text string
	switch {
	case json.Unmarshal(value, &command) == nil && command.Output != nil:
		r := Result{Output: *command.Output, ExitCode: -1}
		if command.Exit != nil {
			r.ExitCode = *command.Exit
		}
		return r
	case json.Unmarshal(value, &text) == nil:
		return Result{Output: text, ExitCode: -1}
	}
	return Result{Output: string(value), ExitCode: -1}
}

func (c content) last() string {
	if len(c) == 0 {
		return ""
	}
	return c[len(c)-1]
}

// pollYield is how long a poll of a command waits for more output, in
// milliseconds. Codex does not accept less, and waits the whole time even if
// the command ends (measured).
const pollYield = 5000

// pollItems polls everything that still runs.
func (h history) pollItems(response string) []map[string]any {
	var items []map[string]any
	for i, r := range h.running {
		var it map[string]any
		if r.cell != "" {
			it = functionCall("wait", "", map[string]any{"cell_id": r.cell, "yield_time_ms": 86400000})
		} else {
			session, _ := strconv.Atoi(r.session)
			it = functionCall("write_stdin", "", map[string]any{"session_id": session, "chars": "", "yield_time_ms": pollYield})
		}
		// The step remains that of the polled call.
		it["call_id"] = callID(h.step-1, waitingCall, response, i)
		items = append(items, it)
	}
	return items
}
