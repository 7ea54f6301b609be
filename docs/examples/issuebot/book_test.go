package main

import (
	"os"
	"path/filepath"
	"testing"
)

// What a process that died has left unfinished is removed by the next one that has the folder, and by nobody else.
func TestUnfinishedFilesAreRemoved(t *testing.T) {
	dir := t.TempDir()
	left := filepath.Join(dir, "new-123")
	for range 2 {
		if err := os.WriteFile(left, []byte("{"), 0o600); err != nil {
			t.Fatal(err)
		}
		b, err := openBook(dir)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(left); !os.IsNotExist(err) {
			t.Errorf("the unfinished file is there: %v", err)
		}
		if err := os.WriteFile(left, []byte("{"), 0o600); err != nil {
			t.Fatal(err)
		}
		if other, err := openBook(dir); err == nil {
			other.close()
			t.Error("two processes have the folder")
		}
		if _, err := os.Stat(left); err != nil {
			t.Errorf("a file of the process that has the folder: %v", err)
		}
		b.close()
	}
}
