package main

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

var noon = time.Date(2026, 12, 5, 12, 0, 0, 0, time.UTC)

func secretsOf(t *testing.T, text string) [][]byte {
	t.Helper()
	name := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	secrets, err := readSecrets(name)
	if err != nil {
		t.Fatal(err)
	}
	return secrets
}

const aSecret, anotherSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3"

// The example of the specification.
func TestASignatureOfStandardWebhooksIsRight(t *testing.T) {
	h := http.Header{}
	h.Set("webhook-id", "msg_p5jXN8AQM9LWM0D4loKWxJek")
	h.Set("webhook-timestamp", "1614265330")
	body, now := []byte(`{"test": 2432232314}`), time.Unix(1614265330, 0)
	const right = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
	for name, c := range map[string]struct {
		signature, secrets, body string
		after                    time.Duration
		ok                       bool
	}{
		"right":                {right, aSecret, string(body), 0, true},
		"one of two":           {"v1,bm9uZQ== " + right, aSecret, string(body), time.Minute, true},
		"of one of two keys":   {right, anotherSecret + "\n" + aSecret, string(body), -time.Minute, true},
		"of another key":       {right, anotherSecret, string(body), 0, false},
		"of another body":      {right, aSecret, `{"test": 2}`, 0, false},
		"of another version":   {strings.Replace(right, "v1", "v2", 1), aSecret, string(body), 0, false},
		"none":                 {"", aSecret, string(body), 0, false},
		"old":                  {right, aSecret, string(body), 6 * time.Minute, false},
		"of the time to come":  {right, aSecret, string(body), -6 * time.Minute, false},
		"of nothing but noise": {"v1,!", aSecret, string(body), 0, false},
	} {
		h.Set("webhook-signature", c.signature)
		if err := verify(secretsOf(t, c.secrets), h, []byte(c.body), now.Add(c.after)); (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func call(d *desk, id, title string, key []byte) *httptest.ResponseRecorder {
	body := `{"type":"tool.call","data":{"id":"` + id + `","tool":"open_ticket","arguments":{"title":"` + title + `"}}}`
	r := httptest.NewRequest(http.MethodPost, "/fairlead/tickets", strings.NewReader(body))
	stamp := strconv.FormatInt(noon.Unix(), 10)
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(id + "." + stamp + "." + body))
	r.Header.Set("webhook-id", id)
	r.Header.Set("webhook-timestamp", stamp)
	r.Header.Set("webhook-signature", "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	w := httptest.NewRecorder()
	d.ServeHTTP(w, r)
	return w
}

// A call that comes again opens no second ticket and gets the same answer, also from a desk
// that died while it wrote and was started again.
func TestEachCallOpensOneTicket(t *testing.T) {
	secrets := secretsOf(t, aSecret)
	name := filepath.Join(t.TempDir(), "tickets.jsonl")
	open := func() *desk {
		t.Helper()
		d, err := openDesk(name, secrets)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { d.file.Close() })
		d.now = func() time.Time { return noon }
		return d
	}
	answers := func(d *desk, id, title string, status int, want string) {
		t.Helper()
		if w := call(d, id, title, secrets[0]); w.Code != status || !strings.Contains(w.Body.String(), want) {
			t.Errorf("call %s: %d %q, want %d %q", id, w.Code, w.Body, status, want)
		}
	}
	d := open()
	answers(d, "call_1", "fire", 200, "opened ticket 1: fire")
	answers(d, "call_1", "fire", 200, "opened ticket 1: fire")
	answers(d, "call_1", "flood", 409, "another call had this id")
	answers(d, "call_2", "flood", 200, "opened ticket 2: flood")
	if w := call(d, "call_3", "thieves", []byte("a key that nobody gave away")); w.Code != 401 {
		t.Errorf("a call with a wrong signature: %d %q", w.Code, w.Body)
	}
	f, err := os.OpenFile(name, os.O_APPEND|os.O_WRONLY, 0)
	if err == nil {
		_, err = f.WriteString(`{"n":3,"title":"half`)
		f.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	d = open()
	answers(d, "call_2", "flood", 200, "opened ticket 2: flood")
	answers(d, "call_4", "frost", 200, "opened ticket 3: frost")
	answers(open(), "call_4", "frost", 200, "opened ticket 3: frost")
}
