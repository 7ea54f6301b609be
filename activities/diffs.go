package activities

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/internal/store"
)

// ErrNoDiff says that codex reported no changed file of a session, or of one of its
// turns.
var ErrNoDiff = errors.New("no diff")

func diffPrefix(session string) string { return "diffs/" + session + "/" }

func turnDiffs(session string, turn int) string {
	return fmt.Sprintf("%s%08d-", diffPrefix(session), turn)
}

// diffKey orders the diffs of a session by turn and then by age.
func diffKey(session string, d protocol.TurnDiff) string {
	return fmt.Sprintf("%s%d.%d", turnDiffs(session, d.Turn), d.Place.Incarnation, d.Place.Offset)
}

// parseDiff reads a key; false if it is not one of diffKey's.
func parseDiff(key string) (d protocol.TurnDiff, ok bool) {
	turn, place, ok1 := strings.Cut(key[strings.LastIndexByte(key, '/')+1:], "-")
	incarnation, offset, ok2 := strings.Cut(place, ".")
	n, err1 := strconv.Atoi(turn)
	i, err2 := strconv.Atoi(incarnation)
	o, err3 := strconv.ParseInt(offset, 10, 64)
	return protocol.TurnDiff{Turn: n, Place: protocol.Cursor{Incarnation: i, Offset: o}}, ok1 && ok2 && errors.Join(err1, err2, err3) == nil
}

// ReadDiff returns the diff of a turn of a session. If turn is 0, it returns the diff of
// the newest turn that has one. If there is no diff, the error is ErrNoDiff.
func ReadDiff(ctx context.Context, st *store.Store, session string, turn int) (protocol.TurnDiff, error) {
	for range 3 {
		d, err := readDiff(ctx, st, session, turn)
		if !errors.Is(err, store.ErrNotFound) {
			return d, err
		}
		// A newer diff has just replaced the one that was found.
	}
	return readDiff(ctx, st, session, turn)
}

func readDiff(ctx context.Context, st *store.Store, session string, turn int) (protocol.TurnDiff, error) {
	var newest protocol.TurnDiff
	key := ""
	if err := checkID("session", session); err != nil {
		return newest, err
	}
	infos, err := st.List(ctx, diffPrefix(session))
	if err != nil {
		return newest, fmt.Errorf("list diffs of %s: %w", session, err)
	}
	for _, info := range infos {
		d, ok := parseDiff(info.Key)
		if ok && (turn == 0 || d.Turn == turn) && (key == "" || newerDiff(d, newest)) {
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

func newerDiff(a, b protocol.TurnDiff) bool {
	switch {
	case a.Turn != b.Turn:
		return a.Turn > b.Turn
	case a.Place.Incarnation != b.Place.Incarnation:
		return a.Place.Incarnation > b.Place.Incarnation
	}
	return a.Place.Offset > b.Place.Offset
}
