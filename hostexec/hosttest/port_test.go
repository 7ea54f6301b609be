package hosttest

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"
)

// A port that one caller has is not given to another, even if no program listens on it.
func TestAPortIsGivenToOneAtATime(t *testing.T) {
	p, err := TakePort()
	if err != nil {
		t.Fatal(err)
	}
	lock := filepath.Join(os.TempDir(), "fairlead-ports", strconv.Itoa(p.Number))
	if again, err := lockPort(lock, p.Number); err == nil {
		t.Errorf("port %d was given twice", again.Number)
	}
	if err := p.Release(); err != nil {
		t.Fatal(err)
	}
	again, err := lockPort(lock, p.Number)
	if err != nil {
		t.Fatalf("a port that was given back is not free: %v", err)
	}
	if err := again.Release(); err != nil {
		t.Error(err)
	}
}
