package snapshots

import (
	"cmp"
	"slices"
	"strings"
)

// folderSizes adds up file sizes by folder. Depth and memory are bounded.
type folderSizes struct {
	bytes map[string]int64
}

const (
	folderDepth = 4
	maxFolders  = 20_000
)

func (f *folderSizes) add(name string, size int64) {
	if f.bytes == nil {
		f.bytes = map[string]int64{}
	}
	at := 0
	for range folderDepth {
		i := strings.IndexByte(name[at:], '/')
		if i < 0 {
			return
		}
		at += i + 1
		dir := name[:at]
		if _, known := f.bytes[dir]; known || len(f.bytes) < maxFolders {
			f.bytes[dir] += size
		}
	}
}

// biggest leaves out a folder if one of its subfolders holds about nine tenths of its
// content.
func (f *folderSizes) biggest(n int) []FolderSize {
	var all []FolderSize
	heirs := map[string]bool{}
	for dir, size := range f.bytes {
		up := dir[:strings.LastIndexByte(dir[:len(dir)-1], '/')+1]
		heirs[up] = heirs[up] || size > 0 && size >= f.bytes[up]/10*9
	}
	for dir, size := range f.bytes {
		if size > 0 && !heirs[dir] {
			all = append(all, FolderSize{Path: dir, Bytes: size})
		}
	}
	slices.SortFunc(all, func(a, b FolderSize) int {
		if c := cmp.Compare(b.Bytes, a.Bytes); c != 0 {
			return c
		}
		return strings.Compare(a.Path, b.Path)
	})
	return all[:min(n, len(all))]
}

func (t *taking) quota(what string, n, limit int64) error {
	e := &QuotaError{What: what, Bytes: n, Max: limit, Biggest: t.folders.biggest(5)}
	for i := range e.Biggest {
		e.Biggest[i].Path = t.hide(e.Biggest[i].Path)
	}
	return e
}
