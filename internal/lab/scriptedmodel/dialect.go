package scriptedmodel

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"
)

// A dialect is the way in which a request offers tools, and in which they must
// therefore be called.
type dialect struct {
	// code: code mode (codex's default models), in which one custom tool, exec,
	// takes JavaScript that calls the others.
	code    bool
	offered map[string]bool // names, including those in namespaces
}

func (r *request) dialect() dialect {
	d := dialect{offered: map[string]bool{}}
	var walk func([]tool)
	walk = func(tools []tool) {
		for _, t := range tools {
			if t.Name != "" && t.Type != "namespace" {
				d.offered[t.Name] = true
			}
			if t.Type == "custom" && t.Name == "exec" {
				d.code = true
			}
			walk(t.Tools)
		}
	}
	walk(r.Tools)
	for _, it := range r.Input {
		if it.Type == "additional_tools" {
			walk(it.Tools)
		}
	}
	return d
}

// callID makes the id of a call, from which the step and the kind of call can
// later be read in the history.
func callID(step int, kind callKind, response string, n int) string {
	return fmt.Sprintf("call_s%d%s_%s_%d", step, kind, response, n)
}

type callKind string

const (
	plainCall      callKind = ""
	backgroundCall callKind = "b"
	waitingCall    callKind = "w" // the server's own poll of a command that still runs
)

var callIDs = regexp.MustCompile(`^call_s(\d+)([bw]?)_`)

// callItems turns consecutive tool actions of a step into items of a response.
// In code mode, one program makes all calls that a program can make.
func (d dialect) callItems(actions []Action, step int, response string, first int) ([]map[string]any, error) {
	var items []map[string]any
	add := func(it map[string]any, kind callKind) {
		it["call_id"] = callID(step, kind, response, first+len(items))
		items = append(items, it)
	}
	for len(actions) > 0 {
		n := 0
		for d.code && n < len(actions) && !d.beside(actions[n]) {
			n++
		}
		if n > 0 {
			add(customCall("exec", "", codeProgram(actions[:n])), plainCall)
			actions = actions[n:]
			continue
		}
		a := actions[0]
		actions = actions[1:]
		switch {
		case a.Shell != nil:
			if !d.offered["exec_command"] {
				return nil, d.missing("exec_command")
			}
			kind := plainCall
			if a.Shell.Background {
				kind = backgroundCall
			}
			add(functionCall("exec_command", "", a.Shell.arguments()), kind)
		case a.Patch != "":
			if !d.offered["apply_patch"] {
				return nil, d.missing("apply_patch")
			}
			add(customCall("apply_patch", "", a.Patch), plainCall)
		case a.Call.Input != "":
			add(customCall(a.Call.Name, a.Call.Namespace, a.Call.Input), plainCall)
		default:
			add(functionCall(a.Call.Name, a.Call.Namespace, a.Call.Arguments), plainCall)
		}
	}
	return items, nil
}

// beside reports whether code mode offers the action's tool beside exec;
// programs cannot call such a tool.
func (d dialect) beside(a Action) bool { return a.Call != nil && d.offered[a.Call.Name] }

func (d dialect) missing(name string) error {
	names := slices.Sorted(maps.Keys(d.offered))
	return fmt.Errorf("the request offers no tool %s, only: %s", name, strings.Join(names, ", "))
}

func functionCall(name, namespace string, args map[string]any) map[string]any {
	it := map[string]any{"type": "function_call", "name": name, "arguments": string(mustJSON(arguments(args)))}
	if namespace != "" {
		it["namespace"] = namespace
	}
	return it
}

func customCall(name, namespace, input string) map[string]any {
	it := map[string]any{"type": "custom_tool_call", "name": name, "input": input}
	if namespace != "" {
		it["namespace"] = namespace
	}
	return it
}

// arguments turns nil into an empty object, which functions require.
func arguments(args map[string]any) map[string]any {
	if args == nil {
		return map[string]any{}
	}
	return args
}

// arguments returns the arguments of codex's exec_command.
func (c *Command) arguments() map[string]any {
	args := map[string]any{"cmd": c.Cmd}
	if c.Escalate {
		args["sandbox_permissions"] = "require_escalated"
	}
	if c.Justification != "" {
		args["justification"] = c.Justification
	}
	if c.Workdir != "" {
		args["workdir"] = c.Workdir
	}
	if len(c.PrefixRule) > 0 {
		args["prefix_rule"] = c.PrefixRule
	}
	if c.Login != nil {
		args["login"] = *c.Login
	}
	if c.TTY {
		args["tty"] = true
	}
	if c.Yield > 0 {
		args["yield_time_ms"] = c.Yield / time.Millisecond
	}
	return args
}

// codeHead begins every program. The pragma keeps exec from yielding, so that
// the program's output arrives once, when all its calls have ended; codex
// allows that long (measured with a day).
const codeHead = `// @exec: {"yield_time_ms": 86400000, "max_output_tokens": 100000}
const settle = async (call) => {
  try { return { value: await call() }; } catch (e) { return { error: String(e?.message ?? e) }; }
};
const run = async (args, background) => {
  let r = await tools.exec_command(args);
  let output = r.output;
  while (!background && r.session_id !== undefined && r.exit_code === undefined) {
    r = await tools.write_stdin({ session_id: r.session_id, chars: "", yield_time_ms: 5000 });
    output += r.output;
  }
  return { exit_code: r.exit_code, output };
};
text(JSON.stringify(await Promise.all([
`

// codeProgram returns a program that makes the calls concurrently and returns
// their results in the same order.
func codeProgram(actions []Action) string {
	var b strings.Builder
	b.WriteString(codeHead)
	for _, a := range actions {
		var call string
		switch {
		case a.Shell != nil:
			call = fmt.Sprintf("run(%s, %t)", mustJSON(a.Shell.arguments()), a.Shell.Background)
		case a.Patch != "":
			call = fmt.Sprintf("tools.apply_patch(%s)", mustJSON(a.Patch))
		case a.Call.Input != "":
			call = fmt.Sprintf("tools[%s](%s)", mustJSON(a.Call.Name), mustJSON(a.Call.Input))
		default:
			call = fmt.Sprintf("tools[%s](%s)", mustJSON(a.Call.Name), mustJSON(arguments(a.Call.Arguments)))
		}
		fmt.Fprintf(&b, "  settle(() => %s),\n", call)
	}
	b.WriteString("])));\n")
	return b.String()
}

func mustJSON(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		// Only texts, numbers and decoded YAML are marshalled here.
		panic(fmt.Sprintf("scriptedmodel: %v", err))
	}
	return b
}
