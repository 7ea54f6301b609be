package records

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"fairlead.dev/fairlead/activities/internal/kit"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/internal/store"
)

// ErrNoDiff says that codex reported no changed file.
var ErrNoDiff = errors.New("no diff")

// DiffPrefix begins the keys of a session's diffs.
func DiffPrefix(session string) string { return "diffs/" + session + "/" }

// TurnDiffs begins the keys of a turn's diffs.
func TurnDiffs(session string, turn int) string {
	return fmt.Sprintf("%s%08d-", DiffPrefix(session), turn)
}

// DiffKey orders diffs by turn and age.
func DiffKey(session string, d protocol.TurnDiff) string {
	return fmt.Sprintf("%s%d.%d", TurnDiffs(session, d.Turn), d.Place.Incarnation, d.Place.Offset)
}

// ParseDiff reads DiffKey's keys.
func ParseDiff(key string) (d protocol.TurnDiff, ok bool) {
	turn, place, ok1 := strings.Cut(key[strings.LastIndexByte(key, '/')+1:], "-")
	incarnation, offset, ok2 := strings.Cut(place, ".")
	n, err1 := strconv.Atoi(turn)
	i, err2 := strconv.Atoi(incarnation)
	o, err3 := strconv.ParseInt(offset, 10, 64)
	return protocol.TurnDiff{Turn: n, Place: protocol.Cursor{Incarnation: i, Offset: o}}, ok1 && ok2 && errors.Join(err1, err2, err3) == nil
}

// ReadDiff returns the diff of a turn; 0 means the newest turn that has one. Without any,
// it returns ErrNoDiff.
func ReadDiff(ctx context.Context, st *store.Store, session string, turn int) (protocol.TurnDiff, error) {
	for range 3 {
		d, err := readDiff(ctx, st, session, turn)
		if !errors.Is(err, store.ErrNotFound) {
			return d, err
		}
		// A newer diff has just replaced the one found.
	}
	return readDiff(ctx, st, session, turn)
}

func readDiff(ctx context.Context, st *store.Store, session string, turn int) (protocol.TurnDiff, error) {
	var newest protocol.TurnDiff
	key := ""
	if err := kit.CheckID("session", session); err != nil {
		return newest, err
	}
	infos, err := st.List(ctx, DiffPrefix(session))
	if err != nil {
		return newest, fmt.Errorf("list diffs of %s: %w", session, err)
	}
	for _, info := range infos {
		d, ok := ParseDiff(info.Key)
		if ok && (turn == 0 || d.Turn == turn) && (key == "" || NewerDiff(d, newest)) {
			newest, key = d, info.Key
		}
	}
	if key == "" {
		return newest, ErrNoDiff
	}
	data, err := st.Get(ctx, key)
	if err == nil {
		newest = protocol.TurnDiff{}
		err = json.Unmarshal(data, &newest)
	}
	if err != nil {
		return newest, fmt.Errorf("read the diff of turn %d of %s: %w", newest.Turn, session, err)
	}
	return newest, nil
}

// NewerDiff reports whether a is later than b.
func NewerDiff(a, b protocol.TurnDiff) bool {
	switch {
	case a.Turn != b.Turn:
		return a.Turn > b.Turn
	case a.Place.Incarnation != b.Place.Incarnation:
		return a.Place.Incarnation > b.Place.Incarnation
	}
	return a.Place.Offset > b.Place.Offset
}
