package protocol

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// A TeamTool is a tool that a team gives to a session. A call goes to its handler.
type TeamTool struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Schema      json.RawMessage `json:"schema"` // of the arguments; a JSON object
	// Webhook is the URL that a worker sends calls to, if the worker's config allows it.
	Webhook string `json:"webhook,omitempty"`
	// Activity is the handler in place of a webhook.
	Activity *ToolActivity `json:"activity,omitempty"`
	// Timeout bounds a call, with all its attempts; 0 means TeamToolTimeout.
	Timeout time.Duration `json:"timeout,omitempty"`
}

// A ToolActivity is a Temporal activity of a team's own worker that carries out the calls of
// a tool, if the config of Fairlead's workers allows it.
type ToolActivity struct {
	Queue string `json:"queue"` // task queue
	Type  string `json:"type"`
	// Attempt bounds one attempt, from when the team's worker has it; 0 means the tool's
	// timeout.
	Attempt time.Duration `json:"attempt_timeout,omitempty"`
	// Heartbeat is how long a worker may be silent before Temporal gives the call to another
	// one; 0 means that the activity sends no heartbeats.
	Heartbeat time.Duration `json:"heartbeat,omitempty"`
	// Attempts bounds how often Temporal gives the call to a worker; 0 means that only the
	// tool's timeout does.
	Attempts int `json:"attempts,omitempty"`
}

// Bounds of a session's team tools.
const (
	MaxTeamTools       = 32
	MaxToolDescription = 4 << 10 // bytes
	MaxToolSchema      = 16 << 10

	TeamToolTimeout    = time.Minute
	MinTeamToolTimeout = time.Second
	MaxTeamToolTimeout = 10 * time.Minute
	maxToolURL         = 2 << 10

	maxToolAttempts = 100
	maxTemporalName = 200 // of a queue or an activity type, in bytes
)

// ToolsGiven are the team tools of a session. The text is a JSON list of TeamTool.
type ToolsGiven struct {
	Names []string `json:"names"`
	// Activities are the names of those whose handler is an activity. Workers of releases
	// that know only webhooks cannot read such tools.
	Activities []string `json:"activities,omitempty"`
	GivenText
}

// OfActivities returns the names of the tools whose handler is an activity.
func OfActivities(tools []TeamTool) (names []string) {
	for _, t := range tools {
		if t.Activity != nil {
			names = append(names, t.Name)
		}
	}
	return names
}

var toolName = regexp.MustCompile(`^[a-zA-Z][a-zA-Z0-9_-]{0,62}$`)

// Check returns an error if no session may be started with these tools.
func (g *ToolsGiven) Check(isBlob func(key string) bool) error {
	if g == nil {
		return nil
	}
	if err := checkToolNames(g.Names); err != nil {
		return err
	}
	for i, name := range g.Activities {
		if !slices.Contains(g.Names, name) || slices.Contains(g.Activities[:i], name) {
			return fmt.Errorf("activities: %.70q is not the name of a tool, or is there twice", name)
		}
	}
	return g.GivenText.Check("the tools of the session", isBlob)
}

func checkToolNames(names []string) error {
	if len(names) == 0 || len(names) > MaxTeamTools {
		return fmt.Errorf("%d tools are given, want 1 to %d", len(names), MaxTeamTools)
	}
	for i, name := range names {
		switch {
		case !toolName.MatchString(name):
			return fmt.Errorf("tool %.70q: a name has letters, digits, dashes and underscores, at most 63, the first a letter", name)
		case slices.Contains(Tools, name):
			return fmt.Errorf("tool %s: Fairlead has a tool of this name: choose another one", name)
		case slices.Contains(names[:i], name):
			return fmt.Errorf("tool %s is there twice", name)
		}
	}
	return nil
}

// ParseTeamTools reads a JSON list of tools. It does not check schemas and URLs any further
// than that they are an object and a text.
func ParseTeamTools(text string) ([]TeamTool, error) {
	d := json.NewDecoder(strings.NewReader(text))
	d.DisallowUnknownFields()
	var all []TeamTool
	if err := d.Decode(&all); err != nil {
		return nil, fmt.Errorf("the tools are not a JSON list of tools: %w", err)
	}
	if d.More() {
		return nil, errors.New("the tools are not one JSON list")
	}
	var names []string
	for _, t := range all {
		names = append(names, t.Name)
	}
	if err := checkToolNames(names); err != nil {
		return nil, err
	}
	for _, t := range all {
		if err := t.check(); err != nil {
			return nil, fmt.Errorf("tool %s: %w", t.Name, err)
		}
	}
	return all, nil
}

