package show

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"fairlead.dev/fairlead/activities"
	"fairlead.dev/fairlead/cmd/ctl/internal/core"
)

func givenInEntry(data map[string]string) string {
	var answers map[string][]string
	if text := data["answers"]; text != "" && json.Unmarshal([]byte(text), &answers) != nil {
		answers = nil // not ours
	}
	var secret []string
	if data["secret"] != "" {
		secret = strings.Split(data["secret"], ", ")
	}
	return core.Clean(GivenText(answers, secret, json.RawMessage(data["grant"])))
}

// GivenText describes a decision's answers and grant.
func GivenText(answers map[string][]string, secret []string, grant json.RawMessage) string {
	var out []string
	for _, id := range slices.Sorted(maps.Keys(answers)) {
		out = append(out, id+"="+core.OneLine(strings.Join(answers[id], ", "), 80))
	}
	for _, id := range secret {
		out = append(out, id+"=[secret]")
	}
	out = append(out, activities.PermissionWords(grant)...)
	if len(out) == 0 {
		return ""
	}
	return " (" + strings.Join(out, "; ") + ")"
}
