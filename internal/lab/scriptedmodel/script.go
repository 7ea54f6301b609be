package scriptedmodel

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
)

// Script is a script; see the package documentation.
type Script struct {
	// Pace is the pause after each delta of streamed text.
	Pace  time.Duration `yaml:"pace"`
	Rules []Rule        `yaml:"rules"`
}

// Rule answers the user messages for which When holds.
type Rule struct {
	Name  string `yaml:"name"`
	When  When   `yaml:"when"`
	Steps Steps  `yaml:"steps"`
	// Reply is short for a single step with one say action.
	Reply string `yaml:"reply"`
}

// When is the condition of a rule; every field that is set must hold.
type When struct {
	Contains Texts  `yaml:"contains"`
	Matches  string `yaml:"matches"`
	Exact    string `yaml:"exact"`
	Turn     int    `yaml:"turn"`
	Model    string `yaml:"model"`
}

type (
	// Texts is a list of texts, in YAML also a single one.
	Texts []string
	// Steps is a list of steps, in YAML also a single one.
	Steps []Step
	// Step is one response of the model; in YAML also a single action.
	Step []Action
)

// Action is one thing that the model does within a response. Exactly one field
// is set.
type Action struct {
	Say   *Text         `yaml:"say"`
	Think *Text         `yaml:"think"`
	Shell *Command      `yaml:"shell"`
	Patch string        `yaml:"patch"`
	Call  *Call         `yaml:"call"`
	Wait  *Gate         `yaml:"wait"`
	Pause time.Duration `yaml:"pause"`
	Fail  *Failure      `yaml:"fail"`
	Usage *Usage        `yaml:"usage"`
	// Served is the model that answers in place of the one that was asked for.
	Served string `yaml:"served"`
	// Limits is what the account of the login has used, as ChatGPT's backend reports it.
	Limits *Limits `yaml:"limits"`
}

// Text is a streamed text. A Pace of zero means the script's.
type Text struct {
	Text string        `yaml:"text"`
	Pace time.Duration `yaml:"pace"`
}

// Command is a shell command that the model asks for.
type Command struct {
	Cmd string `yaml:"cmd"`
	// Escalate asks to run outside the sandbox: codex asks the person and shows
	// the justification.
	Escalate      bool   `yaml:"escalate"`
	Justification string `yaml:"justification"`
	Workdir       string `yaml:"workdir"`
	PrefixRule    Texts  `yaml:"prefix_rule"`
	// Login false runs the shell without its login files; default true.
	Login *bool `yaml:"login"`
	TTY   bool  `yaml:"tty"`
	// Yield is how long codex waits for the command before it answers with the
	// output so far; codex limits it to between 250 ms and 30 s.
	Yield time.Duration `yaml:"yield"`
	// Background: the next step follows even if the command still runs.
	Background bool `yaml:"background"`
}

// Call is a call of any tool: a function with Arguments, or a custom tool with
// an Input. In code mode the program makes the call, unless the request offers
// the tool beside exec.
type Call struct {
	Name      string         `yaml:"name"`
	Namespace string         `yaml:"namespace"`
	Arguments map[string]any `yaml:"arguments"`
	Input     string         `yaml:"input"`
}

// Gate holds the stream until Server.Release is called with its name.
type Gate struct {
	Gate string `yaml:"gate"`
	// After is the number of deltas after which to hold; 0 holds in place.
	After int `yaml:"after"`
}

// Usage is the number of tokens that a response reports. By default it is
// estimated from the sizes of request and response.
type Usage struct {
	Input     int `yaml:"input"`
	Cached    int `yaml:"cached"`
	Output    int `yaml:"output"`
	Reasoning int `yaml:"reasoning"`
}

// Limits is the use of one window of an account.
type Limits struct {
	Used     int           `yaml:"used"`    // percent
	Minutes  int           `yaml:"minutes"` // length of the window
	ResetsIn time.Duration `yaml:"resets_in"`
}

// Say is the action that streams a message.
func Say(text string) Action { return Action{Say: &Text{Text: text}} }

// Think is the action that streams a reasoning summary.
func Think(text string) Action { return Action{Think: &Text{Text: text}} }

// Shell is the action that asks for a command inside the sandbox.
func Shell(cmd string) Action { return Action{Shell: &Command{Cmd: cmd}} }

// Escalate is the action that asks for a command outside the sandbox.
func Escalate(cmd, justification string) Action {
	return Action{Shell: &Command{Cmd: cmd, Escalate: true, Justification: justification}}
}

// Patch is the action that asks for a change of files.
func Patch(text string) Action { return Action{Patch: text} }

// Wait is the action that holds the stream at a gate.
func Wait(gate string) Action { return Action{Wait: &Gate{Gate: gate}} }

// WaitAfter is the action that holds the stream at a gate once it has sent
// that many deltas.
func WaitAfter(gate string, deltas int) Action {
	return Action{Wait: &Gate{Gate: gate, After: deltas}}
}

// Fail is the action that fails once.
func Fail(kind Kind) Action { return Action{Fail: &Failure{Kind: kind}} }

// Parse reads a script. It reports all problems, unless the text is not YAML.
func Parse(text []byte) (Script, error) {
	var s Script
	dec := yaml.NewDecoder(strings.NewReader(string(text)), yaml.Strict())
	if err := dec.Decode(&s); err != nil && !errors.Is(err, io.EOF) {
		return Script{}, fmt.Errorf("read script: %w", err)
	}
	if err := dec.Decode(&Script{}); !errors.Is(err, io.EOF) {
		return Script{}, errors.New("read script: there is a second document in it")
	}
	if _, err := compile(s); err != nil {
		return Script{}, err
	}
	return s, nil
}

// Load reads a script from a file.
func Load(name string) (Script, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return Script{}, fmt.Errorf("read script: %w", err)
	}
	s, err := Parse(text)
	if err != nil {
		return Script{}, fmt.Errorf("%s: %w", name, err)
	}
	return s, nil
}
