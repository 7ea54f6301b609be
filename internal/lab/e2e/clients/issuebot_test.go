package clients

import (
	"bufio"
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"fairlead.dev/fairlead/internal/lab/e2e"
)

const webhookSecret = "the secret of the webhook"

// An issueBot is the example program of docs/examples/issuebot, as a process.
type issueBot struct {
	*testing.T
	program, dir string
	github       *gitHub
	mu           sync.Mutex
	cmd          *exec.Cmd
	at           string
}

func newIssueBot(t *testing.T) *issueBot {
	t.Helper()
	b := &issueBot{T: t, dir: t.TempDir(), github: newGitHub(t)}
	b.program = filepath.Join(b.dir, "issuebot")
	build := exec.CommandContext(e2e.Within(t), "go", "build", "-o", b.program, "./docs/examples/issuebot")
	build.Dir = e2e.Repo
	out, err := build.CombinedOutput()
	for name, text := range map[string]string{"secret": webhookSecret, "token": gitHubToken} {
		err = errors.Join(err, os.WriteFile(filepath.Join(b.dir, name), []byte(text+"\n"), 0o600))
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Cleanup(b.kill)
	return b
}

// begin starts the process, and waits until it listens.
func (b *issueBot) begin() {
	b.Helper()
	cmd := exec.Command(b.program, "-listen", "127.0.0.1:0", "-secret-file", filepath.Join(b.dir, "secret"), "-github-token-file", filepath.Join(b.dir, "token"),
		"-state", filepath.Join(b.dir, "state"), "-github", b.github.URL, "-worker", "unix://"+filepath.Join(e2e.Lab.State, "api.sock"), "-host", "web-1", "-seed", "team", "-settle", "1s")
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		b.Fatal(err)
	}
	b.mu.Lock()
	b.cmd = cmd
	b.mu.Unlock()
	line, err := bufio.NewReader(out).ReadString('\n')
	at, ok := strings.CutPrefix(strings.TrimSpace(line), "listening on ")
	if err != nil || !ok {
		b.Fatalf("it said %q: %v", line, err)
	}
	b.at = "http://" + at
}

// kill ends the process with SIGKILL, and waits for its end.
func (b *issueBot) kill() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.cmd != nil {
		_ = b.cmd.Process.Kill()
		_ = b.cmd.Wait()
		b.cmd = nil
	}
}

// event is the recorded event about an issue, with a label.
func (b *issueBot) event(issue int, label string) []byte {
	b.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", "github", "issues-labeled.json"))
	if err != nil {
		b.Fatal(err)
	}
	data = bytes.ReplaceAll(data, []byte(`"number": 17`), fmt.Appendf(nil, `"number": %d`, issue))
	return bytes.ReplaceAll(data, []byte(`"name": "codex"`), fmt.Appendf(nil, `"name": %q`, label))
}

// deliver sends an event as GitHub does, and returns the status of the answer.
func (b *issueBot) deliver(kind, id string, event []byte, secret string) int {
	b.Helper()
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write(event)
	r, err := http.NewRequestWithContext(e2e.Within(b.T), http.MethodPost, b.at+"/webhook", bytes.NewReader(event))
	if err != nil {
		b.Fatal(err)
	}
	for name, value := range map[string]string{"Content-Type": "application/json", "User-Agent": "GitHub-Hookshot/044aadd", "X-GitHub-Event": kind, "X-GitHub-Delivery": id, "X-Hub-Signature-256": "sha256=" + hex.EncodeToString(mac.Sum(nil))} {
		r.Header.Set(name, value)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		b.Fatal(err)
	}
	defer resp.Body.Close()
	return resp.StatusCode
}

// known is what the program knows an event by.
func known(event []byte) string {
	sum := sha256.Sum256(event)
	return hex.EncodeToString(sum[:])
}

// keptDelivery is what the program has written down of a delivery.
type keptDelivery struct {
	Session   string `json:"session"`
	Commented bool   `json:"commented"`
}

