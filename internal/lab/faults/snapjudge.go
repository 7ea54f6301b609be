package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"fairlead.dev/fairlead/internal/lab"
	"fairlead.dev/fairlead/internal/protocol"
)

// judge checks, after the session is closed, that nothing of it is left on any
// host and that snapshots that are marked complete are complete.
func (s *snapRun) judge(ctx context.Context) error {
	var d protocol.SessionDetail
	var err error
	if d, err = s.detail(ctx, s.run.id); err != nil {
		return err
	}
	seen := map[string]int{}
	for _, m := range s.Model.UserMessages(d.View.ThreadID) {
		seen[m]++
	}
	for _, t := range d.Turns {
		n := seen[s.run.messageOf(t.N)]
		if text := s.run.messageOf(t.N); t.Status == "completed" && n != 1 && (t.N != s.mayLack || n > 1) {
			s.res.Find(history, "the model saw %q %d times", text, n)
		}
	}
	s.judgeHosts(ctx)
	return s.judgeStore(ctx, d.Turns)
}

func (s *snapRun) judgeHosts(ctx context.Context) {
	for _, h := range s.hosts {
		folder := filepath.Join(h.root, "sessions", s.run.id)
		err := again(ctx, "what is left on "+h.name+" to go", func(context.Context) error {
			if exists(folder) {
				return errors.New(folder + " is there")
			}
			return nil
		})
		if err != nil {
			s.res.Find(wrong, "%s", err.Error())
		}
		for _, p := range processesOf(s.run.id, folder) {
			s.res.Find(wrong, "process %d is left: %.200s", p.pid, p.command)
		}
	}
}

// A keptOne is a snapshot as ctl lists it.
type keptOne struct {
	ID       string `json:"id"`
	Turn     int    `json:"turn"`
	Running  bool   `json:"running"`
	Left     bool   `json:"left"`
	Complete bool   `json:"complete"`
}

func (s *snapRun) judgeStore(ctx context.Context, turns []protocol.TurnView) error {
	list, err := lab.Lines[keptOne](ctx, s.Lab, "snapshot", "list", s.run.id)
	if err != nil {
		return err
	}
	newest := ""
	for _, one := range list {
		if !one.Complete {
			continue
		}
		got, err := s.export(ctx, one, turns)
		if err != nil {
			s.res.Find(halfWhole, "%s says that it is complete: %v", one.ID, err)
			continue
		}
		// Before the first work the folder was empty.
		if _, ok := s.states[got]; !ok && one.Turn > 1 {
			s.res.Find(halfWhole, "%s, of turn %d, holds what the work folder never was", one.ID, one.Turn)
		}
		if !one.Left {
			newest = got
		}
	}
	if newest != s.now {
		s.res.Find(workLost, "the newest snapshot is of version %d, not %d, and the folder is gone", s.states[newest], s.version)
	}
	if r := s.Ctl(ctx, nil, "snapshot", "check"); r.Code != 0 {
		s.res.Find(halfWhole, "snapshot check: %s", r.Error())
	}
	return nil
}

// everyByteIsThere reads the whole store, which all rows share: a later row may
// have damaged the snapshots of one that was judged before.
func everyByteIsThere(ctx context.Context, s *stage) error {
	if r := s.Ctl(ctx, nil, "snapshot", "check", "--read-data"); r.Code != 0 {
		return fmt.Errorf("snapshot check --read-data: %w", r)
	}
	return nil
}

// export unpacks a snapshot with the machine's own tar, checks its content, and
// returns the digest of its work folder.
func (s *snapRun) export(ctx context.Context, one keptOne, turns []protocol.TurnView) (string, error) {
	dir := filepath.Join(s.Dir, "export-"+one.ID)
	defer os.RemoveAll(dir)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	archive := filepath.Join(dir, "all.tar")
	if _, err := s.Out(ctx, "snapshot", "export", one.ID, archive); err != nil {
		return "", err
	}
	data, err := os.ReadFile(archive)
	if err != nil {
		return "", err
	}
	if bytes.Contains(data, []byte(s.Token)) {
		s.res.Find(wrong, "a credential is in %s", one.ID)
	}
	if out, err := exec.CommandContext(ctx, "tar", "-C", dir, "-xpf", archive).CombinedOutput(); err != nil {
		return "", fmt.Errorf("tar: %w: %s", err, out)
	}
	said, err := rolloutsIn(filepath.Join(dir, "rollouts"))
	if err != nil {
		return "", err
	}
	// A snapshot of what was left on a former host (Left) names no turn.
	for _, t := range turns {
		text := s.run.messageOf(t.N)
		if t.N <= one.Turn && t.Status == "completed" && t.N != s.mayLack && !bytes.Contains(said, []byte(text)) {
			return "", fmt.Errorf("it is of turn %d, and its rollouts do not know %q of turn %d", one.Turn, text, t.N)
		}
	}
	return treeDigest(filepath.Join(dir, "work"))
}

// rolloutsIn reads all that a thread has said, as codex would.
func rolloutsIn(dir string) (all []byte, err error) {
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		if !strings.HasPrefix(d.Name(), "rollout-") {
			return fmt.Errorf("%s is no rollout", path)
		}
		data, err := os.ReadFile(path)
		all = append(all, data...)
		return err
	})
	if err == nil && len(all) == 0 {
		err = errors.New("it holds no rollout")
	}
	return all, err
}
