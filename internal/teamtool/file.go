package teamtool

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/internal/strictyaml"
)

const maxDepth = 40

// Parse reads a file of tools (YAML or JSON): {tools: [{name, description, schema, webhook,
// activity: {queue, type, attempt_timeout, heartbeat, attempts}, timeout}]}. It returns them as a session takes them: as JSON, which is the same for the
// same tools.
func Parse(data []byte) (*protocol.ToolsGiven, error) {
	if err := strictyaml.Shallow(data, maxDepth, true); err != nil {
		return nil, err
	}
	if err := plain(data); err != nil {
		return nil, err
	}
	raw, err := yaml.YAMLToJSON(data)
	if err != nil {
		return nil, fmt.Errorf("it is not YAML: %s", strings.TrimSpace(yaml.FormatError(err, false, false)))
	}
	var file struct {
		Tools []struct {
			Name        string          `json:"name"`
			Description string          `json:"description"`
			Schema      json.RawMessage `json:"schema"`
			Webhook     string          `json:"webhook"`
			Activity    *activityInFile `json:"activity"`
			Timeout     string          `json:"timeout"`
		} `json:"tools"`
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(&file); err != nil {
		return nil, fmt.Errorf("it is not as described: %w", err)
	}
	var tools []protocol.TeamTool
	var names []string
	for _, f := range file.Tools {
		t := protocol.TeamTool{Name: f.Name, Description: strings.TrimSpace(f.Description), Webhook: f.Webhook}
		if len(f.Schema) == 0 {
			f.Schema = json.RawMessage(`{"type":"object","properties":{},"additionalProperties":false}`)
		}
		var schema any // written again, its keys are sorted
		if err := json.Unmarshal(f.Schema, &schema); err != nil {
			return nil, fmt.Errorf("tool %.70q: its schema: %w", f.Name, err)
		}
		if t.Schema, err = json.Marshal(schema); err != nil {
			return nil, fmt.Errorf("tool %.70q: its schema: %w", f.Name, err)
		}
		if f.Timeout != "" {
			if t.Timeout, err = time.ParseDuration(f.Timeout); err != nil {
				return nil, fmt.Errorf("tool %.70q: timeout %.40q is not a duration such as 30s", f.Name, f.Timeout)
			}
		}
		if f.Activity != nil {
			if t.Activity, err = f.Activity.read(); err != nil {
				return nil, fmt.Errorf("tool %.70q: activity: %w", f.Name, err)
			}
		}
		tools, names = append(tools, t), append(names, t.Name)
	}
	text, err := json.Marshal(tools)
	if err != nil {
		return nil, err
	}
	if _, err := Read(string(text)); err != nil {
		return nil, err
	}
	given := protocol.ToolsGiven{Names: names, Activities: protocol.OfActivities(tools), GivenText: *protocol.Give(string(text))}
	return &given, given.Check(nil)
}

type activityInFile struct {
	Queue     string `json:"queue"`
	Type      string `json:"type"`
	Attempt   string `json:"attempt_timeout"`
	Heartbeat string `json:"heartbeat"`
	Attempts  int    `json:"attempts"`
}

func (f *activityInFile) read() (*protocol.ToolActivity, error) {
	a := &protocol.ToolActivity{Queue: f.Queue, Type: f.Type, Attempts: f.Attempts}
	for _, d := range []struct {
		name, text string
		to         *time.Duration
	}{{"attempt_timeout", f.Attempt, &a.Attempt}, {"heartbeat", f.Heartbeat, &a.Heartbeat}} {
		if d.text == "" {
			continue
		}
		var err error
		if *d.to, err = time.ParseDuration(d.text); err != nil {
			return nil, fmt.Errorf("%s %.40q is not a duration such as 30s", d.name, d.text)
		}
	}
	return a, nil
}

// Read parses tools as a session has them, and checks all of them.
func Read(text string) ([]protocol.TeamTool, error) {
	tools, err := protocol.ParseTeamTools(text)
	if err != nil {
		return nil, err
	}
	for _, t := range tools {
		if _, _, err := compile(t.Schema); err != nil {
			return nil, fmt.Errorf("tool %s: its schema: %w", t.Name, err)
		}
		if _, err := parseURL(t.Webhook); t.Activity == nil && err != nil {
			return nil, fmt.Errorf("tool %s: webhook: %w", t.Name, err)
		}
	}
	return tools, nil
}

// plain refuses anchors and aliases, with which a short file becomes a long one.
func plain(data []byte) error {
	file, err := parser.ParseBytes(data, 0)
	if err != nil {
		return fmt.Errorf("it is not YAML: %s", strings.TrimSpace(yaml.FormatError(err, false, false)))
	}
	if len(file.Docs) != 1 || file.Docs[0].Body == nil {
		return errors.New("it has no tools: want tools, a list")
	}
	v := &anchors{}
	ast.Walk(v, file.Docs[0].Body)
	if v.found {
		return errors.New("it has anchors or aliases (& and *): write the values out")
	}
	return nil
}

type anchors struct{ found bool }

func (a *anchors) Visit(n ast.Node) ast.Visitor {
	switch n.Type() {
	case ast.AnchorType, ast.AliasType:
		a.found = true
	}
	return a
}
