package records

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"fairlead.dev/fairlead/activities/internal/kit"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/internal/store"
)

// The streams of a command.
const (
	Stdout = "stdout"
	Stderr = "stderr"
)

const (
	ChunkBytes = 32 << 10  // shown at once
	pieceBytes = 256 << 10 // stored at once
	PieceAge   = time.Second

	// KeepExec is how many newest bytes of a stream are stored. A live viewer that keeps up
	// gets the whole stream.
	KeepExec = 64 << 20
	// slackExec is more than any piece.
	slackExec = 1 << 20
)

func execPrefix(id string) string { return "exec/" + id + "/" }

func pieceKey(id, stream string, at int64) string {
	return fmt.Sprintf("%s%s-%016d", execPrefix(id), stream, at)
}

// ExecEndKey is the key of a command's result.
func ExecEndKey(id string) string { return execPrefix(id) + "end" }

type piece struct {
	Key string
	At  int64
}

func listPieces(ctx context.Context, st *store.Store, id, stream string) ([]piece, error) {
	prefix := execPrefix(id) + stream + "-"
	infos, err := st.List(ctx, prefix)
	if err != nil {
		return nil, fmt.Errorf("list output of %s: %w", id, err)
	}
	var pieces []piece
	for _, info := range infos {
		if at, err := strconv.ParseInt(strings.TrimPrefix(info.Key, prefix), 10, 64); err == nil {
			pieces = append(pieces, piece{info.Key, at})
		}
	}
	slices.SortFunc(pieces, func(a, b piece) int { return cmp.Compare(a.At, b.At) })
	// a late attempt may have stored deleted pieces again
	for len(pieces) > 0 && pieces[0].At < pieces[len(pieces)-1].At-KeepExec-slackExec {
		pieces = pieces[1:]
	}
	return pieces, nil
}

// OpenLog opens a stream for writing at its stored end. Pieces do not overlap, whichever
// attempts wrote them.
func OpenLog(ctx context.Context, st *store.Store, id, stream string, now func() time.Time) (*ExecLog, error) {
	l := &ExecLog{Store: st, ID: id, Stream: stream, Now: now, Keep: KeepExec}
	var err error
	if l.pieces, err = listPieces(ctx, st, id, stream); err != nil || len(l.pieces) == 0 {
		return l, err
	}
	last := l.pieces[len(l.pieces)-1]
	data, err := st.Get(ctx, last.Key)
	if err != nil {
		return l, fmt.Errorf("read output of %s: %w", id, err)
	}
	l.Stored = last.At + int64(len(data))
	return l, nil
}

// An ExecLog stores one stream. It is safe for concurrent use; an error is final.
type ExecLog struct {
	Store      *store.Store
	ID, Stream string
	Now        func() time.Time
	Keep       int64 // newest bytes that stay
	pieces     []piece

	mu     sync.Mutex
	at     int64 // the offset of buf
	buf    bytes.Buffer
	Stored int64
	since  time.Time
	err    error
}

// Add takes output, and stores full pieces.
func (l *ExecLog) Add(ctx context.Context, at int64, data []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return l.err
	}
	if skip := l.Stored - at; skip > 0 {
		skip = min(skip, int64(len(data)))
		at, data = at+skip, data[skip:]
	}
	if len(data) == 0 {
		return nil
	}
	if l.buf.Len() == 0 {
		l.at, l.since = at, l.Now()
	}
	l.buf.Write(data)
	if l.buf.Len() >= pieceBytes {
		return l.write(ctx)
	}
	return nil
}

// Flush stores all.
func (l *ExecLog) Flush(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.write(ctx)
}

// FlushOld flushes if output has waited for PieceAge.
func (l *ExecLog) FlushOld(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.buf.Len() == 0 || l.Now().Sub(l.since) < PieceAge {
		return l.err
	}
	return l.write(ctx)
}

func (l *ExecLog) write(ctx context.Context) error {
	for l.err == nil && l.buf.Len() > 0 {
		key := pieceKey(l.ID, l.Stream, l.at)
		n := int64(l.buf.Len())
		err := l.Store.Create(ctx, key, l.buf.Bytes())
		if errors.Is(err, store.ErrExists) {
			// Another attempt wrote this piece, perhaps shorter or longer.
			var there []byte
			there, err = l.Store.Get(ctx, key)
			n = int64(len(there))
			if err == nil && n == 0 {
				err = fmt.Errorf("piece %s is empty", key)
			}
		}
		if err != nil {
			l.err = fmt.Errorf("store output of %s: %w", l.ID, err)
			break
		}
		l.buf.Next(int(min(n, int64(l.buf.Len()))))
		l.pieces = append(l.pieces, piece{key, l.at})
		l.Stored = l.at + n
		l.at = l.Stored
		l.drop(ctx)
	}
	return l.err
}

func (l *ExecLog) drop(ctx context.Context) {
	for len(l.pieces) > 1 && l.pieces[1].At <= l.Stored-l.Keep {
		if err := l.Store.Delete(ctx, l.pieces[0].Key); err != nil && !errors.Is(err, store.ErrNotFound) {
			l.err = fmt.Errorf("drop old output of %s: %w", l.ID, err)
			return
		}
		l.pieces = l.pieces[1:]
	}
}

// ReadExec yields stored output from byte from on, in order and without overlap, later if
// old output was dropped: see At. A running command may have more. An error comes last.
func ReadExec(ctx context.Context, st *store.Store, id, stream string, from int64) iter.Seq2[protocol.ExecChunk, error] {
	return func(yield func(protocol.ExecChunk, error) bool) {
		if err := kit.CheckID("exec", id); err != nil {
			yield(protocol.ExecChunk{}, err)
			return
		}
		pieces, err := listPieces(ctx, st, id, stream)
		if err != nil {
			yield(protocol.ExecChunk{}, err)
			return
		}
		next := max(from, 0)
		if len(pieces) > 0 && pieces[0].At > next {
			next = pieces[0].At
		}
		for i, p := range pieces {
			if i+1 < len(pieces) && pieces[i+1].At <= next {
				continue
			}
			data, err := st.Get(ctx, p.Key)
			if errors.Is(err, store.ErrNotFound) && i+1 < len(pieces) && next <= p.At {
				next = pieces[i+1].At // dropped just now
				continue
			}
			if err != nil {
				yield(protocol.ExecChunk{}, fmt.Errorf("read output of %s: %w", id, err))
				return
			}
			if p.At > next {
				yield(protocol.ExecChunk{}, fmt.Errorf("output of %s: bytes %d to %d of %s are missing from the store", id, next, p.At, stream))
				return
			}
			if skip := next - p.At; skip < int64(len(data)) {
				if !yield(protocol.ExecChunk{Stream: stream, At: next, Data: data[skip:]}, nil) {
					return
				}
				next = p.At + int64(len(data))
			}
		}
	}
}

// ReadExecEnd returns how a command ended; false if it has not.
func ReadExecEnd(ctx context.Context, st *store.Store, id string) (protocol.ExecResult, bool, error) {
	var out protocol.ExecResult
	if err := kit.CheckID("exec", id); err != nil {
		return out, false, err
	}
	data, err := st.Get(ctx, ExecEndKey(id))
	if errors.Is(err, store.ErrNotFound) {
		return out, false, nil
	}
	if err != nil {
		return out, false, fmt.Errorf("read how %s ended: %w", id, err)
	}
	if err := json.Unmarshal(data, &out); err != nil {
		return out, false, fmt.Errorf("read how %s ended: %w", id, err)
	}
	return out, true, nil
}
