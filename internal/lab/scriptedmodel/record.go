package scriptedmodel

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// Limits of the record, which drops the oldest requests. A request of codex is
// about 60 KB, nearly all of it prompt text.
const (
	maxRecords     = 20000
	maxRecordBytes = 256 << 20
)

// Request is a request that the server has received.
type Request struct {
	Seq    int       `json:"seq"` // counts from 1
	Time   time.Time `json:"time"`
	Method string    `json:"method"`
	Path   string    `json:"path"`
	// Header omits Authorization and Cookie. TokenSHA256 is the hex digest of
	// the bearer token; empty if there was none.
	Header      http.Header     `json:"header"`
	TokenSHA256 string          `json:"token_sha256"`
	Body        json.RawMessage `json:"body,omitempty"`

	Conversation string   `json:"conversation"`
	Model        string   `json:"model"`
	UserMessages []string `json:"user_messages"`
	Rule         string   `json:"rule"`
	Step         int      `json:"step"` // of the rule, from 0
	// Answer says how it was answered: "stream", the kind of a failure, "poll"
	// for the server's own poll of a running command, "surprise", or "ok". It
	// is empty until the answer is decided.
	Answer string `json:"answer"`
}

// Surprise is a request that the script did not foresee.
type Surprise struct {
	Seq          int    `json:"seq"` // of the request
	Conversation string `json:"conversation"`
	LastUser     string `json:"last_user"`
	Problem      string `json:"problem"`
}

type record struct {
	mu        sync.Mutex
	seq       int
	bytes     int
	requests  []*Request
	surprises []Surprise
}

// add records a request before it is answered.
func (r *record) add(req *http.Request, body []byte) *Request {
	header := req.Header.Clone()
	header.Del("Authorization")
	header.Del("Cookie")
	entry := &Request{
		Time:   time.Now(),
		Method: req.Method,
		Path:   req.URL.Path,
		Header: header,
	}
	if token, ok := strings.CutPrefix(req.Header.Get("Authorization"), "Bearer "); ok {
		sum := sha256.Sum256([]byte(token))
		entry.TokenSHA256 = hex.EncodeToString(sum[:])
	}
	if json.Valid(body) {
		entry.Body = body
	}

	r.mu.Lock()
	defer r.mu.Unlock()
	r.seq++
	entry.Seq = r.seq
	r.requests = append(r.requests, entry)
	r.bytes += len(entry.Body)
	for len(r.requests) > maxRecords || r.bytes > maxRecordBytes && len(r.requests) > 1 {
		r.bytes -= len(r.requests[0].Body)
		r.requests[0] = nil
		r.requests = r.requests[1:]
	}
	return entry
}

// update changes an entry under the lock.
func (r *record) update(change func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change()
}

func (r *record) surprise(entry *Request, problem string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	entry.Answer = "surprise"
	s := Surprise{Seq: entry.Seq, Conversation: entry.Conversation, Problem: problem}
	if n := len(entry.UserMessages); n > 0 {
		s.LastUser = entry.UserMessages[n-1]
	}
	if len(r.surprises) == maxRecords {
		r.surprises = r.surprises[1:]
	}
	r.surprises = append(r.surprises, s)
}

func (r *record) list(conversation string) []Request {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make([]Request, 0, len(r.requests))
	for _, e := range r.requests {
		if conversation == "" || e.Conversation == conversation {
			out = append(out, *e)
		}
	}
	return out
}

func (r *record) userMessages(conversation string) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range slices.Backward(r.requests) {
		if e.Conversation == conversation {
			return slices.Clone(e.UserMessages)
		}
	}
	return nil
}

func (r *record) listSurprises() []Surprise {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.surprises)
}

// reset clears the record; sequence numbers continue.
func (r *record) reset() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.requests, r.surprises, r.bytes = nil, nil, 0
}
