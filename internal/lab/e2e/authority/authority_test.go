package authority

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"fairlead.dev/fairlead/internal/lab"
	"fairlead.dev/fairlead/internal/lab/e2e"
	"fairlead.dev/fairlead/internal/protocol"
)

// start starts a session of alice's, which is closed when the test ends.
func start(t *testing.T, id string, flags ...string) {
	t.Helper()
	startAs(t, "alice", id, flags...)
}

// startAs starts a session of somebody's, which is closed when the test ends.
func startAs(t *testing.T, who, id string, flags ...string) {
	t.Helper()
	mustDo(t, who, append([]string{"session", "start", "--host", "web-1", "--seed", "team", "--id", id}, flags...)...)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 15*time.Minute)
		defer cancel()
		if r := e2e.Lab.Ctl(ctx, nil, "session", "close", id); r.Code != 0 && r.Code != 6 {
			t.Errorf("close: %v", r)
		}
	})
}

func TestASessionIsStartedAndCommandedByThoseWithARoleOnly(t *testing.T) {
	for who, says := range map[string]string{
		"vera": "no binding that names vera allows session.start", "bob": "allows session.start", "mallory": "its signature does not count",
		"thief": "its signature does not count", "dave": "dave is revoked", "nobody": "it is not signed",
	} {
		mustNot(t, who, says, "session", "start", "--host", "web-1", "--seed", "team", "--id", "of-"+who)
		if _, err := os.Stat(filepath.Join(e2e.Root, "sessions", "of-"+who)); !os.IsNotExist(err) {
			t.Errorf("the session of %s has a folder: %v", who, err)
		}
	}
	start(t, "of-alice")
	if text := mustDo(t, "alice", "session", "send", "of-alice", "hello"); !strings.Contains(text, "You said: hello") {
		t.Errorf("alice's session says %q", text)
	}
	for _, who := range []string{"vera", "bob", "mallory", "thief", "dave", "nobody"} {
		mustNot(t, who, "", "session", "send", "of-alice", "hello", "--no-wait")
		mustNot(t, who, "", "session", "close", "of-alice")
		mustNot(t, who, "", "session", "park", "of-alice")
		mustNot(t, who, "", "host", "set", "web-1", "--slots", "9")
		mustNot(t, who, "", "seed", "delete", "team")
	}
	if v := e2e.Show(t, "of-alice"); v.State != protocol.Idle && v.State != protocol.Parked || v.Turn == nil || v.Turn.N != 1 {
		t.Errorf("in the end the session is %+v", v)
	}
}

func TestAQuorumDecidesAlsoWithNoWorkerUpAndTheRequesterDoesNot(t *testing.T) {
	policy := filepath.Join(t.TempDir(), "policy.yaml")
	var lines strings.Builder
	for _, who := range []string{"alice", "bob", "carol"} {
		pub, err := os.ReadFile(filepath.Join(keys, who+".pub"))
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&lines, "  %s %s\n", who, strings.Join(strings.Fields(string(pub))[:2], " "))
	}
	if err := os.WriteFile(policy, []byte("approvers: |\n"+lines.String()+"required: 2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	start(t, "quorum", "--policy", policy)
	mustDo(t, "alice", "session", "send", "quorum", "need a command", "--no-wait")
	e2e.Open(t, "quorum", 1)
	mustNot(t, "alice", "allows approval.decide", "approval", "accept", "quorum.1")
	mustNot(t, "vera", "allows approval.decide", "approval", "accept", "quorum.1")
	mustDo(t, "bob", "approval", "accept", "quorum.1")
	if v := e2e.Show(t, "quorum"); v.State != protocol.Waiting {
		t.Errorf("after one of two decisions the session is %s", v.State)
	}
	back := e2e.NoWorker(t)
	mustDo(t, "carol", "approval", "accept", "quorum.1", "--timeout", "2s")
	back()
	e2e.Idle(t, "quorum")
	if text := e2e.LastText(t, "quorum"); !strings.Contains(text, "it ran") {
		t.Errorf("the session says %q", text)
	}
}

func TestABatchRunsForWhoMayStartSessionsAndForNobodyElse(t *testing.T) {
	path := filepath.Join(t.TempDir(), "batch.yaml")
	text := "id: many\nwindow: 2\nprompt: \"say {{.item}}\"\ndefaults: {host: web-1, seed: team}\nitems: [one, two, three]\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	mustNot(t, "vera", "allows batch.run", "batch", "run", path, "--id", "hers")
	if r := as(t, "nobody", "-o", "json", "batch", "run", path, "--id", "whose"); r.Code != 4 || !strings.Contains(r.Stdout, "it is not signed") {
		t.Errorf("without a signature: %v", r)
	}
	mustDo(t, "alice", "batch", "run", path)
	var v protocol.BatchView
	if err := e2e.Lab.JSON(e2e.Within(t), &v, "batch", "show", "many"); err != nil || v.Done != 3 || v.Failed != 0 {
		t.Errorf("the batch is %+v, %v", v, err)
	}
}

func TestOfAGroupEachSessionIsClosedByWhoMayCloseItOnly(t *testing.T) {
	file := filepath.Join(keys, "access.yaml")
	was, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := writeAccess(string(was)); err != nil {
			t.Error(err)
		}
	})
	e2e.OK(t, "host", "set", "web-1", "--label", "crew=red")
	for _, id := range []string{"crew-a", "crew-b"} {
		mustDo(t, "alice", "session", "start", "--label", "crew=red", "--seed", "team", "--id", id)
	}
	if err := writeAccess(strings.Replace(string(was), "bindings:\n", "bindings:\n  - {name: carol sweeps, roles: [operator], to: [carol], when: 'session == \"crew-a\"'}\n", 1)); err != nil {
		t.Fatal(err)
	}
	var r lab.Result
	e2e.Until(t, "carol's right to hold", func() (bool, error) {
		r = as(t, "carol", "-o", "json", "session", "close", "--label", "crew=red", "--yes")
		return strings.Contains(r.Stdout, `"result":"closed"`) || !strings.Contains(r.Stdout, "crew-a"), nil
	})
	if r.Code != 1 || !strings.Contains(r.Stdout, `{"id":"crew-a","result":"closed","state":"closed"}`) ||
		!strings.Contains(r.Stdout, `"id":"crew-b","result":"not_closed"`) || !strings.Contains(r.Stdout, `"kind":"forbidden"`) || !strings.Contains(r.Stdout, "1 of 2 sessions are not closed: crew-b") {
		t.Errorf("carol closed %v", r)
	}
	if r := as(t, "carol", "session", "close", "--label", "crew=red", "--yes"); r.Code != 1 || !strings.Contains(r.Stderr, "crew-b") {
		t.Errorf("a second time carol closed %v", r)
	}
	if text := mustDo(t, "alice", "session", "close", "--label", "crew=red", "--yes"); !strings.Contains(text, "session crew-b closed") {
		t.Errorf("alice closed %s", text)
	}
}

