package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// A delivery is one event that GitHub sent, and how far its work is.
type delivery struct {
	ID     string `json:"id"`               // made from what GitHub signed
	Header string `json:"header,omitempty"` // X-GitHub-Delivery, for logs: it is not signed
	Repo   string `json:"repo"`             // owner/name
	Issue  int    `json:"issue"`
	Title  string `json:"title"`
	Body   string `json:"body"`
	// Start is the request that starts the session. It is kept, so that a repetition is the same.
	Start   json.RawMessage `json:"start,omitempty"`
	Session string          `json:"session,omitempty"`
	// Refused is the comment's text if a worker refuses what the delivery needs.
	Refused string `json:"refused,omitempty"`
	// Posted is when a comment was sent of which nobody knows whether it arrived.
	Posted    time.Time `json:"posted,omitzero"`
	Commented bool      `json:"commented,omitempty"`
	Failed    string    `json:"failed,omitempty"` // why GitHub takes no comment
}

// ended reports whether nothing is left to do.
func (d delivery) ended() bool { return d.Commented || d.Failed != "" }

// A book keeps deliveries in files, one each.
type book struct {
	dir  string
	lock *os.File
}

// openBook refuses a folder that another process uses: only one may post comments. It removes files that
// a process left unfinished.
func openBook(dir string) (*book, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		lock.Close()
		return nil, fmt.Errorf("another process uses the folder %s: %w", dir, err)
	}
	b := &book{dir, lock}
	left, err := filepath.Glob(filepath.Join(dir, "new-*"))
	for _, name := range left {
		err = errors.Join(err, os.Remove(name))
	}
	if err != nil {
		b.close()
		return nil, err
	}
	return b, nil
}

func (b *book) close() { b.lock.Close() }

func (b *book) file(id string) string { return filepath.Join(b.dir, id+".json") }

func (b *book) knows(id string) bool {
	_, err := os.Stat(b.file(id))
	return err == nil
}

// keep writes a delivery, whole or not at all. It is there after a power failure too.
func (b *book) keep(d delivery) error {
	data, err := json.Marshal(d)
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(b.dir, "new-")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.Write(data)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), b.file(d.ID)); err != nil {
		return err
	}
	dir, err := os.Open(b.dir)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// forget removes a delivery that may not have been kept.
func (b *book) forget(id string) error { return os.RemoveAll(b.file(id)) }

// open returns the deliveries whose work has not ended.
func (b *book) open() ([]delivery, error) {
	all, err := b.all()
	return slices.DeleteFunc(all, delivery.ended), err
}

func (b *book) all() (all []delivery, err error) {
	names, err := filepath.Glob(filepath.Join(b.dir, "*.json"))
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		var d delivery
		if err := json.Unmarshal(data, &d); err != nil || d.ID != strings.TrimSuffix(filepath.Base(name), ".json") {
			return nil, fmt.Errorf("%s is no delivery that this program wrote (%v)", name, err)
		}
		all = append(all, d)
	}
	return all, nil
}
