package protocol

import (
	"encoding/json"
	"slices"
	"strings"
)

// Options of sessions come with releases. A worker that does not know an option would drop it
// without a word when it reads a start. So a start names the options that it needs, in the
// field requires, and a worker that lacks one of them leaves the session's workflow tasks and
// activities to newer workers. See workflows/newer.
//
// To announce an option, add a line to features: its name, and the option's name in the JSON
// of session.Options. That is all. Whatever starts a session puts the name into requires if
// the option is set (Requires), workers list the names in their status, and ctl asks the
// workers of the zone before it starts a session that needs one. Announce a new value of an
// older option with value, and a new field of one with part. Do not announce an option whose loss does no harm, because workers
// of earlier releases would then be asked for in vain. A name is never used for something
// else. Fields that only a run hands to the next, and unknown fields of any start, need no
// line: a worker leaves them to newer workers in any case.

// A feature is an option that workers of earlier releases do not know.
type feature struct {
	name   string // in requires
	option string // of a session, in JSON
	part   string // a field of the option's object, which counts in the option's place
	value  string // in JSON; empty means any but the zero value
	has    string // a text in the option, which counts then
}

var features = []feature{
	{name: "agents", option: "agents"},
	{name: "base_instructions", option: "base_instructions"},
	{name: "team_tools", option: "team_tools"},
	{name: "team_tools.activities", option: "team_tools", part: "activities"},
	{name: "follow_ups", option: "follow_ups"},
	{name: "deliver_verdict", option: "deliver_verdict"},
	{name: "children", option: "children"},
	{name: "credentials=gateway", option: "credentials", value: `"gateway"`},
	{name: "budget.money", option: "money"},
	{name: "on_limit=switch", option: "on_limit", value: `"switch"`},
	{name: "egress", option: "egress"},
	{name: "policy.risk", option: "policy", has: "risk"},
}

// Features returns the names of what this program's release knows.
func Features() (names []string) {
	for _, f := range features {
		names = append(names, f.name)
	}
	return names
}

// Requires returns the names of the features that the options of a session use. Options are
// those of the package session, or the same JSON object in parts.
func Requires(options any) (names []string) {
	raw, err := json.Marshal(options)
	var set map[string]json.RawMessage
	if err != nil || json.Unmarshal(raw, &set) != nil {
		return nil // whoever reads them refuses them
	}
	for _, f := range features {
		v, ok := set[f.option]
		if ok && f.part != "" {
			var parts map[string]json.RawMessage
			if json.Unmarshal(v, &parts) != nil {
				continue
			}
			v, ok = parts[f.part]
		}
		switch {
		case !ok, f.has != "" && !strings.Contains(string(v), f.has), f.value != "" && string(v) != f.value, f.value == "" && isZero(v):
		default:
			names = append(names, f.name)
		}
	}
	return names
}

func isZero(raw json.RawMessage) bool {
	return slices.Contains([]string{"null", "false", "0", `""`, "[]", "{}"}, string(raw))
}

// maxRequires bounds the names that are shown of a start.
const maxRequires = 20

// Lacking returns the required names that are not known, cut to what can be shown.
func Lacking(requires, known []string) (names []string) {
	for _, r := range requires {
		if !slices.Contains(known, r) && len(names) < maxRequires {
			names = append(names, r[:min(len(r), 63)])
		}
	}
	return names
}