func TestChildSessionsBelongToWhoStartedTheFirst(t *testing.T) {
	start(t, "elder", "--children", "1")
	mustDo(t, "alice", "session", "send", "elder", "lead one to the gate elder-gate", "--no-wait")
	e2e.Until(t, "the child runs", func() (bool, error) {
		if all := e2e.Show(t, "elder").Children; len(all) != 1 {
			return false, nil
		}
		return e2e.Show(t, e2e.Child(t, "elder", 1)).State == protocol.Running, nil
	})
	child := e2e.Child(t, "elder", 1)
	mustNot(t, "bob", "allows session.close", "session", "close", child)
	mustDo(t, "alice", "session", "close", "elder")
	e2e.Until(t, "the child is closed with its parent", func() (bool, error) { return e2e.Show(t, child).State == protocol.Closed, nil })
}

func TestARevocationHoldsForRunningSessionsAndABrokenFileChangesNothing(t *testing.T) {
	file := filepath.Join(keys, "access.yaml")
	was, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := writeAccess(string(was)); err != nil {
			t.Error(err)
		}
	})
	start(t, "revoked")
	if err := writeAccess("people: [{name: \n"); err != nil {
		t.Fatal(err)
	}
	mustDo(t, "alice", "session", "send", "revoked", "hello")
	for _, c := range []struct{ what, before, after, says string }{
		{"her name is revoked", "people: [dave]", "people: [dave, alice]", "alice is revoked"},
		{"her key is another's", keyOf(t, "alice"), keyOf(t, "mallory"), "its key is not that of an allowed signer"},
		{"her role is taken away", "members: [alice, olaf, dave]", "members: [olaf, dave]", "no binding names alice"},
	} {
		changed := strings.Replace(string(was), c.before, c.after, 1)
		if changed == string(was) {
			t.Fatalf("%s: the access file has no %q", c.what, c.before)
		}
		if err := writeAccess(changed); err != nil {
			t.Fatal(err)
		}
		var last lab.Result
		e2e.Until(t, "alice is refused, since "+c.what, func() (bool, error) {
			last = as(t, "alice", "session", "send", "revoked", "hello", "--no-wait")
			return last.Code != 0, nil
		})
		if last.Code != 6 || !strings.Contains(last.Stderr, c.says) {
			t.Errorf("%s: the refusal is %v", c.what, last)
		}
		if err := writeAccess(string(was)); err != nil {
			t.Fatal(err)
		}
		e2e.Until(t, "alice may send again", func() (bool, error) {
			return as(t, "alice", "session", "send", "revoked", "hello", "--no-wait").Code == 0, nil
		})
	}
	n := 0
	e2e.Until(t, "alice's revocation to end", func() (bool, error) { // other tests need her
		n++
		r := as(t, "alice", "session", "start", "--host", "web-1", "--seed", "team", "--id", fmt.Sprintf("back-%d", n))
		if r.Code != 0 {
			return false, fmt.Errorf("alice starts a session: %v", r)
		}
		mustDo(t, "alice", "session", "close", fmt.Sprintf("back-%d", n))
		return true, nil
	})
}

// keyOf returns a public key as the access file has it.
func keyOf(t *testing.T, name string) string {
	t.Helper()
	pub, err := os.ReadFile(filepath.Join(keys, name+".pub"))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(strings.Fields(string(pub))[:2], " ")
}

// The supervisor of `ctl up` asks the workers with their own key.
func TestTheStackKnowsTheStoreOfAWorkerThatAsksWhoCalls(t *testing.T) {
	data, err := os.ReadFile(filepath.Join(e2e.Lab.Dir, "state", "stack.json"))
	if err != nil {
		t.Fatal(err)
	}
	var v struct {
		Store struct{ URL, ID string } `json:"store"`
	}
	if err := json.Unmarshal(data, &v); err != nil || v.Store.URL == "" || v.Store.ID == "" {
		t.Errorf("stack.json has the store %+v, %v", v.Store, err)
	}
}
