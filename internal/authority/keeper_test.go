package authority

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"fairlead.dev/fairlead/internal/access"
)

func TestABrokenAccessFileLeavesTheLastGoodOneInForceAndSaysSo(t *testing.T) {
	path := filepath.Join(t.TempDir(), "access.yaml")
	write := func(text string, mode os.FileMode) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	const good = "people: [{name: ann, keys: []}]\nbindings: [{name: all, roles: [viewer], to: [ann]}]\n"
	write(good, 0o600)
	var log bytes.Buffer
	k, err := Open(path, slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	if digest := k.Current().Digest; !strings.Contains(log.String(), "in force") || !strings.Contains(log.String(), "digest="+digest) || !strings.Contains(log.String(), "nobody is admin") {
		t.Errorf("the log does not say which file is in force, or what is not meant: %s", log.String())
	}
	now := time.Now().UTC()
	k.now = func() time.Time { return now }
	first := k.Standing()
	if first.Path != path || first.Digest != k.Current().Digest || first.Since.IsZero() || first.Broken != "" {
		t.Errorf("at first: %+v", first)
	}
	may := func(verb access.Verb) bool { return k.Decide(access.Request{Who: "ann", Verb: verb}).Allowed }
	for says, breaks := range map[string]func(){
		"roles":         func() { write(strings.Replace(good, "viewer", "king", 1), 0o600) },
		"chmod go-w":    func() { write(strings.Replace(good, "viewer", "admin", 1), 0o622) },
		"no such file":  func() { _ = os.Remove(path) },
		"a bad ending:": func() { write(good+"a bad ending:", 0o600) },
	} {
		log.Reset()
		breaks()
		k.Reload()
		if first.BrokenSince.IsZero() {
			first.BrokenSince = k.Standing().BrokenSince
		}
		now = now.Add(time.Minute)
		k.Reload()
		st := k.Standing()
		if st.Broken == "" || st.Digest != first.Digest || !st.Since.Equal(first.Since) || st.BrokenSince.IsZero() || !st.BrokenSince.Equal(first.BrokenSince) {
			t.Errorf("%s: %+v", says, st)
		}
		if !may(access.SessionRead) || may(access.TokenWrite) {
			t.Errorf("%s: the last good file is not in force", says)
		}
		if n := strings.Count(log.String(), "the last good one stays in force"); n != 1 {
			t.Errorf("%s: it is logged %d times: %s", says, n, log.String())
		}
		if !strings.Contains(log.String(), "in_force="+first.Digest) || !strings.Contains(log.String(), "broken_since="+first.BrokenSince.Format(time.DateOnly)) {
			t.Errorf("%s: the log does not say which file is in force, or since when: %s", says, log.String())
		}
		if says != "a bad ending:" && !strings.Contains(st.Broken, says) {
			t.Errorf("%s: %s", says, st.Broken)
		}
	}
	log.Reset()
	now = now.Add(time.Hour)
	if k.Reload(); !strings.Contains(log.String(), "the last good one stays in force") {
		t.Errorf("an hour later, the log does not repeat it: %s", log.String())
	}
	write(strings.Replace(good, "viewer", "admin", 1), 0o600)
	k.Reload()
	if st := k.Standing(); st.Broken != "" || !st.BrokenSince.IsZero() || st.Digest == first.Digest || !may(access.TokenWrite) {
		t.Errorf("a good one again: %+v", st)
	}
}

func TestEachAccessFileThatComesIntoForceIsKeptAlsoWhenTheStoreWasDown(t *testing.T) {
	path := filepath.Join(t.TempDir(), "access.yaml")
	good := func(who string) string {
		return "people: [{name: " + who + ", keys: []}]\nbindings: [{name: all, roles: [viewer], to: [" + who + "]}]\n"
	}
	texts := []string{good("ann"), good("bob"), good("cy")}
	write := func(n int) {
		t.Helper()
		if err := os.WriteFile(path, []byte(texts[n]), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(0)
	k, err := Open(path, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	kept, down := make(chan string), true
	hook := func(digest string, data []byte) error {
		if sum := sha256.Sum256(data); digest != hex.EncodeToString(sum[:]) {
			t.Errorf("the digest %s is not that of %q", digest, data)
		}
		kept <- string(data)
		if was := down; was {
			down = false
			return errors.New("the store is down")
		}
		return nil
	}
	k.OnLoad(hook)
	write(1)
	k.Reload() // it does not wait for the store
	if got := <-kept; got != texts[0] {
		t.Errorf("first %q", got)
	}
	for stopped := false; !stopped; runtime.Gosched() { // the attempt has failed
		k.mu.Lock()
		stopped = !k.giving
		k.mu.Unlock()
	}
	write(2)
	k.Reload()
	k.Reload() // the same file is no new version
	for _, want := range texts {
		if got := <-kept; got != want {
			t.Errorf("kept %q, want %q", got, want)
		}
	}
}
