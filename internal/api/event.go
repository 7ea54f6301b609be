package api

import (
	"fmt"
	"time"

	"fairlead.dev/fairlead/activities/records"
	"fairlead.dev/fairlead/internal/authority"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/snapshots"
)

// An Event is one line of a feed. Kind says which field is set.
type Event struct {
	Kind string `json:"kind"`

	Entry    *protocol.Entry       `json:"entry,omitempty"`
	Delta    *protocol.Delta       `json:"delta,omitempty"`
	State    *protocol.SessionLive `json:"state,omitempty"`
	Output   *protocol.ExecChunk   `json:"output,omitempty"`
	Result   *protocol.ExecResult  `json:"result,omitempty"`
	Snapshot *snapshots.Manifest   `json:"snapshot,omitempty"`
	Audit    string                `json:"audit,omitempty"` // the line of a record
	// Void is the first void seq; see the package's doc.
	Void  int64  `json:"void,omitempty"`
	Error *Error `json:"error,omitempty"`
}

// Kinds of events.
const (
	KindEntry    = records.LiveEntry
	KindDelta    = records.LiveDelta
	KindState    = records.LiveState
	KindOutput   = records.LiveOutput
	KindVoid     = "void"
	KindAlive    = "alive"
	KindEnd      = "end"
	KindSnapshot = "snapshot"
	KindAudit    = "audit"
	KindError    = "error"
)

// An Error is an error response of the API.
type Error struct {
	Status  int    `json:"-"` // HTTP status; 0 in a stream
	Kind    string `json:"kind"`
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"`
}

// Kinds of errors.
const (
	ErrBadInput     = "bad_input"
	ErrNotFound     = "not_found"
	ErrUnauthorized = "unauthorized"
	ErrForbidden    = "forbidden"
	ErrRefused      = "refused"
	ErrStore        = "store"
	ErrGap          = "gap"
	ErrInternal     = "internal"
)

func (e *Error) Error() string { return e.Message }

func problem(status int, kind, format string, args ...any) *Error {
	return &Error{Status: status, Kind: kind, Message: fmt.Sprintf(format, args...)}
}

func (e *Error) hinted(hint string) *Error {
	e.Hint = hint
	return e
}

// Status describes a worker.
type Status struct {
	Identity   string   `json:"identity"`
	PID        int      `json:"pid"`
	Version    string   `json:"version"`
	Codex      string   `json:"codex"`
	Zone       string   `json:"zone"`
	TaskQueues []string `json:"task_queues"`
	// Features are the options of sessions that the worker knows, of those that are announced
	// (protocol.Features). Workers before v0.2 do not say.
	Features  []string  `json:"features,omitempty"`
	API       string    `json:"api"`
	Store     StoreInfo `json:"store"`
	StartedAt time.Time `json:"started_at"`
	Now       time.Time `json:"now"` // by the worker's clock
	// Ready is false until the worker polls Temporal; Waits says what it waits for.
	Ready bool   `json:"ready"`
	Waits string `json:"waits,omitempty"`
	// PayloadKey is the id of the key that encrypts the worker's payloads in Temporal;
	// CodecEndpoint decodes them for Temporal's UI. Empty means none.
	PayloadKey string `json:"payload_key"`
	// Recipients are the public keys that the worker encrypts the store for.
	Recipients    []string `json:"recipients"`
	CodecEndpoint string   `json:"codec_endpoint"`
	// Access says which access file is in force, with authority: required.
	Access *authority.Standing `json:"access,omitempty"`
	// Audit is the newest record of this process's chain that is in the store.
	Audit *protocol.AuditHead `json:"audit,omitempty"`
}

// StoreInfo names a store.
type StoreInfo struct {
	URL string `json:"url"`
	ID  string `json:"id"`
}

// StoredMessage names a prompt in the store.
type StoredMessage struct {
	Blob  string `json:"blob"`
	Chars int    `json:"chars"`
}
