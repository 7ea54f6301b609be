package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestDecide(t *testing.T) {
	for _, c := range []struct {
		name, stamp, mine string
		written           bool
		want              step
	}{
		{"new file", "", "1.32.1", false, stepCreate},
		{"stamp left by a file that is gone", "1.99.0", "1.32.1", false, stepCreate},
		{"same version", "1.32.1", "1.32.1", true, stepOpen},
		{"older patch", "1.32.0", "1.32.1", true, stepUpgrade},
		{"older minor, by number and not by letter", "1.9.3", "1.32.1", true, stepUpgrade},
		{"before the release", "1.32.1-rc.1", "1.32.1", true, stepUpgrade},
		{"somebody else's file", "", "1.32.1", true, stepUpgrade},
	} {
		if got, err := decide(c.stamp, c.mine, c.written); got != c.want || err != nil {
			t.Errorf("%s: step %d, error %v, want step %d", c.name, got, err, c.want)
		}
	}
}

func TestDecideRefusesNewerFile(t *testing.T) {
	for _, stamp := range []string{"1.32.2", "1.33.0", "2.0.0"} {
		_, err := decide(stamp, "1.32.1", true)
		if r := (refusal{}); !errors.As(err, &r) || !strings.Contains(err.Error(), stamp) || !strings.Contains(err.Error(), "run a devserver with server") {
			t.Errorf("%s: error is %v, want a refusal that says what to run", stamp, err)
		}
	}
}

func TestDecideDoesNotGuessAtBrokenStamp(t *testing.T) {
	_, err := decide("yesterday's", "1.32.1", true)
	if err == nil || !strings.Contains(err.Error(), "yesterday's") {
		t.Errorf("error is %v", err)
	}
}

func TestStampIsReadBack(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	if s, err := readStamp(path); s != "" || err != nil {
		t.Errorf("without a stamp: %q, %v", s, err)
	}
	for _, v := range []string{"1.31.0", "1.32.1"} {
		// A stamp being written when its server died must not be in the way.
		if err := os.WriteFile(path+".version.tmp", []byte("1.3"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := writeStamp(path, v); err != nil {
			t.Fatal(err)
		}
		if s, err := readStamp(path); s != v || err != nil {
			t.Errorf("stamp is %q (%v), want %s", s, err, v)
		}
	}
	if left, _ := filepath.Glob(path + ".*.tmp"); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestCopyNameIsFreeOrOfTheSameCopy(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	tmp := path + ".bak.tmp"
	// Counters of the header differ, lengths differ, only the last byte differs.
	body := strings.Repeat("page", 5000)
	for i, c := range []struct {
		header, body, want string
		same               bool
	}{
		{"1", body, "x.db.1.31.0.bak", false},
		{"2", body, "x.db.1.31.0.bak", true},
		{"2", body + "!", "x.db.1.31.0.bak.2", false},
		{"1", body + "?", "x.db.1.31.0.bak.3", false},
		{"1", body + "!", "x.db.1.31.0.bak.2", true},
		{"1", "", "x.db.1.31.0.bak.4", false},
	} {
		if err := os.WriteFile(tmp, []byte(strings.Repeat(c.header, headerSize)+c.body), 0o600); err != nil {
			t.Fatal(err)
		}
		name, same, err := copyName(path, "1.31.0", tmp)
		if err != nil || same != c.same || filepath.Base(name) != c.want {
			t.Fatalf("copy %d: name %q, same %v (%v), want %s, %v", i, name, same, err, c.want, c.same)
		}
		if same {
			continue
		}
		if err := install(tmp, name); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(tmp, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if name, same, err := copyName(path, "", tmp); err != nil || same || filepath.Base(name) != "x.db.unstamped.bak" {
		t.Errorf("without a stamp: %q, %v (%v)", name, same, err)
	}
}

func TestWayBackIsTheNewestCopyThatCanBeOpened(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a[1]*.db")
	if got := waysBack(path, "1.32.1"); got != "" {
		t.Errorf("without copies: %q", got)
	}
	for _, v := range []string{"1.9.0", "1.32.1", "1.33.0", "unstamped"} {
		if err := os.WriteFile(path+"."+v+".bak", nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if got := waysBack(path, "1.32.1"); !strings.Contains(got, "cp '"+path+".1.32.1.bak' '"+path+"'") {
		t.Errorf("the way back is %q", got)
	}
}
