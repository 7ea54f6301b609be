package workflows

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	enums "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/temporalproto"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/internal/kit"
	"fairlead.dev/fairlead/workflows/session"
)

// shortRuns makes workflows continue as new after few events.
const shortRuns = "limit.historyCount.suggestContinueAsNew=60"

// TestRecordHistories runs each shape and replays its histories. With -record it keeps them
// for TestRecordedHistoriesReplay, in the folder of the release that -release names, or
// else of the newest release. See releases_test.go.
func TestRecordHistories(t *testing.T) {
	dir := ""
	if *recording {
		var err error
		if dir, err = openRelease(histories, *recordInto); err != nil {
			t.Fatal(err)
		}
	}
	for _, shape := range shapes {
		t.Run(shape.name, func(t *testing.T) {
			r, ids := shape.run(t)
			if *recording {
				if err := forget(dir, shape.name); err != nil {
					t.Fatal(err)
				}
			}
			for _, id := range ids {
				runs := r.runs(id)
				for i, run := range runs {
					h := r.history(id, run)
					replay(t, h, r.every)
					if *recording {
						name := fileOf(shape.name)
						if len(ids) > 1 {
							name += "." + strings.ToLower(h.Events[0].GetWorkflowExecutionStartedEventAttributes().WorkflowType.Name)
						}
						if len(runs) > 1 {
							name += fmt.Sprintf(".run%d", i+1)
						}
						keep(t, filepath.Join(dir, name+".json"), h)
					}
				}
			}
		})
	}
}

// fileOf returns the part before the first dot in the file names of a shape's
// histories.
func fileOf(shape string) string { return strings.ReplaceAll(shape, " ", "-") }

func forget(dir, shape string) error {
	files, err := filepath.Glob(filepath.Join(dir, fileOf(shape)+".*"))
	for _, file := range files {
		err = errors.Join(err, os.Remove(file))
	}
	return err
}

// keep writes a history to a file, without the name of this machine.
func keep(t *testing.T, path string, h *historypb.History) {
	t.Helper()
	raw, err := temporalproto.CustomJSONMarshalOptions{}.Marshal(h)
	if err != nil {
		t.Fatal(err)
	}
	if host, err := os.Hostname(); err == nil && host != "" {
		// The name of a worker's own queue begins with the host's name.
		raw = bytes.ReplaceAll(raw, []byte(`"`+host+`:`), []byte(`"worker:`))
	}
	noMachine(t, raw)
	if err := os.WriteFile(path, append(raw, '\n'), 0o644); err != nil {
		t.Fatal(err)
	}
}

var payload = regexp.MustCompile(`"data":"([A-Za-z0-9+/=]+)"`)

// noMachine checks that a history names no folder and no file of the machine on
// which it was recorded and, while it is recorded, not that machine.
func noMachine(t *testing.T, raw []byte) {
	t.Helper()
	texts := [][]byte{raw}
	for _, m := range payload.FindAllSubmatch(raw, -1) {
		text, err := base64.StdEncoding.DecodeString(string(m[1]))
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, text)
	}
	words := []string{"/root/", "/home/", "/tmp/", "/work/", ".go:"}
	if host, err := os.Hostname(); err == nil {
		words = append(words, `"`+host) // a short name may be part of a longer word
	}
	for _, text := range texts {
		for _, word := range words {
			if bytes.Contains(text, []byte(word)) {
				t.Errorf("the history names %s", word)
			}
		}
	}
}

func replay(t *testing.T, h *historypb.History, every kit.Intervals) {
	t.Helper()
	if err := replayed(h, every, exact); err != nil {
		t.Errorf("%s does not go the way it went:\n%v", h.Events[0].GetWorkflowExecutionStartedEventAttributes().GetWorkflowId(), err)
	}
}

func TestRecordedHistoriesReplay(t *testing.T) {
	all, err := releases(histories)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range all {
		t.Run(r.name, func(t *testing.T) { replayRelease(t, r, r.strictness(all)) })
	}
	if len(all) == 0 {
		t.Fatalf("%s has no histories", histories)
	}
	complete(t, all[len(all)-1])
}

