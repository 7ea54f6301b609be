package snapshots

import (
	"context"
	"log/slog"

	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/internal/store"
)

// ArchiveSpec says what to keep. It is that of Take for who does not know more.
type ArchiveSpec struct {
	ID                 string
	Session            string
	CodexHome, WorkDir string // either may be empty
	ThreadID           string
	CodexVersion       string
	Turn               int
	Mask               func() Masker
	Logger             *slog.Logger
}

// Archive takes a snapshot without a parent.
func Archive(ctx context.Context, h hostexec.Host, st *store.Store, spec ArchiveSpec) (Manifest, error) {
	s := TakeSpec{ID: spec.ID, Session: spec.Session, Mask: spec.Mask, Logger: spec.Logger,
		Facts: Facts{ThreadID: spec.ThreadID, CodexVersion: spec.CodexVersion, Turn: spec.Turn, Host: h.Name()}}
	if spec.CodexHome != "" {
		s.Trees = append(s.Trees, RolloutsOf(spec.CodexHome))
	}
	if spec.WorkDir != "" {
		s.Trees = append(s.Trees, WorkOf(spec.WorkDir, WorkFull, nil))
	}
	return Take(ctx, h, OpenChunks(st, ChunkOptions{Logger: spec.Logger}), s)
}
