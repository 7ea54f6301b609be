package site

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"fairlead.dev/fairlead/activities/internal/kit"
	"fairlead.dev/fairlead/activities/records"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/internal/store"
	"fairlead.dev/fairlead/seeds"
)

// Publish sends v to live viewers. It only logs errors.
func Publish(s *Site, topic, kind string, seq int64, v any) {
	if s.Live == nil {
		return
	}
	data, err := json.Marshal(v)
	if err != nil {
		s.Logger.Error("live event cannot be encoded", "topic", topic, "kind", kind, "err", err)
		return
	}
	s.Live.Publish(topic, records.LiveEvent{Kind: kind, Seq: seq, Data: data})
}

// KeepDiff stores a diff, the same in every attempt.
func KeepDiff(ctx context.Context, s *Site, session string, d protocol.TurnDiff, hide *seeds.Redactor) error {
	kit.HideIn(hide, &d)
	data, err := json.Marshal(d)
	if err != nil {
		return fmt.Errorf("encode the diff of turn %d of %s: %w", d.Turn, session, err)
	}
	err = s.Store.Create(ctx, records.DiffKey(session, d), data)
	if err != nil && !errors.Is(err, store.ErrExists) {
		return fmt.Errorf("store the diff of turn %d of %s: %w", d.Turn, session, err)
	}
	dropDiffs(ctx, s, session, d)
	return nil
}

// dropDiffs deletes a turn's older diffs: each has all changes so far. It only logs errors.
func dropDiffs(ctx context.Context, s *Site, session string, than protocol.TurnDiff) {
	infos, err := s.Store.List(ctx, records.TurnDiffs(session, than.Turn))
	if err != nil {
		s.Logger.Warn("diffs that are no longer needed stay", "session", session, "err", err)
		return
	}
	for _, info := range infos {
		if d, ok := records.ParseDiff(info.Key); !ok || d.Turn != than.Turn || !records.NewerDiff(than, d) {
			continue
		}
		if err := s.Store.Delete(ctx, info.Key); err != nil {
			s.Logger.Warn("a diff that is no longer needed stays", "session", session, "err", err)
		}
	}
}
