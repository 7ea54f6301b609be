package store

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func someNoise(n int) []byte {
	rnd := rand.NewChaCha8([32]byte{7})
	out := make([]byte, n)
	_, _ = rnd.Read(out)
	return out
}

func TestPartsOfABlobAreThoseOfTheWhole(t *testing.T) {
	everyPlace(t, func(t *testing.T, url string) {
		s := open(t, options(url, identity(t)))
		for name, data := range map[string][]byte{
			"empty": {}, "short": []byte("x"), "packed": bytes.Repeat([]byte("the same again "), 30000), "large": someNoise(1<<20 + 12345),
		} {
			if err := s.Put(t.Context(), name, data); err != nil {
				t.Fatal(err)
			}
			r, err := s.NewReaderAt(t.Context(), name)
			if err != nil {
				t.Fatal(err)
			}
			if r.Size() != int64(len(data)) {
				t.Errorf("%s: its size is %d; want %d", name, r.Size(), len(data))
			}
			rnd := rand.New(rand.NewPCG(1, 1))
			for i := range 200 {
				at := rnd.IntN(len(data) + 1)
				p := make([]byte, 1+rnd.IntN(100_000))
				switch i % 3 {
				case 1: // most reads begin where the last one ended
					at = min(i*5000, len(data))
				case 2: // the end is read first
					p = make([]byte, min(len(data), 12))
					at = len(data) - len(p)
				}
				want := data[at:min(len(data), at+len(p))]
				n, err := r.ReadAt(p, int64(at))
				if !bytes.Equal(p[:n], want) || err != nil && err != io.EOF || n < len(p) && err != io.EOF {
					t.Fatalf("%s: %d bytes at %d: got %d, %v; want %d", name, len(p), at, n, err, len(want))
				}
			}
			if _, err := r.ReadAt(make([]byte, 1), r.Size()+1); err == nil {
				t.Errorf("%s: read behind its end", name)
			}
			if err := r.Close(); err != nil {
				t.Error(err)
			}
		}
		if _, err := s.NewReaderAt(t.Context(), "nowhere"); !errors.Is(err, ErrNotFound) {
			t.Errorf("what is not there: %v; want ErrNotFound", err)
		}
	})
}

func TestPartsOfATornBlobAreFoundOut(t *testing.T) {
	url := fileURL(t)
	root := strings.TrimPrefix(url, "file://")
	s := open(t, options(url, identity(t)))
	data := someNoise(300 << 10)
	if err := s.Put(t.Context(), "blob", data); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(filepath.Join(root, "blob"))
	if err != nil {
		t.Fatal(err)
	}
	read := func(name string, content []byte) ([]byte, error) {
		if err := os.WriteFile(filepath.Join(root, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
		r, err := s.NewReaderAt(t.Context(), name)
		if err != nil {
			return nil, err
		}
		defer r.Close()
		p := make([]byte, 1000)
		_, err = r.ReadAt(p, 100<<10)
		return p, err
	}
	for _, n := range []int{0, 1, 20, len(whole) / 2, len(whole) - 1} {
		if _, err := read("blob", whole[:n]); !errors.Is(err, ErrTorn) || errors.Is(err, io.EOF) {
			t.Errorf("cut to %d of %d: %v; want ErrTorn", n, len(whole), err)
		}
	}
	if _, err := read("moved", whole); !errors.Is(err, ErrTorn) {
		t.Errorf("under another name: %v; want ErrTorn", err)
	}
	flipped := bytes.Clone(whole)
	flipped[100<<10+500] ^= 1
	if _, err := read("blob", flipped); !errors.Is(err, ErrTorn) {
		t.Errorf("with a flipped bit where it is read: %v; want ErrTorn", err)
	}
	flipped[100<<10+500] ^= 1
	flipped[len(whole)/2+50_000] ^= 1
	if got, err := read("blob", flipped); err != nil || !bytes.Equal(got, data[100<<10:][:1000]) {
		t.Errorf("with a flipped bit elsewhere: %v; want the part that is whole", err)
	}
}