// complete checks that the newest release has histories of every shape and of every
// type of workflow, and one that ends in a rollover.
func complete(t *testing.T, r recordedRelease) {
	t.Helper()
	missing := map[string]bool{}
	for _, shape := range shapes {
		missing["shape "+shape.name] = true
	}
	for _, name := range workflowTypes() {
		missing["workflow type "+name] = true
	}
	missing["rollover"] = true
	for file, h := range readHistories(t, r) {
		name, _, _ := strings.Cut(file, ".")
		i := slices.IndexFunc(shapes, func(s shape) bool { return fileOf(s.name) == name })
		if i < 0 {
			if !r.frozen {
				t.Errorf("%s/%s is of no shape that there is: remove it", r.dir, file)
			}
			continue
		}
		delete(missing, "shape "+shapes[i].name)
		delete(missing, "workflow type "+h.Events[0].GetWorkflowExecutionStartedEventAttributes().WorkflowType.Name)
		if h.Events[len(h.Events)-1].EventType == enums.EVENT_TYPE_WORKFLOW_EXECUTION_CONTINUED_AS_NEW {
			delete(missing, "rollover")
		}
	}
	for _, what := range slices.Sorted(maps.Keys(missing)) {
		t.Errorf("%s has no history of %s: record it (`make record`; the next release: `make record RELEASE=…`)", r.dir, what)
	}
}

func readHistories(t *testing.T, r recordedRelease) map[string]*historypb.History {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(r.dir, "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%s has no histories (%v)", r.dir, err)
	}
	out := map[string]*historypb.History{}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		noMachine(t, raw)
		h, err := client.HistoryFromJSON(bytes.NewReader(raw), client.HistoryJSONOptions{})
		if err != nil || len(h.Events) == 0 {
			t.Fatalf("%s has %d events (%v)", file, len(h.GetEvents()), err)
		}
		out[filepath.Base(file)] = h
	}
	return out
}

// recordedOften are the shapes that are recorded while leases are checked every
// second.
var recordedOften = []string{"pool and seed", "logins of a pool"}

// recordedWith returns the intervals under which the history in a file was recorded.
func recordedWith(file string) kit.Intervals {
	name, _, _ := strings.Cut(file, ".")
	if slices.ContainsFunc(recordedOften, func(shape string) bool { return fileOf(shape) == name }) {
		return often
	}
	return kit.Usual
}

func replayRelease(t *testing.T, r recordedRelease, how strictness) {
	for file, h := range readHistories(t, r) {
		t.Run(file, func(t *testing.T) {
			if err := replayed(h, recordedWith(file), how); err != nil {
				t.Errorf("%s/%s does not go the way it went:\n%v", r.dir, file, err)
			}
		})
	}
}

// workflowTypes returns the types that a worker serves.
func workflowTypes() []string {
	names := registered{}
	Register(names)
	return slices.Sorted(maps.Keys(names))
}

// registered holds the workflow functions by type name.
type registered map[string]any

func (r registered) RegisterWorkflow(any) { panic("a workflow is registered without a name") }

func (r registered) RegisterWorkflowWithOptions(w any, opts workflow.RegisterOptions) {
	r[opts.Name] = w
}

func (r registered) RegisterDynamicWorkflow(any, workflow.DynamicRegisterOptions) {
	panic("a workflow of any name is registered")
}

// This test checks that a replay can fail. Otherwise the replay tests would prove nothing.
func TestAReplayNoticesADifference(t *testing.T) {
	r := newReal(t)
	r.work()
	id := r.session("s", session.Options{})
	r.say(id, "m1", "hello")
	r.ended(id, "m1", "completed")
	r.close(id)
	h := r.history(protocol.SessionID(id), "")
	for _, e := range h.Events {
		if a := e.GetActivityTaskScheduledEventAttributes(); a != nil && a.ActivityType.Name == "RunPump" {
			a.ActivityType.Name = "StopServer"
		}
	}
	again := worker.NewWorkflowReplayer()
	Register(again)
	err := again.ReplayWorkflowHistoryWithOptions(quiet(), h, worker.ReplayWorkflowHistoryOptions{
		OriginalExecution: workflow.Execution{ID: protocol.SessionID(id)},
	})
	if err == nil || !strings.Contains(err.Error(), "nondeterministic") {
		t.Errorf("a changed history was replayed with %v", err)
	}
}
