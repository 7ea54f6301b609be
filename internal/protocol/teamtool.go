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
	Webhook string `json:"webhook"`
	// Timeout bounds a call, with all its attempts; 0 means TeamToolTimeout.
	Timeout time.Duration `json:"timeout,omitempty"`
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
)

// ToolsGiven are the team tools of a session. The text is a JSON list of TeamTool.
type ToolsGiven struct {
	Names []string `json:"names"`
	GivenText
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
	case t.Webhook == "" || len(t.Webhook) > maxToolURL:
		return fmt.Errorf("webhook has %d bytes, want the URL of its handler, at most %d", len(t.Webhook), maxToolURL)
	case t.Timeout != 0 && (t.Timeout < MinTeamToolTimeout || t.Timeout > MaxTeamToolTimeout):
		return fmt.Errorf("timeout %s: want %s to %s", t.Timeout, MinTeamToolTimeout, MaxTeamToolTimeout)
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
