package workflows

import (
	"context"
	"encoding"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"fairlead.dev/fairlead/activities"
	"fairlead.dev/fairlead/activities/inquiry"
	"fairlead.dev/fairlead/activities/pumps"
	"fairlead.dev/fairlead/activities/site"
	"fairlead.dev/fairlead/activities/workspaces"
	"fairlead.dev/fairlead/conversation"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/batch"
	"fairlead.dev/fairlead/workflows/hostpool"
	"fairlead.dev/fairlead/workflows/internal/lease"
	"fairlead.dev/fairlead/workflows/seed"
	"fairlead.dev/fairlead/workflows/session"
)

// The lists in testdata/golden have all that running workflows, workers of other versions
// and other programs rely on: names, and the shapes of everything that is kept or sent as
// JSON. They have no names of Go packages, types or fields, so code can be moved and
// renamed without a change to them.

var renewing = flag.Bool("update", false, "renew the lists in testdata/golden")

const (
	golden     = "testdata/golden"
	goldenHead = `# Workflows that are running, workers of other versions and other programs rely
# on these lines. A line that is here must not change, nor be removed, without a
# version (workflow.GetVersion) and a migration of what is kept. New lines are
# added by: make golden
`
)

// golds compares lines with those of a list in testdata/golden. With -update it
// writes the list.
func golds(t *testing.T, file string, lines []string) {
	t.Helper()
	path := filepath.Join(golden, file)
	slices.Sort(lines)
	lines = slices.Compact(lines)
	if *renewing {
		renewed, err := renewedList(path, lines, newestIsFrozen(t))
		if err == nil {
			err = errors.Join(os.MkdirAll(golden, 0o755), os.WriteFile(path, []byte(goldenHead+"\n"+strings.Join(renewed, "\n")+"\n"), 0o644))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	want, err := readList(path)
	if err != nil {
		t.Fatalf("read the list (`make golden` makes it): %v", err)
	}
	for _, err := range listDiffers(path, want, lines) {
		t.Error(err)
	}
}

// renewedList returns what -update writes. It keeps the lines of a frozen release.
func renewedList(path string, lines []string, frozen bool) ([]string, error) {
	if !frozen {
		return lines, nil
	}
	old, err := readList(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	all := append(old, lines...)
	slices.Sort(all)
	return slices.Compact(all), nil
}

// listDiffers says which lines are gone and which are new.
func listDiffers(path string, want, got []string) (all []error) {
	for _, line := range want {
		if !slices.Contains(got, line) {
			all = append(all, fmt.Errorf("%s: %q is gone or was changed: running workflows and other programs rely on it. Put it back; or add a version and a migration, and then take the line out by hand", path, line))
		}
	}
	for _, line := range got {
		if !slices.Contains(want, line) {
			all = append(all, fmt.Errorf("%s: %q is new: if it is to stay, add it: `make golden`", path, line))
		}
	}
	return all
}

func readList(path string) (lines []string, err error) {
	raw, err := os.ReadFile(path)
	for line := range strings.Lines(string(raw)) {
		line = strings.TrimSuffix(line, "\n")
		if line != "" && !strings.HasPrefix(line, "#") {
			lines = append(lines, line)
		}
	}
	return lines, err
}

func newestIsFrozen(t *testing.T) bool {
	t.Helper()
	all, err := releases(histories)
	if err != nil {
		t.Fatal(err)
	}
	return len(all) > 0 && all[len(all)-1].frozen
}

// Shapes that occur in many places are listed once, under these names.
var sharedShapes = map[reflect.Type]string{
	reflect.TypeFor[protocol.SessionView]():   "session view",
	reflect.TypeFor[protocol.TurnView]():      "turn view",
	reflect.TypeFor[protocol.Approval]():      "approval",
	reflect.TypeFor[protocol.HostView]():      "host view",
	reflect.TypeFor[protocol.PoolView]():      "pool view",
	reflect.TypeFor[protocol.SeedView]():      "seed view",
	reflect.TypeFor[protocol.SeedPoolView]():  "seed pool view",
	reflect.TypeFor[protocol.BatchView]():     "batch view",
	reflect.TypeFor[session.State]():          "session state",
	reflect.TypeFor[hostpool.State]():         "pool state",
	reflect.TypeFor[seed.State]():             "seed state",
	reflect.TypeFor[seed.PoolState]():         "seed pool state",
	reflect.TypeFor[batch.BatchState]():       "batch state",
	reflect.TypeFor[session.Options]():        "session options",
	reflect.TypeFor[protocol.Message]():       "message",
	reflect.TypeFor[protocol.Request]():       "request",
	reflect.TypeFor[protocol.HostSpec]():      "host spec",
	reflect.TypeFor[protocol.SeedRef]():       "seed ref",
	reflect.TypeFor[protocol.Claim]():         "claim",
	reflect.TypeFor[protocol.Layout]():        "layout",
	reflect.TypeFor[protocol.Entry]():         "entry",
	reflect.TypeFor[workspaces.Workspace]():   "workspace",
	reflect.TypeFor[conversation.PumpState](): "pump state",
	reflect.TypeFor[protocol.Failure]():       "failure",
	reflect.TypeFor[protocol.Problem]():       "problem",
}

type shapeList struct {
	lines []string
	named map[string]reflect.Type // shared shapes that were met
	bad   []error
}

// add lists the shape of a value of type t under a path.
func (l *shapeList) add(path string, t reflect.Type) { l.value(path, t, "", nil) }

// all returns the list, with the shared shapes that it refers to.
func (l *shapeList) all() []string {
	for done := map[string]bool{}; len(done) < len(l.named); {
		for _, name := range slices.Sorted(maps.Keys(l.named)) {
			if !done[name] {
				done[name] = true
				l.object("<"+name+">", l.named[name], []reflect.Type{l.named[name]})
			}
		}
	}
	return l.lines
}

var (
	textMarshaler = reflect.TypeFor[encoding.TextMarshaler]()
	jsonMarshaler = reflect.TypeFor[json.Marshaler]()
)

func (l *shapeList) value(path string, t reflect.Type, note string, within []reflect.Type) {
	word := ""
	switch {
	case t == reflect.TypeFor[time.Time]():
		word = "time"
	case t == reflect.TypeFor[time.Duration]():
		word = "nanoseconds"
	case t == reflect.TypeFor[json.RawMessage](), t.Kind() == reflect.Interface:
		word = "any JSON"
	case t == reflect.TypeFor[protocol.Layout](): // the same fields, some with other values
	case t.Kind() != reflect.Pointer && t.Implements(jsonMarshaler), t.Kind() != reflect.Pointer && reflect.PointerTo(t).Implements(jsonMarshaler):
		l.bad = append(l.bad, fmt.Errorf("%s: %v encodes itself; teach this test what it is in JSON", path, t))
		return
	case t.Kind() != reflect.Pointer && t.Implements(textMarshaler):
		word = "text"
	}
	if word == "" {
		switch t.Kind() {
		case reflect.Pointer:
			l.value(path, t.Elem(), note, within)
			return
		case reflect.Slice, reflect.Array:
			if t.Elem().Kind() == reflect.Uint8 {
				word = "base64"
				break
			}
			l.value(path+"[]", t.Elem(), note, within)
			return
		case reflect.Map:
			l.value(path+"{}", t.Elem(), note, within)
			return
		case reflect.Struct:
			if name := sharedShapes[t]; name != "" {
				l.named[name] = t
				l.line(path, "<"+name+">", note)
				return
			}
			if slices.Contains(within, t) {
				l.line(path, "as the object that it is in", note)
				return
			}
			l.line(path, "object", note)
			l.object(path, t, append(within, t))
			return
		case reflect.String:
			word = "string"
		case reflect.Bool:
			word = "boolean"
		case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64, reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
			word = "integer"
		case reflect.Float32, reflect.Float64:
			word = "number"
		default:
			l.bad = append(l.bad, fmt.Errorf("%s is a %v: that is no JSON", path, t))
			return
		}
	}
	l.line(path, word, note)
}

func (l *shapeList) line(path, word, note string) {
	l.lines = append(l.lines, strings.TrimSpace(path+": "+word+" "+note))
}

func (l *shapeList) object(path string, t reflect.Type, within []reflect.Type) {
	fields, err := jsonFields(t)
	if err != nil {
		l.bad = append(l.bad, fmt.Errorf("%s: %w", path, err))
	}
	for _, f := range fields {
		l.value(path+"."+f.name, f.Type, f.options, within)
	}
}

// A jsonField is a field as encoding/json sees it. It may be promoted from an embedded
// struct.
type jsonField struct {
	reflect.StructField
	name    string
	options string // omitempty, omitzero
}

// jsonFields lists the fields of a struct. It returns an error if two fields at one depth
// have the same name, because encoding/json leaves out both without an error.
func jsonFields(t reflect.Type) ([]jsonField, error) {
	var err error
	byName := map[string]jsonField{}
	var walk func(t reflect.Type, index []int)
	walk = func(t reflect.Type, index []int) {
		for i := range t.NumField() {
			f := t.Field(i)
			f.Index = append(slices.Clone(index), i)
			name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
			inner := f.Type
			if inner.Kind() == reflect.Pointer {
				inner = inner.Elem()
			}
			promotes := f.Anonymous && inner.Kind() == reflect.Struct
			switch {
			case f.Tag.Get("json") == "-", !f.IsExported() && !promotes:
				continue
			case promotes && name == "":
				walk(inner, f.Index)
				continue
			case name == "":
				name = f.Name
			}
			g := jsonField{f, name, strings.ReplaceAll(options, ",", " ")}
			was, twice := byName[name]
			if twice && len(was.Index) == len(g.Index) {
				err = errors.Join(err, fmt.Errorf("%v has two fields %q at one depth: encoding/json leaves out both", t, name))
			}
			if !twice || len(g.Index) < len(was.Index) {
				byName[name] = g
			}
		}
	}
	walk(t, nil)
	return slices.Collect(maps.Values(byName)), err
}

// A message is a signal or an update of a workflow, with its types.
type message struct {
	to       string // type of workflow
	served   served
	in, out  any // nil if there is none; a signal has no out
	bySignal bool
}

func signal(to, name string, in any) message {
	return message{to: to, served: served{"signal", name}, in: in}
}

// messages lists the messages whose types cannot be read from their handlers:
// signals, and the updates that take the same JSON as a signal.
var messages = []message{
	doorOf(protocol.SignalMessage, protocol.Message{}, protocol.MessageAccepted{}),
	doorOf(protocol.SignalDecide, protocol.Decide{}, protocol.Approval{}),
	doorOf(protocol.SignalInterrupt, protocol.Interrupt{}, protocol.SessionView{}),
	doorOf(protocol.SignalClose, protocol.Close{}, protocol.SessionView{}),
	doorOf(protocol.SignalBudget, protocol.Budget{}, protocol.SessionView{}),
	doorOf(protocol.SignalPark, protocol.Park{}, protocol.SessionView{}),
	doorOf(protocol.SignalSet, protocol.Set{}, protocol.SessionView{}),
	doorOf(protocol.SignalUnsend, protocol.Unsend{}, protocol.SessionView{}),
	doorOf(protocol.SignalModels, protocol.AskModels{}, protocol.ModelsView{}),
	doorOf(protocol.SignalArchive, protocol.Archive{}, protocol.SessionView{}),
	doorOf(protocol.SignalUnarchive, protocol.Archive{}, protocol.SessionView{}),
	doorOf(protocol.SignalResume, protocol.Resume{}, protocol.SessionView{}),
	doorOf(protocol.SignalSnapshot, protocol.TakeSnapshot{}, protocol.SnapshotAccepted{}),
	{to: protocol.TypeSession, served: served{"update", protocol.UpdatePush}, in: protocol.Push{}, out: workspaces.PushWorkspaceResult{}},
	signal(protocol.TypeSession, protocol.SignalRenew, protocol.Renew{}),
	signal(protocol.TypeBatch, protocol.SignalRenew, protocol.Renew{}),
	signal(protocol.TypeHostPool, protocol.SignalRenew, protocol.Renew{}),
	signal(protocol.TypeSeed, protocol.SignalRenew, protocol.Renew{}),
	signal(protocol.TypeSeedPool, protocol.SignalRenew, protocol.Renew{}),
	signal(protocol.TypeOutbox, protocol.SignalRenew, protocol.Renew{}),
	signal(protocol.TypeSession, lease.SignalStirred, pumps.Stirred{}),
	signal(protocol.TypeSession, lease.SignalLease, lease.Granted{}),
	signal(protocol.TypeSession, lease.SignalCall, lease.RollCall{}),
	signal(protocol.TypeSession, lease.SignalLeave, lease.LeaveHost{}),
	signal(protocol.TypeSession, protocol.SignalProgress, protocol.Progress{}),
	signal(protocol.TypeSession, protocol.SignalSessionEnded, protocol.SessionEnded{}),
	signal(protocol.TypeHostPool, lease.SignalAcquire, lease.Acquire{}),
	signal(protocol.TypeHostPool, lease.SignalRelease, lease.Release{}),
	signal(protocol.TypeHostPool, lease.SignalFound, protocol.SetHost{}),
	signal(protocol.TypeHostPool, lease.SignalHostBack, protocol.HostBack{}),
	signal(protocol.TypeHostPool, protocol.SignalHostAway, protocol.HostAway{}),
	signal(protocol.TypeHostPool, lease.SignalHolds, lease.Holds{}),
	signal(protocol.TypeHostPool, lease.SignalLooked, inquiry.HostsLooked{}),
	signal(protocol.TypeSeed, lease.SignalAcquire, lease.Acquire{}),
	signal(protocol.TypeSeed, lease.SignalRelease, lease.Release{}),
	signal(protocol.TypeSeed, lease.SignalReport, lease.Report{}),
	signal(protocol.TypeSeedPool, lease.SignalAcquire, lease.Acquire{}),
	signal(protocol.TypeSeedPool, lease.SignalRelease, lease.Release{}),
	signal(protocol.TypeSeedPool, lease.SignalMember, seed.MemberNews{}),
	signal(protocol.TypeSeedPool, lease.SignalLook, lease.Acquire{}),
	signal(protocol.TypeBatch, protocol.SignalSessionEnded, protocol.SessionEnded{}),
	signal(protocol.TypeBatch, protocol.SignalCancelBatch, protocol.CancelBatch{}),
	signal(protocol.TypeBatch, protocol.SignalRetryBatch, protocol.RetryBatch{}),
	signal(protocol.TypeBatch, protocol.SignalSetBatch, protocol.SetBatch{}),
	signal(protocol.TypeFire, protocol.SignalSessionEnded, protocol.SessionEnded{}),
}

func doorOf(name string, in, out any) message {
	return message{to: protocol.TypeSession, served: served{"update", name}, in: in, out: out, bySignal: true}
}

// servedBy returns the messages that each type of workflow takes, as found by
// replaying the newest release's histories.
func servedBy(t *testing.T) map[string]map[served]any {
	t.Helper()
	all, err := releases(histories)
	if err != nil || len(all) == 0 {
		t.Fatalf("there are no histories (%v)", err)
	}
	out := map[string]map[served]any{}
	for file, h := range readHistories(t, all[len(all)-1]) {
		n, err := replayNoting(h, recordedWith(file))
		if err != nil && n == nil {
			t.Fatalf("%s: %v", file, err)
		}
		kind := h.Events[0].GetWorkflowExecutionStartedEventAttributes().WorkflowType.Name
		if out[kind] == nil {
			out[kind] = map[served]any{}
		}
		maps.Copy(out[kind], n.served)
	}
	return out
}

// activitySet records the registered activities by name.
type activitySet struct {
	worker.ActivityRegistry // nil, so that any other method panics
	funcs                   map[string]reflect.Type
}

func (s *activitySet) RegisterActivity(a any) {
	t := reflect.TypeOf(a)
	for i := range t.NumMethod() {
		// The type of a method value has no receiver.
		s.funcs[t.Method(i).Name] = reflect.ValueOf(a).Method(i).Type()
	}
}

func (s *activitySet) RegisterActivityWithOptions(a any, opts activity.RegisterOptions) {
	s.funcs[opts.Name] = reflect.TypeOf(a)
}

func activityTypes() map[string]reflect.Type {
	s := &activitySet{funcs: map[string]reflect.Type{}}
	activities.New(site.Deps{}).Register(s)
	return s.funcs
}

// typesOf returns the types of a function's input and result, without its context
// and its error. A type is nil if there is none.
func typesOf(f reflect.Type) (in, out reflect.Type) {
	for t := range f.Ins() {
		if t != reflect.TypeFor[context.Context]() && t != reflect.TypeFor[workflow.Context]() {
			in = t
		}
	}
	for t := range f.Outs() {
		if t != reflect.TypeFor[error]() {
			out = t
		}
	}
	return in, out
}

func TestGoldenShapes(t *testing.T) {
	l := &shapeList{named: map[string]reflect.Type{}}
	of := func(what string, in, out reflect.Type) {
		if in != nil {
			l.add(what+" input", in)
		}
		if out != nil {
			l.add(what+" result", out)
		}
	}
	workflows := registered{}
	Register(workflows)
	for name, w := range workflows {
		in, out := typesOf(reflect.TypeOf(w))
		of("workflow "+name, in, out)
	}
	for name, f := range activityTypes() {
		in, out := typesOf(f)
		of("activity "+name, in, out)
	}
	known := map[string]map[served]bool{}
	know := func(to string, s served) {
		if known[to] == nil {
			known[to] = map[served]bool{}
		}
		known[to][s] = true
	}
	for _, m := range messages {
		of(m.served.kind+" "+m.to+" "+m.served.name, reflect.TypeOf(m.in), reflect.TypeOf(m.out))
		know(m.to, m.served)
		if m.bySignal {
			of("signal "+m.to+" "+m.served.name, reflect.TypeOf(m.in), nil)
			know(m.to, served{"signal", m.served.name})
		}
	}
	found := servedBy(t)
	for to, all := range found {
		for s, handler := range all {
			if known[to][s] {
				continue
			}
			if s.kind == "signal" {
				t.Errorf("a %s takes signal %q, of which this test does not know the type: add it to messages", to, s.name)
				continue
			}
			in, out := typesOf(reflect.TypeOf(handler))
			if in == reflect.TypeFor[json.RawMessage]() || out != nil && out.Kind() == reflect.Interface {
				t.Errorf("a %s takes %s %q of any JSON: say in messages what it is", to, s.kind, s.name)
			}
			of(s.kind+" "+to+" "+s.name, in, out)
		}
	}
	for to, all := range known {
		for s := range all {
			if _, ok := found[to][s]; !ok {
				t.Errorf("no %s takes %s %q any more", to, s.kind, s.name)
			}
		}
	}
	lines := l.all()
	for _, err := range l.bad {
		t.Error(err)
	}
	golds(t, "shapes.txt", lines)
}

func TestShapesAreThoseOfEncodingJSON(t *testing.T) {
	type inner struct {
		Deep   int    `json:"deep"`
		Shadow string `json:"shadow"`
	}
	type Named struct {
		In int `json:"in"`
	}
	type list struct {
		inner
		Named  `json:"named"`
		Shadow bool               `json:"shadow,omitempty"`
		Many   map[string][]*list `json:"many,omitzero"`
		At     time.Time
		For    time.Duration   `json:"for"`
		Raw    json.RawMessage `json:"raw"`
		Sum    []byte          `json:"sum"`
		Out    string          `json:"-"`
		unseen int
	}
	l := &shapeList{named: map[string]reflect.Type{}}
	l.add("x", reflect.TypeFor[[]list]())
	slices.Sort(l.lines)
	want := []string{
		"x[].At: time", "x[].deep: integer", "x[].for: nanoseconds", "x[].many{}[]: as the object that it is in omitzero",
		"x[].named.in: integer", "x[].named: object", "x[].raw: any JSON", "x[].shadow: boolean omitempty", "x[].sum: base64", "x[]: object",
	}
	if !slices.Equal(l.lines, want) || len(l.bad) > 0 {
		t.Errorf("the shape is\n%s\n(%v), want\n%s", strings.Join(l.lines, "\n"), l.bad, strings.Join(want, "\n"))
	}
	raw, err := json.Marshal(list{unseen: 1})
	if err != nil {
		t.Fatal(err)
	}
	for name := range decoded(raw).(map[string]any) {
		if !slices.ContainsFunc(want, func(line string) bool { return strings.HasPrefix(line, "x[]."+name+":") }) {
			t.Errorf("encoding/json writes %q, which is not in the shape", name)
		}
	}

	type Left struct {
		Deep int `json:"deep"`
	}
	type Right struct {
		Deeper int `json:"deep"`
	}
	twice := reflect.StructOf([]reflect.StructField{ // made by reflection, because vet would complain about such a type
		{Name: "Left", Type: reflect.TypeFor[Left](), Anonymous: true},
		{Name: "Right", Type: reflect.TypeFor[Right](), Anonymous: true},
	})
	if _, err := jsonFields(twice); err == nil || !strings.Contains(err.Error(), `two fields "deep"`) {
		t.Errorf("of two fields of one name it says %v", err)
	}
}

func TestAGoldenLineIsNeitherLostNorChanged(t *testing.T) {
	path := filepath.Join(t.TempDir(), "list.txt")
	if err := os.WriteFile(path, []byte(goldenHead+"\na\nb: string\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	want, err := readList(path)
	if err != nil || !slices.Equal(want, []string{"a", "b: string"}) {
		t.Fatalf("the list is %q (%v)", want, err)
	}
	now := []string{"a", "b: integer", "c"}
	got := fmt.Sprint(errors.Join(listDiffers(path, want, now)...))
	for _, part := range []string{`"b: string" is gone or was changed`, `"b: integer" is new`, `"c" is new`} {
		if !strings.Contains(got, part) {
			t.Errorf("it says %s, not %q", got, part)
		}
	}
	if got := listDiffers(path, want, want); len(got) > 0 {
		t.Errorf("of the same lines it says %v", got)
	}
	for frozen, want := range map[bool]string{false: "a, b: integer, c", true: "a, b: integer, b: string, c"} {
		got, err := renewedList(path, now, frozen)
		if err != nil || strings.Join(got, ", ") != want {
			t.Errorf("renewed, frozen %v: %q (%v), want %q", frozen, got, err, want)
		}
	}
}
