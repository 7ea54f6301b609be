package store

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"filippo.io/age"
)

// realPlaces runs a test against each driver that can replace a version.
func realPlaces(t *testing.T, test func(t *testing.T, url string)) {
	t.Run("file", func(t *testing.T) { test(t, fileURL(t)) })
	t.Run("s3", func(t *testing.T) { test(t, s3URL(t)) })
}

// between returns the options of a store that is being moved from one identity to another.
func between(url string, old, fresh *age.X25519Identity) Options {
	return Options{URL: url, Recipients: []age.Recipient{fresh.Recipient()}, Identities: []age.Identity{old, fresh}}
}

// rekeyAll rekeys all blobs, as a rotation does, and counts the results.
func rekeyAll(t *testing.T, s *Store) map[Rekeyed]int {
	t.Helper()
	found, err := s.List(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	did := map[Rekeyed]int{}
	for _, key := range append(keysOf(found), OwnKey) {
		done, err := s.Rekey(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		did[done]++
	}
	return did
}

func keysOf(found []Info) (keys []string) {
	for _, info := range found {
		keys = append(keys, info.Key)
	}
	return keys
}

func TestRekeyedBlobsAreForTheNewRecipientsAlone(t *testing.T) {
	realPlaces(t, func(t *testing.T, url string) {
		old, fresh, backup := identity(t), identity(t), identity(t)
		s := open(t, options(url, old))
		noise := make([]byte, 12<<20) // several parts, on S3
		_, _ = rand.NewChaCha8([32]byte{4}).Read(noise)
		want := map[string][]byte{
			"seeds/team/0001": []byte("small"), "a/empty": {}, "a/text": bytes.Repeat([]byte("the same again "), 30000), "a/noise": noise,
		}
		for key, data := range want {
			if err := s.Put(t.Context(), key, data); err != nil {
				t.Fatal(err)
			}
		}
		named, err := s.PutContent(t.Context(), "content", []byte("named"))
		if err != nil {
			t.Fatal(err)
		}
		want[named] = []byte("named")

		opts := between(url, old, fresh)
		opts.Recipients = append(opts.Recipients, backup.Recipient())
		mid := open(t, opts)
		for key, data := range want {
			if current, err := mid.Current(t.Context(), key); current || err != nil {
				t.Errorf("%s before: current %v, %v", key, current, err)
			}
			if got, err := mid.Get(t.Context(), key); err != nil || !bytes.Equal(got, data) {
				t.Errorf("%s before: %d bytes, %v", key, len(got), err)
			}
		}
		if did := rekeyAll(t, mid); did[Renewed] != len(want)+1 {
			t.Errorf("first time: %v; want %d renewed", did, len(want)+1)
		}
		if did := rekeyAll(t, mid); did[Kept] != len(want)+1 {
			t.Errorf("second time: %v; want %d kept", did, len(want)+1)
		}
		if former := mid.Former(); !slices.Equal(former, []string{old.Recipient().String()}) {
			t.Errorf("no longer needed: %v", former)
		}
		for who, id := range map[string]*age.X25519Identity{"new": fresh, "backup": backup} {
			alone := open(t, options(url, id))
			for key, data := range want {
				if got, err := alone.Get(t.Context(), key); err != nil || !bytes.Equal(got, data) {
					t.Errorf("%s alone reads %d bytes of %s, %v; want %d", who, len(got), key, err, len(data))
				}
			}
			if name, err := alone.Name([]byte("named")); err != nil || !strings.HasSuffix(named, name) {
				t.Errorf("%s alone names content %s, %v; want %s", who, name, err, named)
			}
		}
		for key := range want {
			if current, err := mid.Current(t.Context(), key); !current || err != nil {
				t.Errorf("%s after: current %v, %v", key, current, err)
			}
			if _, err := s.Get(t.Context(), key); !errors.Is(err, ErrWrongKey) {
				t.Errorf("the old identity reads %s: %v; want ErrWrongKey", key, err)
			}
			if _, err := s.Current(t.Context(), key); !errors.Is(err, ErrWrongKey) {
				t.Errorf("the old identity looks at %s: %v; want ErrWrongKey", key, err)
			}
			if _, err := s.Rekey(t.Context(), key); !errors.Is(err, ErrWrongKey) {
				t.Errorf("the old identity rekeys %s: %v; want ErrWrongKey", key, err)
			}
		}
		if _, err := Open(t.Context(), options(url, old)); !errors.Is(err, ErrWrongKey) {
			t.Errorf("the old identity opens the store: %v; want ErrWrongKey", err)
		}
	})
}

// A recipient whose identity this process does not have can be removed and added.
func TestARecipientWithoutItsIdentityIsNoticed(t *testing.T) {
	url, id, gone := fileURL(t), identity(t), identity(t)
	both := options(url, id)
	both.Recipients = append(both.Recipients, gone.Recipient())
	s := open(t, both)
	if err := s.Put(t.Context(), "k", []byte("x")); err != nil {
		t.Fatal(err)
	}
	alone := open(t, options(url, id))
	if current, err := alone.Current(t.Context(), "k"); current || err != nil {
		t.Errorf("also for one that is no recipient any more: current %v, %v", current, err)
	}
	if did := rekeyAll(t, alone); did[Renewed] != 2 {
		t.Errorf("rekeyed %v", did)
	}
	if _, err := open(t, Options{URL: url, Recipients: both.Recipients[:1], Identities: both.Identities}).Get(t.Context(), "k"); err != nil {
		t.Error(err)
	}
}

// pausing is a place that calls a function before a blob becomes visible.
type pausing struct {
	place
	before func()
}

func (p pausing) write(ctx context.Context, key string, exclusive bool) (pending, error) {
	o, err := p.place.write(ctx, key, exclusive)
	return pausingPending{o, p.before}, err
}

func (p pausing) replace(ctx context.Context, key string, was version) (pending, error) {
	o, err := p.place.replace(ctx, key, was)
	return pausingPending{o, p.before}, err
}

type pausingPending struct {
	pending
	before func()
}

func (p pausingPending) commit() error { p.before(); return p.pending.commit() }

func TestWhatOthersDoToABlobThatIsRekeyedWins(t *testing.T) {
	realPlaces(t, func(t *testing.T, url string) {
		old, fresh := identity(t), identity(t)
		before, mid := open(t, options(url, old)), open(t, between(url, old, fresh))
		for name, size := range map[string]int{"small": 10, "large": 12 << 20} {
			if name == "large" && strings.HasPrefix(url, "s3") {
				continue // gofakes3 does not support conditions on multipart uploads; S3 does
			}
			data := make([]byte, size)
			_, _ = rand.NewChaCha8([32]byte{5}).Read(data)
			reset := func() {
				t.Helper()
				if err := before.Put(t.Context(), "k", data); err != nil {
					t.Fatal(err)
				}
			}
			once := func(do func() error) *Store {
				var first sync.Once
				s := &Store{url: mid.url, id: mid.id, nameKey: mid.nameKey}
				s.now.Store(mid.keys())
				s.place = pausing{mid.place, func() {
					first.Do(func() {
						if err := do(); err != nil {
							t.Error(err)
						}
					})
				}}
				return s
			}
			reset()
			done, err := once(func() error { return before.Delete(t.Context(), "k") }).Rekey(t.Context(), "k")
			if there, _ := mid.Exists(t.Context(), "k"); there || done != Gone || err != nil {
				t.Errorf("%s, deleted in between: %s, %v; is there %v", name, done, err, there)
			}
			for who, writer := range map[string]*Store{"old": before, "new": mid} {
				reset()
				_, err = once(func() error { return writer.Put(t.Context(), "k", []byte("newer")) }).Rekey(t.Context(), "k")
				got, gerr := mid.Get(t.Context(), "k")
				current, cerr := mid.Current(t.Context(), "k")
				if err != nil || gerr != nil || string(got) != "newer" || !current || cerr != nil {
					t.Errorf("%s, written by the %s in between: %v; holds %.20q, %v; current %v, %v", name, who, err, got, gerr, current, cerr)
				}
			}
			reset()
			_, err = once(func() error {
				if err := before.Delete(t.Context(), "k"); err != nil {
					return err
				}
				return before.Create(t.Context(), "k", []byte("again"))
			}).Rekey(t.Context(), "k")
			if got, gerr := open(t, options(url, old)).Get(t.Context(), "k"); err != nil || !errors.Is(gerr, ErrWrongKey) {
				t.Errorf("%s, created again in between: %v; the old identity reads %.20q, %v", name, err, got, gerr)
			}
			if got, err := mid.Get(t.Context(), "k"); err != nil || string(got) != "again" {
				t.Errorf("%s, created again in between: holds %.20q, %v", name, got, err)
			}
		}
	})
}

// A purged blob must not come back, whether the deletion or Rekey is faster.
func TestAPurgedBlobNeverComesBack(t *testing.T) {
	realPlaces(t, func(t *testing.T, url string) {
		old, fresh := identity(t), identity(t)
		before, mid := open(t, options(url, old)), open(t, between(url, old, fresh))
		outcomes := map[Rekeyed]int{}
		for i := range 150 {
			key := fmt.Sprintf("seeds/team/%04d", i)
			if err := before.Put(t.Context(), key, []byte("secret")); err != nil {
				t.Fatal(err)
			}
			var wg sync.WaitGroup
			results := make([]Rekeyed, 2)
			for n := range results {
				wg.Go(func() {
					var err error
					if results[n], err = mid.Rekey(t.Context(), key); err != nil {
						t.Error(err)
					}
				})
			}
			wg.Go(func() {
				if err := before.Delete(t.Context(), key); err != nil {
					t.Error(err)
				}
			})
			wg.Wait()
			if there, err := mid.Exists(t.Context(), key); there || err != nil {
				t.Fatalf("%s is there again (%v, %v)", key, results, err)
			}
			for _, r := range results {
				outcomes[r]++
			}
		}
		t.Logf("%v", outcomes)
	})
}

func TestAServerThatIgnoresConditionsIsRefused(t *testing.T) {
	url := deafTo(t, "If-Match")
	old, fresh := identity(t), identity(t)
	s := open(t, options(url, old))
	if err := s.Put(t.Context(), "k", []byte("x")); err != nil {
		t.Fatal(err)
	}
	mid := open(t, between(url, old, fresh))
	if done, err := mid.Rekey(t.Context(), "k"); err == nil || !strings.Contains(err.Error(), "If-Match") {
		t.Errorf("rekeyed: %s, %v", done, err)
	}
	if got, err := s.Get(t.Context(), "k"); err != nil || string(got) != "x" {
		t.Errorf("the blob is %q, %v", got, err)
	}
}

func TestATornBlobIsNotRekeyed(t *testing.T) {
	url := fileURL(t)
	path := filepath.Join(strings.TrimPrefix(url, "file://"), "k")
	old, fresh := identity(t), identity(t)
	s := open(t, options(url, old))
	data := make([]byte, 200<<10)
	_, _ = rand.NewChaCha8([32]byte{6}).Read(data)
	if err := s.Put(t.Context(), "k", data); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	mid := open(t, between(url, old, fresh))
	for _, n := range []int{0, 100, 64 << 10, len(whole) - 1} {
		if err := os.WriteFile(path, whole[:n], 0o600); err != nil {
			t.Fatal(err)
		}
		if done, err := mid.Rekey(t.Context(), "k"); !errors.Is(err, ErrTorn) {
			t.Errorf("cut to %d: %s, %v; want ErrTorn", n, done, err)
		}
		if now, err := os.ReadFile(path); err != nil || !bytes.Equal(now, whole[:n]) {
			t.Errorf("cut to %d: it was changed to %d bytes, %v", n, len(now), err)
		}
	}
}

// The format before this one did not record the recipients of a blob.
func TestBlobsOfTheFormerFormatAreReadAndRenewed(t *testing.T) {
	url, id := fileURL(t), identity(t)
	s := open(t, options(url, id))
	var b bytes.Buffer
	w, err := age.Encrypt(&b, id.Recipient())
	if err != nil {
		t.Fatal(err)
	}
	begin := append(binary.BigEndian.AppendUint16([]byte{1, packPlain}, 1), 'k')
	if _, err := w.Write(append(begin, "content"...)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(strings.TrimPrefix(url, "file://"), "k"), b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, want := range []Rekeyed{Renewed, Kept} {
		if got, err := s.Get(t.Context(), "k"); err != nil || string(got) != "content" {
			t.Errorf("read %q, %v", got, err)
		}
		if done, err := s.Rekey(t.Context(), "k"); err != nil || done != want {
			t.Errorf("rekeyed: %s, %v; want %s", done, err, want)
		}
	}
}

// rekeyForEver runs in a separate process, which a test kills.
func rekeyForEver(url, secrets string) {
	var ids []age.Identity
	for _, secret := range strings.Fields(secrets) {
		id, err := age.ParseX25519Identity(secret)
		if err != nil {
			panic(err)
		}
		ids = append(ids, id)
	}
	for i := 0; ; i++ {
		to := ids[i%2].(*age.X25519Identity).Recipient()
		s, err := Open(context.Background(), Options{URL: url, Recipients: []age.Recipient{to}, Identities: ids})
		if err != nil {
			panic(err)
		}
		found, err := s.List(context.Background(), "")
		if err != nil {
			panic(err)
		}
		for _, key := range append(keysOf(found), OwnKey) {
			if _, err := s.Rekey(context.Background(), key); err != nil {
				panic(err)
			}
			fmt.Println(key)
		}
	}
}

func TestAKilledRotationLeavesEveryBlobWholeAndCanBeRunAgain(t *testing.T) {
	url, old, fresh := fileURL(t), identity(t), identity(t)
	s := open(t, options(url, old))
	want := map[string][]byte{}
	for i := range 12 {
		data := make([]byte, 100<<10)
		_, _ = rand.NewChaCha8([32]byte{7, byte(i)}).Read(data)
		key := fmt.Sprintf("k%d", i)
		if err := s.Put(t.Context(), key, data); err != nil {
			t.Fatal(err)
		}
		want[key] = data
	}
	for round := range 6 {
		cmd := exec.Command(os.Args[0], "-test.run=^$")
		cmd.Env = append(os.Environ(), "STORE_TEST_REKEY="+url, "STORE_TEST_IDENTITY="+old.String()+" "+fresh.String())
		cmd.Stderr = os.Stderr
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		// The process is killed as soon as the test has read this many lines, so at any
		// point of its further work.
		if _, err := out.Read(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		for read := 0; read < 20*(round+1); {
			n, err := out.Read(make([]byte, 64))
			if err != nil {
				t.Fatal(err)
			}
			read += n
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait()
		mid := open(t, between(url, old, fresh))
		for key, data := range want {
			if got, err := mid.Get(t.Context(), key); err != nil || !bytes.Equal(got, data) {
				t.Fatalf("round %d: %s holds %d bytes, %v", round, key, len(got), err)
			}
		}
	}
	mid := open(t, between(url, old, fresh))
	rekeyAll(t, mid)
	if did := rekeyAll(t, mid); did[Kept] != len(want)+1 {
		t.Errorf("run again: %v", did)
	}
	alone := open(t, options(url, fresh))
	for key, data := range want {
		if got, err := alone.Get(t.Context(), key); err != nil || !bytes.Equal(got, data) {
			t.Errorf("%s holds %d bytes, %v", key, len(got), err)
		}
	}
}
