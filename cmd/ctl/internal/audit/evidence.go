package audit

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"fairlead.dev/fairlead/cmd/ctl/internal/core"
	"fairlead.dev/fairlead/internal/audit"
)

// writeEvidence writes what ssh-keygen needs of each signed record below a folder. A file that
// is there stays, and must have the same content unless force is set.
func writeEvidence(doing, dir string, logs []audit.Log, f filter, force bool) error {
	all := map[string]string{} // texts by paths
	for _, l := range logs {
		for _, r := range l.Records {
			if !f.Wants(r) {
				continue
			}
			for path, text := range evidenceOf(dir, r) {
				if was, twice := all[path]; twice && was != text && !force {
					return core.Refused("%s: %.200q has several records of number %d, so nothing was written", doing, r.Entity, r.Seq).
						Hinted("`ctl audit verify` finds what was changed; --force writes the last one")
				}
				all[path] = text
			}
		}
	}
	for path, text := range all {
		same, err := hasContent(path, text)
		switch {
		case err != nil:
			return core.Failed("%s: %v", doing, err).Because(err)
		case same:
			delete(all, path)
		default:
			if core.MayReplace(doing, path, force) != nil {
				return core.Refused("%s: %s is there already with other content, so nothing was written", doing, path).Hinted("name another folder, or give --force")
			}
		}
	}
	for path, text := range all {
		err := os.MkdirAll(filepath.Dir(path), 0o700)
		if err == nil && force {
			if err = os.Remove(path); errors.Is(err, fs.ErrNotExist) {
				err = nil
			}
		}
		if err == nil {
			err = writeNew(path, text)
		}
		if err != nil {
			return core.Failed("%s: %v", doing, err).Because(err)
		}
	}
	return nil
}

// evidenceOf returns the files of a record's evidence. File names consist of digits and
// letters, because anybody may have written the entity.
func evidenceOf(dir string, r audit.Record) map[string]string {
	texts := map[string]string{}
	if e := r.Evidence; e.Signature != "" && !e.Cut {
		texts["message"], texts["sig"], texts["cert"] = e.Message, e.Signature, e.Certificate
	}
	if d := r.Decision; d != nil && d.Signature != "" && !d.Cut {
		texts["decision"], texts["decision.sig"] = d.Message, d.Signature
	}
	files := map[string]string{}
	for ext, text := range texts {
		if text != "" {
			files[filepath.Join(dir, folderOf(r.Entity), fmt.Sprintf("%d.%s", r.Seq, ext))] = text
		}
	}
	return files
}

// folderOf returns a plain name for an entity. For an entity with other characters it is a
// digest.
func folderOf(entity string) string {
	name := strings.ReplaceAll(entity, "/", "_")
	for _, c := range name {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' && c != '_' {
			return audit.Digest(entity)[:32]
		}
	}
	return name
}

// hasContent reports whether a regular file has exactly this text.
func hasContent(path, text string) (bool, error) {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err != nil:
		return false, err
	case !info.Mode().IsRegular() || info.Size() != int64(len(text)):
		return false, nil
	}
	data, err := os.ReadFile(path)
	return string(data) == text, err
}

func writeNew(path, text string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.WriteString(f, text)
	return errors.Join(err, f.Close())
}
