package main

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"sync"
	"time"
)

// mostBody bounds a call. Fairlead's have at most 8 KiB of arguments.
const mostBody = 64 << 10

// A ticket is a line of the file.
type ticket struct {
	N     int    `json:"n"`
	Title string `json:"title"`
	// Call is the webhook-id that opened it, and Body the SHA-256 of that call's body.
	Call string `json:"call"`
	Body string `json:"body"`
}

// answer is the reply for the model.
func (t ticket) answer() string { return fmt.Sprintf("opened ticket %d: %s", t.N, t.Title) }

// A desk opens tickets.
type desk struct {
	secrets [][]byte
	now     func() time.Time

	mu      sync.Mutex
	file    *os.File
	size    int64
	tickets map[string]ticket // by call
}

// openDesk reads the tickets that there are. A last line without its end was never answered:
// it is cut off.
func openDesk(name string, secrets [][]byte) (*desk, error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	d := &desk{secrets: secrets, now: time.Now, file: f, tickets: map[string]ticket{}}
	lines := bufio.NewReader(f)
	for {
		line, err := lines.ReadBytes('\n')
		if err == io.EOF {
			return d, f.Truncate(d.size)
		}
		var t ticket
		if err == nil {
			err = json.Unmarshal(line, &t)
		}
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", name, errors.Join(err, f.Close()))
		}
		d.size += int64(len(line))
		d.tickets[t.Call] = t
	}
}

func (d *desk) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, mostBody))
	if err != nil {
		http.Error(w, "the call could not be read", http.StatusBadRequest)
		return
	}
	if err := verify(d.secrets, r.Header, body, d.now()); err != nil {
		http.Error(w, err.Error(), http.StatusUnauthorized)
		return
	}
	var call struct {
		Type string
		Data struct {
			Tool      string
			Arguments struct{ Title string }
		}
	}
	if err := json.Unmarshal(body, &call); err != nil || call.Type != "tool.call" || call.Data.Tool != "open_ticket" {
		http.Error(w, "this desk has the tool open_ticket alone", http.StatusNotFound)
		return
	}
	sum := sha256.Sum256(body)
	t, err := d.open(ticket{Title: call.Data.Arguments.Title, Call: r.Header.Get("webhook-id"), Body: hex.EncodeToString(sum[:])})
	switch {
	case errors.Is(err, errOther):
		http.Error(w, err.Error(), http.StatusConflict)
	case err != nil:
		log.Printf("call %s: %v", t.Call, err)
		http.Error(w, "the ticket could not be kept", http.StatusServiceUnavailable) // the call comes again
	default:
		fmt.Fprint(w, t.answer())
	}
}

var errOther = errors.New("another call had this id")

// open opens a ticket, unless its call has opened one before.
func (d *desk) open(t ticket) (ticket, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if had, again := d.tickets[t.Call]; again {
		if had.Body != t.Body {
			return t, errOther
		}
		return had, nil
	}
	t.N = len(d.tickets) + 1
	line, err := json.Marshal(t)
	if err != nil {
		return t, err
	}
	line = append(line, '\n')
	if _, err := d.file.WriteAt(line, d.size); err != nil {
		return t, err
	}
	if err := d.file.Sync(); err != nil {
		return t, err
	}
	d.size += int64(len(line))
	d.tickets[t.Call] = t
	return t, nil
}
