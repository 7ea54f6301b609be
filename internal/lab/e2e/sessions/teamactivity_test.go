package sessions

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"go.temporal.io/sdk/client"

	enums "go.temporal.io/api/enums/v1"

	"fairlead.dev/fairlead/internal/lab"
	"fairlead.dev/fairlead/internal/lab/e2e"
	"fairlead.dev/fairlead/internal/lab/scriptedmodel"
	"fairlead.dev/fairlead/internal/lab/teamworker"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/internal/stack"
)

// kills is more than Temporal's attempts at any activity of ours that are limited.
const kills = 7

// A tool whose handler is an activity of a team's own worker gives each call one answer,
// although the team's worker and ours are killed while it works. The team's worker has the key
// of its queue, and not Fairlead's.
func TestAnActivityToolIsAnsweredOnceUnderAStormOfKills(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for _, name := range []string{"attempts", "effects"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	const key = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="
	l, run := e2e.Own(t, "limits: {watch: 1s}\ntools: {activities: [{queue: tickets, types: [LookupTicket], key_file: "+file("queue.key", "team-1:"+key+"\n")+"}]}\n")
	script, err := scriptedmodel.Parse([]byte(`
rules:
  - when: {contains: quickly}
    steps:
      - call: {name: lookup_ticket, arguments: {id: "none"}}
      - say: "{{ range .Results }}{{ .Output }}; {{ end }}"
  - steps:
      - call: {name: lookup_ticket, arguments: {id: 7}}
      - call: {name: lookup_ticket, arguments: {id: "ABC-1"}}
      - say: "{{ range .Results }}{{ .Output }}; {{ end }}"
`))
	if err == nil {
		err = l.Model.SetScript(script)
	}
	if err != nil {
		t.Fatal(err)
	}
	tools := func(kind, timeout string) string {
		return file(kind+timeout+".yaml", `
tools:
  - name: lookup_ticket
    description: Look up a ticket by its id.
    schema: {type: object, properties: {id: {type: string}}, required: [id], additionalProperties: false}
    activity: {queue: tickets, type: `+kind+`, heartbeat: 2s}
    timeout: `+timeout+`
`)
	}
	if r := l.Ctl(e2e.Within(t), nil, "run", "--host", "web-1", "--seed", "team", "--tools", tools("DropTable", "5m"), "look"); r.Code != 6 || !strings.Contains(r.Stderr, "does not allow the activity DropTable on the queue tickets") {
		t.Errorf("an activity that the config does not allow: %v", r)
	}
	// Nobody has the queue yet.
	run("session", "start", "--host", "web-1", "--seed", "team", "--tools", tools("LookupTicket", "2s"), "--id", "early")
	run("session", "send", "early", "quickly")
	said := func(id string) string {
		list, err := lab.Lines[protocol.Entry](e2e.Within(t), l, "transcript", id)
		if err != nil {
			t.Fatal(err)
		}
		if texts := e2e.Texts(list, protocol.EntryAssistant); len(texts) > 0 {
			return texts[len(texts)-1]
		}
		return ""
	}
	if text := said("early"); !strings.Contains(text, "none of its workers took the call within 2s. It was not carried out.") {
		t.Errorf("with no worker of the team, the model had %q", text)
	}

	var st lab.Status
	if err := l.JSON(e2e.Within(t), &st, "status"); err != nil {
		t.Fatal(err)
	}
	info, err := stack.Read(l.State)
	if err != nil {
		t.Fatal(err)
	}
	tls := info.TLS()
	var team *exec.Cmd
	begin := func() {
		t.Helper()
		var err error
		if team, err = teamworker.Start(teamworker.Options{
			Address: st.Temporal.Address, Namespace: st.Temporal.Namespace, Queue: "tickets", Desk: dir,
			CA: tls.CA, Cert: tls.Cert, Key: tls.Key, KeyID: "team-1", Codec: key,
		}); err != nil {
			t.Fatal(err)
		}
	}
	end := func() {
		if err := team.Process.Kill(); err != nil {
			t.Error(err)
		}
		_ = team.Wait()
	}
	begin()
	t.Cleanup(func() { end() })
	run("session", "send", "early", "quickly")
	if text := said("early"); !strings.Contains(text, "refused the call: there is no such ticket") {
		t.Errorf("after a refusal, the model had %q", text)
	}

	run("session", "start", "--host", "web-1", "--seed", "team", "--tools", "report_progress,"+tools("LookupTicket", "10m"), "--id", "desk")
	run("session", "send", "desk", "--no-wait", "look")
	attempts := func() []os.DirEntry {
		list, err := os.ReadDir(filepath.Join(dir, "attempts"))
		if err != nil {
			t.Fatal(err)
		}
		return list
	}
	for n := range kills {
		e2e.Until(t, "the team's worker has the call again", func() (bool, error) { return len(attempts()) > n, nil })
		var st lab.Status
		if err := l.JSON(e2e.Within(t), &st, "status"); err != nil {
			t.Fatal(err)
		}
		for _, w := range st.Workers {
			if err := syscall.Kill(w.PID, syscall.SIGKILL); err != nil && err != syscall.ESRCH {
				t.Fatal(err)
			}
		}
		end()
		begin()
	}
	e2e.Until(t, "the team's worker has the call at last", func() (bool, error) { return len(attempts()) > kills, nil })
	file("open", "")
	var v protocol.SessionView
	e2e.Until(t, "the turn's end", func() (bool, error) {
		err := l.JSON(e2e.Within(t), &v, "session", "show", "desk")
		return err == nil && v.Turn != nil && v.Turn.Status != "inProgress" && v.State == protocol.Idle, nil
	})
	if text := said("desk"); strings.Count(text, "ticket ABC-1 is open, says desk in turn 1") != 1 || !strings.Contains(text, "do not match its schema: at /id") {
		t.Errorf("the model had %q", text)
	}
	effects, err := os.ReadDir(filepath.Join(dir, "effects"))
	if err != nil || len(effects) != 1 {
		t.Fatalf("the calls had the effects %v, %v", effects, err)
	}
	for _, a := range attempts() {
		if !strings.HasPrefix(a.Name(), effects[0].Name()+".") {
			t.Errorf("an attempt is at another call: %s", a.Name())
		}
	}
	c, err := l.Outsider(e2e.Within(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	checkToolHistory(t, c, protocol.ToolCallID(effects[0].Name()))
	run("session", "close", "desk")
	run("session", "close", "early")
}

// checkToolHistory checks that a call was scheduled once, and that Temporal has nothing of it
// in plain.
func checkToolHistory(t *testing.T, c client.Client, id string) {
	t.Helper()
	scheduled := 0
	for it := c.GetWorkflowHistory(e2e.Within(t), id, "", false, enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT); it.HasNext(); {
		ev, err := it.Next()
		if err != nil {
			t.Fatal(err)
		}
		if a := ev.GetActivityTaskScheduledEventAttributes(); a != nil {
			scheduled++
			if a.GetActivityId() != strings.TrimPrefix(id, "toolcall/") {
				t.Errorf("the activity's id is %s", a.GetActivityId())
			}
		}
		if text := ev.String(); strings.Contains(text, "ABC-1") {
			t.Errorf("the history of %s has the argument in plain: %s", id, text)
		}
	}
	if scheduled != 1 {
		t.Errorf("%d activities were scheduled", scheduled)
	}
}
