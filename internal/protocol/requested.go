package protocol

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// A Requested command may have the id of its sender's request. A session takes a request once,
// also after it continued as new, where Temporal knows the ids of updates no more. Without an
// id, each command is one of its own. Sessions of earlier releases refuse an id.
type Requested interface {
	Interrupt | Park | Resume | TakeSnapshot | Decide
	// Asked returns who asks, and the id of the request, which may be empty.
	Asked() (by, request string)
}

func (i Interrupt) Asked() (by, request string)    { return i.By, i.Request }
func (p Park) Asked() (by, request string)         { return p.By, p.Request }
func (r Resume) Asked() (by, request string)       { return r.By, r.Request }
func (t TakeSnapshot) Asked() (by, request string) { return t.By, t.Request }
func (d Decide) Asked() (by, request string)       { return d.By, d.Request }

// KeepRequests is how many of the newest requests with an id a session knows.
const KeepRequests = 200

// A TakenRequest is a request with an id that a session has taken.
type TakenRequest struct {
	ID string `json:"id"`          // see RequestID
	N  int    `json:"n,omitempty"` // the snapshot that it asked for
}

// RequestID names a request within a session. The same id of another sender, or for another
// command, is another request.
func RequestID(command, by, request string) string {
	sum := sha256.Sum256([]byte(strings.Join([]string{command, by, request}, "\x00")))
	return hex.EncodeToString(sum[:12])
}

// Took returns what a session knows of a request, or nil.
func Took(taken []TakenRequest, command, by, request string) *TakenRequest {
	if request == "" {
		return nil
	}
	id := RequestID(command, by, request)
	for i := range taken {
		if taken[i].ID == id {
			return &taken[i]
		}
	}
	return nil
}
