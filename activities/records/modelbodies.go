package records

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"fairlead.dev/fairlead/internal/store"
)

// modelBodies are what sessions asked the model gateway and what it answered. Workers keep them for
// debugging, if their configuration says so. The id of each begins with the time until which it is
// kept: it is deleted then, whatever the configuration says by that time.
const modelBodies = "modelbodies/"

// idTime is the form of the times in the id of a ModelBody. They sort as they follow each other.
const idTime = "20060102t150405.000000z"

// mostModelBodies bounds how many are kept of a session.
const mostModelBodies = 1000

// A ModelBody is a request to the model gateway, with its answer.
type ModelBody struct {
	ID       string    `json:"id"`
	At       time.Time `json:"at"`
	Until    time.Time `json:"until"`
	Path     string    `json:"path"`
	Model    string    `json:"model,omitempty"`
	Upstream string    `json:"upstream,omitempty"`
	Asked    string    `json:"asked,omitempty"` // the model that the upstream was asked for
	Attempts int       `json:"attempts,omitempty"`
	Status   int       `json:"status"`
	Kind     string    `json:"kind"` // how it ended
	Message  string    `json:"message,omitempty"`
	Request  BodyText  `json:"request"`
	Answer   BodyText  `json:"answer"`
}

// A BodyText is the beginning of a body.
type BodyText struct {
	Text  string `json:"text"`
	Bytes int64  `json:"bytes"` // of the whole body
	Cut   bool   `json:"cut,omitempty"`
}

// A KeptBody is what a list says of a ModelBody.
type KeptBody struct {
	ID    string    `json:"id"`
	At    time.Time `json:"at"`
	Until time.Time `json:"until"`
	Bytes int64     `json:"bytes"` // in the store
}

// bodyOf reads the id of a key.
func bodyOf(info store.Info) (b KeptBody, ok bool) {
	b = KeptBody{ID: info.Key[strings.LastIndexByte(info.Key, '/')+1:], Bytes: info.Size}
	parts := strings.Split(b.ID, "-")
	if len(parts) != 3 {
		return b, false
	}
	var err, aerr error
	b.Until, err = time.Parse(idTime, parts[0])
	b.At, aerr = time.Parse(idTime, parts[1])
	return b, err == nil && aerr == nil
}

// KeepModelBody keeps a body of a session until a time. It makes room within most bytes for all
// bodies of the session: those that are kept for the shortest time go first.
func KeepModelBody(ctx context.Context, st *store.Store, session string, b ModelBody, most int64) error {
	b.ID = strings.Join([]string{b.Until.UTC().Format(idTime), b.At.UTC().Format(idTime), strings.ToLower(rand.Text()[:8])}, "-")
	data, err := json.Marshal(b)
	if err != nil {
		return err
	}
	all, err := st.List(ctx, modelBodies+session+"/")
	if err != nil {
		return fmt.Errorf("keep a body of session %s: %w", session, err)
	}
	slices.SortFunc(all, func(x, y store.Info) int { return cmp.Compare(x.Key, y.Key) })
	sum := int64(len(data))
	for _, info := range all {
		sum += info.Size
	}
	for len(all) > 0 && (sum > most || len(all) >= mostModelBodies) {
		if err := st.Delete(ctx, all[0].Key); err != nil && !errors.Is(err, store.ErrNotFound) {
			return fmt.Errorf("make room for a body of session %s: %w", session, err)
		}
		sum -= all[0].Size
		all = all[1:]
	}
	if sum > most {
		return fmt.Errorf("keep a body of session %s: it has %d bytes, and all of a session may have %d", session, len(data), most)
	}
	return st.Put(ctx, modelBodies+session+"/"+b.ID, data)
}

// ListModelBodies returns the bodies of a session that are kept, oldest first.
func ListModelBodies(ctx context.Context, st *store.Store, session string, now time.Time) ([]KeptBody, error) {
	all, err := st.List(ctx, modelBodies+session+"/")
	if err != nil {
		return nil, err
	}
	list := []KeptBody{}
	for _, info := range all {
		if b, ok := bodyOf(info); ok && now.Before(b.Until) {
			list = append(list, b)
		}
	}
	slices.SortFunc(list, func(x, y KeptBody) int { return cmp.Or(x.At.Compare(y.At), cmp.Compare(x.ID, y.ID)) })
	return list, nil
}

// ReadModelBody returns a body. The error wraps store.ErrNotFound if there is none, or if its time is over.
func ReadModelBody(ctx context.Context, st *store.Store, session, id string, now time.Time) (b ModelBody, err error) {
	key := modelBodies + session + "/" + id
	if kept, ok := bodyOf(store.Info{Key: key}); !ok || strings.Contains(id, "/") || !now.Before(kept.Until) {
		return b, fmt.Errorf("body %.100q of session %s: %w", id, session, store.ErrNotFound)
	}
	data, err := st.Get(ctx, key)
	if err != nil {
		return b, err
	}
	if err := json.Unmarshal(data, &b); err != nil {
		return b, fmt.Errorf("%s is no body of a request: %w", key, err)
	}
	return b, nil
}

// DropModelBodies deletes the bodies of all sessions whose time is over, and returns how many.
func DropModelBodies(ctx context.Context, st *store.Store, now time.Time) (n int, err error) {
	all, err := st.List(ctx, modelBodies)
	if err != nil {
		return 0, err
	}
	for _, info := range all {
		if b, ok := bodyOf(info); ok && now.Before(b.Until) {
			continue
		}
		if err := st.Delete(ctx, info.Key); err != nil && !errors.Is(err, store.ErrNotFound) {
			return n, fmt.Errorf("delete a body whose time is over: %w", err)
		}
		n++
	}
	return n, nil
}