func (t TeamTool) check() error {
	var object map[string]json.RawMessage
	switch {
	case strings.TrimSpace(t.Description) == "":
		return errors.New("it has no description: the model decides by it when to call the tool")
	case len(t.Description) > MaxToolDescription || !utf8.ValidString(t.Description):
		return fmt.Errorf("its description has %d bytes, want at most %d of UTF-8 text", len(t.Description), MaxToolDescription)
	case len(t.Schema) > MaxToolSchema:
		return fmt.Errorf("its schema has %d bytes, at most %d", len(t.Schema), MaxToolSchema)
	case json.Unmarshal(t.Schema, &object) != nil || object == nil:
		return errors.New("its schema is not a JSON object, such as {type: object, properties: {…}}")
	case (t.Webhook == "") == (t.Activity == nil):
		return errors.New("want one handler: webhook, a URL, or activity, with queue and type")
	case len(t.Webhook) > maxToolURL:
		return fmt.Errorf("webhook has %d bytes, want the URL of its handler, at most %d", len(t.Webhook), maxToolURL)
	case t.Timeout != 0 && (t.Timeout < MinTeamToolTimeout || t.Timeout > MaxTeamToolTimeout):
		return fmt.Errorf("timeout %s: want %s to %s", t.Timeout, MinTeamToolTimeout, MaxTeamToolTimeout)
	case t.Activity != nil:
		return t.Activity.check(t.Wait())
	}
	return nil
}

func (a ToolActivity) check(wait time.Duration) error {
	if err := CheckToolQueue(a.Queue); err != nil {
		return fmt.Errorf("activity: queue %.70q: %w", a.Queue, err)
	}
	if err := CheckTemporalName(a.Type); err != nil {
		return fmt.Errorf("activity: type %.70q: %w", a.Type, err)
	}
	for _, d := range []struct {
		name  string
		value time.Duration
	}{{"attempt_timeout", a.Attempt}, {"heartbeat", a.Heartbeat}} {
		if d.value != 0 && (d.value < MinTeamToolTimeout || d.value > wait) {
			return fmt.Errorf("activity: %s %s: want %s to the timeout of the tool, %s", d.name, d.value, MinTeamToolTimeout, wait)
		}
	}
	if a.Attempts < 0 || a.Attempts > maxToolAttempts {
		return fmt.Errorf("activity: attempts is %d: want 1 to %d, or none, so that only the timeout ends them", a.Attempts, maxToolAttempts)
	}
	return nil
}

// CheckToolQueue returns an error if no team may have a queue of this name.
func CheckToolQueue(queue string) error {
	if err := CheckTemporalName(queue); err != nil {
		return err
	}
	if lower := strings.ToLower(queue); lower == TaskQueue || strings.HasPrefix(lower, TaskQueue+"-") {
		return errors.New("queues of such names are of Fairlead's own workers")
	}
	return nil
}

// CheckTemporalName returns an error if text cannot be the name of a team's queue or activity.
func CheckTemporalName(text string) error {
	switch {
	case text == "" || len(text) > maxTemporalName:
		return fmt.Errorf("it has %d bytes, want 1 to %d", len(text), maxTemporalName)
	case strings.HasPrefix(text, "/") || strings.HasPrefix(text, "__"):
		return errors.New("names that begin like this are Temporal's own")
	case strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' }):
		return errors.New("it has other characters than the visible ones of ASCII")
	}
	return nil
}

// Wait returns how long a call may take.
func (t TeamTool) Wait() time.Duration {
	if t.Timeout == 0 {
		return TeamToolTimeout
	}
	return t.Timeout
}

// BlobKey returns the key of the tools in the store, or "".
func (g *ToolsGiven) BlobKey() string {
	if g == nil {
		return ""
	}
	return g.Blob
}
