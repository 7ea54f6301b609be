package snapshots

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"fairlead.dev/fairlead/snapshots/chunks"
)

// CheckLineage returns a *LineageError if a snapshot lacks rollouts that its thread needs.
// Call it before a restore. A thread without a turn needs none.
func CheckLineage(ctx context.Context, c *chunks.Store, id string) error {
	m, err := manifestOf(ctx, c, id)
	if err != nil {
		return err
	}
	if m.ThreadID == "" || m.Turn == 0 {
		return nil
	}
	lists, files := c.NewReader(ctx), c.NewReader(ctx)
	defer lists.Close()
	defer files.Close()
	byPath := map[string]Entry{}
	var all []Rollout
	tree, _ := m.Tree(Rollouts)
	err = tree.each(lists.Get, func(e Entry) error {
		if e.Kind == File && rollout(e.Path) {
			byPath[e.Path] = e
			all = append(all, Rollout{e.Path, e.Size})
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("read the list of rollouts of snapshot %s: %w", id, err)
	}
	_, err = Lineage(m.ThreadID, all, func(name string) (io.ReadCloser, error) {
		var head bytes.Buffer
		err := byPath[name].content(lists.Get, files.Get, func(chunk []byte, hole int64) error {
			head.Write(chunk)
			if hole > 0 || head.Len() > maxFirstLine || bytes.IndexByte(chunk, '\n') >= 0 && !compressed(name) {
				return errStop
			}
			return nil
		})
		if err != nil && !errors.Is(err, errStop) {
			return nil, err
		}
		return io.NopCloser(&head), nil
	})
	if err != nil {
		return fmt.Errorf("snapshot %s: %w", id, err)
	}
	return nil
}
