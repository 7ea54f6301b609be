package main

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// A workTree is a folder of many files. Its content depends only on the seed,
// so that it is the same in every measurement: source text, which compresses,
// and as many bytes that do not.
type workTree struct {
	dir   string
	files []string // current files, below dir
	rng   *rand.Rand
	made  int
}

// newWorkTree makes a tree of that many files and about that many bytes.
func newWorkTree(dir string, files int, size int64) (*workTree, error) {
	t := &workTree{dir: dir, rng: rand.New(rand.NewPCG(uint64(files), uint64(size)))}
	sizes := make([]float64, files)
	total := 0.0
	for i := range sizes { // most files are small, some are large
		sizes[i] = math.Exp(t.rng.NormFloat64() * 1.5)
		total += sizes[i]
	}
	for _, s := range sizes {
		if err := t.add(int(s / total * float64(size))); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// add makes a new file. A folder holds about fifty, several levels deep.
func (t *workTree) add(size int) error {
	n := t.made
	t.made++
	name := filepath.Join(fmt.Sprintf("d%02d", n/50%20), fmt.Sprintf("part-%03d", n/50/20), fmt.Sprintf("f%05d.dat", n))
	if err := os.MkdirAll(filepath.Join(t.dir, filepath.Dir(name)), 0o755); err != nil {
		return err
	}
	t.files = append(t.files, name)
	return os.WriteFile(filepath.Join(t.dir, name), t.content(size, n%2 == 0), 0o644)
}

var words = []string{"func ", "return ", "session", "snapshot", " = ", "host", "err", " != nil {\n\t", "}\n", "if ", "the ", "store", ".", "(ctx, ", ")\n", "\"chunk\"", " // why", " := range "}

func (t *workTree) content(size int, text bool) []byte {
	b := make([]byte, 0, size+16)
	for len(b) < size {
		if text {
			b = append(b, words[t.rng.IntN(len(words))]...)
			if t.rng.IntN(6) == 0 {
				b = fmt.Appendf(b, "%x", t.rng.Uint32())
			}
		} else {
			v := t.rng.Uint64()
			b = append(b, byte(v), byte(v>>8), byte(v>>16), byte(v>>24), byte(v>>32), byte(v>>40), byte(v>>48), byte(v>>56))
		}
	}
	return b[:size]
}

// change edits, deletes and adds one file in a hundred in total: of 20,000
// files 160, 20 and 20.
func (t *workTree) change() error {
	hundredth := max(len(t.files)/100, 10)
	edits, others := hundredth*8/10, hundredth/10
	for range others {
		i := t.rng.IntN(len(t.files))
		if err := os.Remove(filepath.Join(t.dir, t.files[i])); err != nil {
			return err
		}
		t.files = slices.Delete(t.files, i, i+1)
	}
	for i := range edits {
		if err := t.edit(t.files[t.rng.IntN(len(t.files))], i%3); err != nil {
			return err
		}
	}
	for range others {
		if err := t.add(20_000); err != nil {
			return err
		}
	}
	return nil
}

// edit appends to a file, writes into its middle, or rewrites it.
func (t *workTree) edit(name string, how int) error {
	file := filepath.Join(t.dir, name)
	was, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	more := t.content(100, true)
	switch how {
	case 0:
		was = append(was, more...)
	case 1:
		was = slices.Concat(was[:len(was)/2], more, was[len(was)/2:])
	default:
		was = t.content(len(was)+1, true)
	}
	return os.WriteFile(file, was, 0o644)
}

// contentOf returns a digest of everything that a tool must restore: names,
// kinds, modes, times to the second, and every byte.
func contentOf(dir string) ([]byte, error) {
	sum := sha256.New()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		i, err := d.Info()
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		fmt.Fprintf(sum, "%q %v", name, i.Mode())
		if i.Mode().IsRegular() {
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			fmt.Fprintf(sum, " %v %x", i.ModTime().Truncate(time.Second).Unix(), sha256.Sum256(data))
		}
		return nil
	})
	return sum.Sum(nil), err
}

// sameAs checks that a folder has the tree's content.
func (t *workTree) sameAs(dir string) error {
	want, err := contentOf(t.dir)
	if err != nil {
		return err
	}
	got, err := contentOf(dir)
	if err == nil && !bytes.Equal(got, want) {
		err = errors.New("what came back is not what was there: " + dir)
	}
	return err
}

func sizeOf(dirs ...string) (n int64, err error) {
	for _, dir := range dirs {
		err = errors.Join(err, filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() {
				return err
			}
			i, err := d.Info()
			if err == nil {
				n += i.Size()
			}
			return err
		}))
	}
	return n, err
}
