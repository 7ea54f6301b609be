package hostexec_test

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/hostexec/hosttest"
	"fairlead.dev/fairlead/hostexec/tree"
	"fairlead.dev/fairlead/internal/protocol"
)

// treeHosts returns a host for each userland. Trees are copied between them.
func treeHosts(t *testing.T) map[string]hostexec.Host {
	spec := hosttest.StartSSHD(t, hosttest.Options{}).Spec()
	sshd, far := newHost(t, spec), farHost(t, spec)
	return map[string]hostexec.Host{
		"local":            localHost(t),
		"sshd":             sshd,
		"busybox":          &otherShell{localHost(t), busybox(t)},
		"sshd busybox":     &otherShell{sshd, busybox(t)},
		"far sshd":         far, // with zstd
		"far sshd busybox": &otherShell{far, busybox(t)},
	}
}

// farHost returns a host of a pool to which every host counts as far away.
func farHost(t *testing.T, spec protocol.HostSpec) hostexec.Host {
	pool := newPool(t, hostexec.PoolOptions{})
	pool.EverythingIsFar()
	h, err := pool.Host(spec)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func nastyTree(t *testing.T, largest int64) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "it's\na \"tree\" \xff")
	if err := hosttest.NastyTree(dir, largest); err != nil {
		t.Fatal(err)
	}
	return dir
}

func list(t *testing.T, h hostexec.Host, dir string, opts tree.ListOptions) []tree.Entry {
	t.Helper()
	var entries []tree.Entry
	_, err := tree.List(t.Context(), h, dir, opts, func(e tree.Entry) error {
		entries = append(entries, e)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return entries
}

// carry lists and reads a tree and writes it elsewhere.
func carry(t *testing.T, from, to hostexec.Host, src, dst string) {
	t.Helper()
	entries := list(t, from, src, tree.ListOptions{})
	first := map[[2]uint64]string{}
	var names []string
	byName := map[string]tree.Entry{}
	for _, e := range entries {
		id := [2]uint64{e.Dev, e.Inode}
		if e.Kind == tree.RegularFile && first[id] == "" {
			names = append(names, e.Path)
			first[id] = e.Path
			byName[e.Path] = e
		}
	}
	buf := make([]byte, 4<<10)
	err := tree.Write(t.Context(), to, dst, tree.WriteOptions{}, func(w *tree.Writer) error {
		again := 0
		err := tree.Read(t.Context(), from, src, slices.Values(names), func(f *tree.File) error {
			e := byName[f.Path]
			if f.Missing || f.HardLink != "" || f.Size != e.Size {
				t.Errorf("%q: %+v", f.Path, f)
			}
			out, err := w.File(e, e.Sparse())
			if err != nil {
				return err
			}
			for {
				if n := f.SkipHole(); n > 0 {
					if err := out.Hole(n); err != nil {
						return err
					}
				}
				n, err := io.ReadFull(f, buf)
				if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
					return err
				}
				if n > 0 && bytes.Count(buf[:n], []byte{0}) == n {
					if err := out.Hole(int64(n)); err != nil {
						return err
					}
				} else if _, bad := out.Write(buf[:n]); bad != nil {
					return bad
				}
				if n < len(buf) {
					return out.Close()
				}
			}
		}, func(e tree.Entry) error {
			again++
			was := byName[e.Path]
			was.Blocks = e.Blocks // changes when the file system writes what it holds in memory
			if was != e {
				t.Errorf("%q was %+v, is %+v", e.Path, was, e)
			}
			return nil
		})
		if err != nil {
			return err
		}
		if again != len(names) {
			t.Errorf("%d of %d files were looked at again", again, len(names))
		}
		for _, e := range entries {
			switch e.Kind {
			case tree.RegularFile:
				same := first[[2]uint64{e.Dev, e.Inode}]
				if same == e.Path {
					continue
				}
				e.Kind, e.Link = tree.HardLink, same
			case tree.Folder, tree.Symlink:
			default:
				continue
			}
			if err := w.Add(e); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestATreeIsCarriedOverAsItIs(t *testing.T) {
	// busybox's tar writes holes as zeros, GNU's does not.
	src, small := nastyTree(t, 1<<40), nastyTree(t, 64<<20)
	hosts := treeHosts(t)
	for _, way := range []struct{ from, to string }{{"local", "local"}, {"sshd", "sshd"}, {"busybox", "local"}, {"local", "busybox"}, {"sshd busybox", "sshd busybox"}} {
		t.Run(way.from+" to "+way.to, func(t *testing.T) {
			dst, src := filepath.Join(t.TempDir(), "new 'place'/tree"), src
			if strings.HasSuffix(way.from, "busybox") {
				src = small
			}
			carry(t, hosts[way.from], hosts[way.to], src, dst)
			may := hosttest.TreeDiffers{}
			if way.to != "local" && way.to != "sshd" {
				may = hosttest.TreeDiffers{WholeSeconds: true, LinkTimes: true}
			}
			if err := hosttest.CompareTrees(src, dst, may); err != nil {
				t.Error(err)
			}
		})
	}
}

// entryOf returns what List should report.
func entryOf(dir, path string, fi fs.FileInfo) tree.Entry {
	st := fi.Sys().(*syscall.Stat_t)
	kinds := map[uint32]tree.Kind{
		syscall.S_IFREG: tree.RegularFile, syscall.S_IFDIR: tree.Folder, syscall.S_IFLNK: tree.Symlink,
		syscall.S_IFIFO: tree.FIFO, syscall.S_IFSOCK: tree.Socket, syscall.S_IFCHR: tree.CharDevice,
	}
	e := tree.Entry{
		Path: path, Kind: kinds[st.Mode&syscall.S_IFMT], Mode: st.Mode & 0o7777, Size: st.Size, Blocks: st.Blocks,
		MTime: time.Unix(st.Mtim.Unix()), CTime: time.Unix(st.Ctim.Unix()), Inode: st.Ino, Dev: st.Dev, Links: uint64(st.Nlink),
	}
	if e.Kind == tree.Symlink {
		e.Link, _ = os.Readlink(dir + "/" + path)
	}
	return e
}

func TestATreeIsListedAsItIs(t *testing.T) {
	src := nastyTree(t, 1<<40)
	want := map[string]fs.FileInfo{}
	filepath.WalkDir(src, func(p string, d fs.DirEntry, err error) error {
		rel, _ := filepath.Rel(src, p)
		want[rel], _ = os.Lstat(p)
		return err
	})
	for name, h := range treeHosts(t) {
		t.Run(name, func(t *testing.T) {
			entries := list(t, h, src, tree.ListOptions{})
			if len(entries) != len(want) {
				t.Errorf("%d entries, not %d", len(entries), len(want))
			}
			for _, e := range entries {
				fi := want[e.Path]
				if fi == nil {
					t.Errorf("%q is not there", e.Path)
					continue
				}
				if is := entryOf(src, e.Path, fi); is != e {
					t.Errorf("%q is %+v, was listed as %+v", e.Path, is, e)
				}
			}
			if !slices.IsSortedFunc(entries, func(a, b tree.Entry) int { return tree.ComparePaths(a.Path, b.Path) }) {
				t.Error("they are not in order")
			}
		})
	}
	_, err := tree.List(t.Context(), localHost(t), src+"/no such", tree.ListOptions{}, nil)
	if !errors.Is(err, hostexec.ErrNotExist) {
		t.Error(err)
	}
}