func (b *issueBot) answered(id string) keptDelivery {
	b.Helper()
	var k keptDelivery
	e2e.Until(b.T, "the comment of event "+id, func() (bool, error) {
		data, err := os.ReadFile(filepath.Join(b.dir, "state", id+".json"))
		if err != nil {
			return false, err
		}
		return k.Commented, json.Unmarshal(data, &k)
	})
	b.Cleanup(func() { closed(b.T, k.Session) })
	return k
}

// An issue that gets the label starts one session, and its result is one comment, however often GitHub
// delivers the event, and if the program is killed when the comment is there and it does not know.
func TestALabelledIssueIsAnsweredByOneComment(t *testing.T) {
	const id = "0b989ba4-242f-11e5-81e1-c7b6966d2516"
	b := newIssueBot(t)
	b.begin()
	event := b.event(17, "codex")
	for what, status := range map[string]int{
		"another secret": b.deliver("issues", id, event, "a guess"),
		"no secret":      b.deliver("issues", id, event, ""),
	} {
		if status != http.StatusUnauthorized {
			t.Errorf("%s: status %d", what, status)
		}
	}
	for what, status := range map[string]int{
		"a ping":        b.deliver("ping", id, []byte(`{"zen":"Keep it logically awesome.","hook_id":1}`), webhookSecret),
		"another label": b.deliver("issues", id, b.event(17, "bug"), webhookSecret),
	} {
		if status != http.StatusNoContent {
			t.Errorf("%s: status %d", what, status)
		}
	}
	for n := range 120 { // more than a page
		b.github.say(17, fmt.Sprint("comment ", n))
	}
	delivered, killed := make(chan struct{}), make(chan struct{})
	b.github.onPost(func() bool {
		<-delivered
		b.kill()
		close(killed)
		return false
	})
	for _, header := range []string{id, id, "72d3162e-cc78-11e3-81ab-4c9367dc0958", "../../etc"} {
		if status := b.deliver("issues", header, event, webhookSecret); status != http.StatusAccepted {
			t.Errorf("the event as delivery %q: status %d", header, status)
		}
	}
	close(delivered)
	select {
	case <-killed:
	case <-e2e.Within(t).Done():
		t.Fatal("no comment was posted")
	}
	b.github.onPost(nil)
	b.begin()
	k := b.answered(known(event))
	if status := b.deliver("issues", id, event, webhookSecret); status != http.StatusAccepted {
		t.Errorf("the event, after it was answered: status %d", status)
	}
	v := e2e.Show(t, k.Session)
	if texts := b.github.of(17); len(texts) != 1 || strings.TrimSpace(strings.Split(texts[0], "<!--")[0]) == "" || v.Turn == nil || v.Turn.N != 1 {
		t.Errorf("comments %q, session %+v", texts, v)
	}
}

// What the program has taken before it was killed is answered after it was started again, by the one
// session that the delivery stands for.
func TestAnEventThatWasTakenIsAnsweredAfterTheProgramDied(t *testing.T) {
	const id = "72d3162e-cc78-11e3-81ab-4c9367dc0958"
	b := newIssueBot(t)
	b.begin()
	event := b.event(18, "codex")
	if status := b.deliver("issues", id, event, webhookSecret); status != http.StatusAccepted {
		t.Fatalf("status %d", status)
	}
	b.kill()
	b.begin()
	k := b.answered(known(event))
	if texts := b.github.of(18); len(texts) != 1 {
		t.Errorf("comments %q", texts)
	}
	c, err := NewClientWithResponses("http://worker", WithHTTPClient(&http.Client{Transport: toWorker()}))
	if err != nil {
		t.Fatal(err)
	}
	key, host, seed, sandbox, never, end := "github-"+known(event), "web-1", "team", ReadOnly, Never, true
	again, err := c.StartSessionWithResponse(e2e.Within(t), &StartSessionParams{IdempotencyKey: &key}, StartSession{Host: &host, Seed: &seed, Sandbox: &sandbox, ApprovalPolicy: &never,
		CloseAfter: &end, Message: &NewMessage{Text: "hello\n\nSay hello to whoever reads this."}})
	if err != nil || again.JSON201 == nil || again.JSON201.Id != k.Session || !again.JSON201.Existing {
		t.Errorf("the delivery stands for another session than %s: %v, %s", k.Session, err, again.Body)
	}
}
