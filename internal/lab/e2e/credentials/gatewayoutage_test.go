package credentials

import (
	"path/filepath"
	"strings"
	"testing"

	"fairlead.dev/fairlead/hostexec/hosttest"
	"fairlead.dev/fairlead/internal/lab"
	"fairlead.dev/fairlead/internal/lab/e2e"
	"fairlead.dev/fairlead/internal/protocol"
)

// saidOnce fails the test unless codex said a text once, also counting messages that were cut.
func saidOnce(t *testing.T, id, text string) {
	t.Helper()
	said := 0
	for _, e := range e2e.Transcript(t, id) {
		if e.Type == protocol.EntryAssistant && strings.Contains(e.Text, text) {
			said++
		}
	}
	if said != 1 {
		t.Errorf("the transcript has the answer %d times", said)
	}
}

// awaitsWorker reports whether the codex of a session waits for a worker to serve the model:
// its command for the token does.
func awaitsWorker(root, id string) bool {
	for _, p := range lab.Below(filepath.Join(root, "sessions", id)) {
		if strings.Contains(p, "/proc/net/tcp") && strings.Contains(p, "model-token") {
			return true
		}
	}
	return false
}

// codex does not sleep through the return of the workers, since it tries nothing without
// them, however long that is.
func TestACodexOfTheModelGatewayAwaitsTheReturnOfTheWorkers(t *testing.T) {
	key := keyed(t, "keyed-outage")
	_, root := keylessHost(t, "keyless-6", hosttest.Options{})
	const id = "keyless-outage"
	e2e.OK(t, "session", "start", "--host", "keyless-6", "--seed", "keyed-outage", "--credentials", "gateway", "--id", id)
	ended(t, id)
	e2e.Send(t, id, "count in the middle of gate gateway-outage")
	if _, err := e2e.Lab.Model.AwaitWaiting(e2e.Within(t), "gateway-outage"); err != nil {
		t.Fatal(err)
	}
	back := e2e.NoWorker(t)
	e2e.Lab.Model.Release("gateway-outage")
	e2e.Until(t, "codex to wait for a worker", func() (bool, error) { return awaitsWorker(root, id), nil })
	back()
	if v := e2e.Ended(t, id, 1); v.Turn.Status != "completed" {
		t.Fatalf("turn %+v, error %+v", v.Turn, v.Error)
	}
	saidOnce(t, id, "one two three four")
	if with, without := askedWith(t, key, "gate gateway-outage"); with != 2 || without > 0 {
		t.Errorf("the model was asked %d times with the key and %d times without", with, without)
	}
}
