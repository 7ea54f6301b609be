package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"filippo.io/age"
	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if url := os.Getenv("STORE_TEST_WRITE"); url != "" {
		writeForEver(url, os.Getenv("STORE_TEST_IDENTITY"))
	}
	if url := os.Getenv("STORE_TEST_REKEY"); url != "" {
		rekeyForEver(url, os.Getenv("STORE_TEST_IDENTITY"))
	}
	goleak.VerifyTestMain(m,
		// The AWS SDK keeps idle connections of its own HTTP client.
		goleak.IgnoreTopFunction("internal/poll.runtime_pollWait"),
		goleak.IgnoreTopFunction("net/http.(*persistConn).writeLoop"))
}

func identity(t *testing.T) *age.X25519Identity {
	t.Helper()
	id, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func options(url string, id *age.X25519Identity) Options {
	return Options{URL: url, Recipients: []age.Recipient{id.Recipient()}, Identities: []age.Identity{id}}
}

func open(t *testing.T, opts Options) *Store {
	t.Helper()
	s, err := Open(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// fileURL returns the URL of a file store in a folder that does not exist yet.
func fileURL(t *testing.T) string {
	return "file://" + filepath.Join(t.TempDir(), "a", "store")
}

// s3URL returns the URL of a bucket on an S3 server on loopback.
func s3URL(t *testing.T) string {
	t.Helper()
	t.Setenv("AWS_ACCESS_KEY_ID", "test")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "test")
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	backend := s3mem.New()
	if err := backend.CreateBucket("ours"); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(gofakes3.New(backend).Server())
	t.Cleanup(server.Close)
	return "s3://ours?region=us-east-1&use_path_style=true&disable_https=true&endpoint=" + server.URL
}

// everyPlace runs a test against each driver of a store.
func everyPlace(t *testing.T, test func(t *testing.T, url string)) {
	t.Run("file", func(t *testing.T) { test(t, fileURL(t)) })
	t.Run("s3", func(t *testing.T) { test(t, s3URL(t)) })
	t.Run("mem", func(t *testing.T) { test(t, "mem://") })
}

func TestBlobsComeBackAsTheyWere(t *testing.T) {
	everyPlace(t, func(t *testing.T, url string) {
		s := open(t, options(url, identity(t)))
		noise := make([]byte, 300<<10)
		rnd := rand.NewChaCha8([32]byte{1})
		_, _ = rnd.Read(noise)
		for name, data := range map[string][]byte{
			"empty": {}, "short": []byte("x"), "text": bytes.Repeat([]byte("the same again "), 30000), "noise": noise,
		} {
			key := "some/" + name
			if err := s.Put(t.Context(), key, data); err != nil {
				t.Fatal(err)
			}
			got, err := s.Get(t.Context(), key)
			if err != nil || !bytes.Equal(got, data) {
				t.Errorf("%s: got %d bytes, %v; want %d", name, len(got), err, len(data))
			}
		}
		text, err := s.Stat(t.Context(), "some/text")
		if err != nil || text.Size > 20000 {
			t.Errorf("450 kB of the same text take %d bytes, %v; want them packed", text.Size, err)
		}
	})
}

func TestPutReplacesAndDeleteIsRepeatable(t *testing.T) {
	everyPlace(t, func(t *testing.T, url string) {
		s := open(t, options(url, identity(t)))
		for _, data := range []string{"one", "two"} {
			if err := s.Put(t.Context(), "k", []byte(data)); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := s.Get(t.Context(), "k"); err != nil || string(got) != "two" {
			t.Errorf("got %q, %v; want two", got, err)
		}
		for range 2 {
			if err := s.Delete(t.Context(), "k"); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := s.Get(t.Context(), "k"); !errors.Is(err, ErrNotFound) {
			t.Errorf("get after delete: %v; want ErrNotFound", err)
		}
		if there, err := s.Exists(t.Context(), "k"); there || err != nil {
			t.Errorf("exists after delete: %v, %v", there, err)
		}
	})
}

func TestCreateHasOneWinner(t *testing.T) {
	everyPlace(t, func(t *testing.T, url string) {
		s := open(t, options(url, identity(t)))
		const racers = 8
		errs := make([]error, racers)
		var wg sync.WaitGroup
		for i := range racers {
			wg.Go(func() { errs[i] = s.Create(t.Context(), "only/once", fmt.Appendf(nil, "racer %d", i)) })
		}
		wg.Wait()
		winner := -1
		for i, err := range errs {
			switch {
			case err == nil && winner < 0:
				winner = i
			case err == nil:
				t.Errorf("racers %d and %d both won", winner, i)
			case !errors.Is(err, ErrExists):
				t.Errorf("racer %d: %v; want ErrExists", i, err)
			}
		}
		got, err := s.Get(t.Context(), "only/once")
		if want := fmt.Sprintf("racer %d", winner); err != nil || string(got) != want {
			t.Errorf("stored %q, %v; want %q", got, err, want)
		}
	})
}

func TestListIsSortedAndWhole(t *testing.T) {
	everyPlace(t, func(t *testing.T, url string) {
		s := open(t, options(url, identity(t)))
		keys := []string{"a/b/2", "a/b-1", "a/b/1", "a/c", "z"}
		for _, key := range keys {
			if err := s.Put(t.Context(), key, []byte("x")); err != nil {
				t.Fatal(err)
			}
		}
		for prefix, want := range map[string][]string{
			"":     {"a/b-1", "a/b/1", "a/b/2", "a/c", "z"},
			"a/b":  {"a/b-1", "a/b/1", "a/b/2"},
			"a/b/": {"a/b/1", "a/b/2"},
			"q/":   nil,
		} {
			found, err := s.List(t.Context(), prefix)
			var got []string
			for _, info := range found {
				got = append(got, info.Key)
			}
			if err != nil || !slices.Equal(got, want) {
				t.Errorf("list %q: %v, %v; want %v", prefix, got, err, want)
			}
		}
	})
}

func TestBadKeysAreRefused(t *testing.T) {
	s := open(t, options(fileURL(t), identity(t)))
	for _, key := range []string{
		"", "/", "a/", "/a", "a//b", "..", "../a", "a/../b", ".tmp/x", "A", "a b", "a\x00b", "ä", "a\\b", "-a",
		metaKey, strings.Repeat("a", 201), strings.Repeat("a/", 300) + "a",
	} {
		if err := s.Put(t.Context(), key, nil); !errors.Is(err, ErrBadKey) {
			t.Errorf("put %q: %v; want ErrBadKey", key, err)
		}
		if _, err := s.Get(t.Context(), key); !errors.Is(err, ErrBadKey) {
			t.Errorf("get %q: %v; want ErrBadKey", key, err)
		}
	}
	if _, err := s.List(t.Context(), "../"); !errors.Is(err, ErrBadKey) {
		t.Errorf("list ../: %v; want ErrBadKey", err)
	}
}

func TestWrongKeyIsAnErrorAtOpen(t *testing.T) {
	everyPlace(t, func(t *testing.T, url string) {
		if url == "mem://" {
			return // each call of Open makes another store
		}
		open(t, options(url, identity(t)))
		if _, err := Open(t.Context(), options(url, identity(t))); !errors.Is(err, ErrWrongKey) {
			t.Errorf("open with another identity: %v; want ErrWrongKey", err)
		}
	})
}

func TestWrongKeyIsAnErrorAtRead(t *testing.T) {
	url, first, second := fileURL(t), identity(t), identity(t)
	both := options(url, first)
	both.Recipients = append(both.Recipients, second.Recipient())
	open(t, both) // the store itself is encrypted for both
	onlyFirst := open(t, options(url, first))
	if err := onlyFirst.Put(t.Context(), "k", []byte("for the first")); err != nil {
		t.Fatal(err)
	}
	if _, err := open(t, options(url, second)).Get(t.Context(), "k"); !errors.Is(err, ErrWrongKey) {
		t.Errorf("got %v; want ErrWrongKey", err)
	}
}

func TestIdentityOutsideTheRecipientsIsRefused(t *testing.T) {
	opts := options(fileURL(t), identity(t))
	opts.Identities = []age.Identity{identity(t)}
	if _, err := Open(t.Context(), opts); err == nil || !strings.Contains(err.Error(), "could not read what it writes") {
		t.Errorf("got %v", err)
	}
}

func TestWriterWithoutIdentityCannotRead(t *testing.T) {
	url, id := fileURL(t), identity(t)
	reader := open(t, options(url, id))
	writer := open(t, Options{URL: url, Recipients: []age.Recipient{id.Recipient()}})
	if writer.ID() != reader.ID() {
		t.Errorf("ids differ: %s, %s", writer.ID(), reader.ID())
	}
	if err := writer.Create(t.Context(), "k", []byte("hello")); err != nil {
		t.Fatal(err)
	}
	if _, err := writer.Get(t.Context(), "k"); !errors.Is(err, ErrNoIdentity) {
		t.Errorf("get: %v; want ErrNoIdentity", err)
	}
	if _, err := writer.PutContent(t.Context(), "c", []byte("x")); !errors.Is(err, ErrNoIdentity) {
		t.Errorf("put content: %v; want ErrNoIdentity", err)
	}
	if got, err := reader.Get(t.Context(), "k"); err != nil || string(got) != "hello" {
		t.Errorf("reader got %q, %v", got, err)
	}
}

func TestOpenersOfANewStoreAgreeOnItsID(t *testing.T) {
	for name, url := range map[string]string{"file": fileURL(t), "s3": s3URL(t)} {
		t.Run(name, func(t *testing.T) {
			id := identity(t)
			ids := make([]string, 6)
			var wg sync.WaitGroup
			for i := range ids {
				wg.Go(func() {
					s, err := Open(t.Context(), options(url, id))
					if err != nil {
						t.Error(err)
						return
					}
					ids[i] = s.ID()
					if err := s.Close(); err != nil {
						t.Error(err)
					}
				})
			}
			wg.Wait()
			if slices.Sort(ids); len(ids[0]) != 32 || ids[0] != ids[len(ids)-1] {
				t.Errorf("ids: %v", ids)
			}
		})
	}
}

func TestAnotherStoreThanExpectedIsRefused(t *testing.T) {
	url, id := fileURL(t), identity(t)
	opts := options(url, id)
	opts.ID = strings.Repeat("0", 32)
	if _, err := Open(t.Context(), opts); !errors.Is(err, ErrOtherStore) {
		t.Errorf("no store there: %v; want ErrOtherStore", err)
	}
	if _, err := os.Stat(strings.TrimPrefix(url, "file://")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a store was made all the same: %v", err)
	}
	open(t, options(url, id))
	if _, err := Open(t.Context(), opts); !errors.Is(err, ErrOtherStore) {
		t.Errorf("store of another id: %v; want ErrOtherStore", err)
	}
}

func TestContentIsStoredOnceUnderANameThatTellsNothing(t *testing.T) {
	id := identity(t)
	s, other := open(t, options(fileURL(t), id)), open(t, options(fileURL(t), id))
	var keys []string
	for range 2 {
		key, err := s.PutContent(t.Context(), "diffs/s1", []byte("yes"))
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, key)
	}
	elsewhere, err := other.PutContent(t.Context(), "diffs/s1", []byte("yes"))
	if err != nil {
		t.Fatal(err)
	}
	if keys[0] != keys[1] || keys[0] == elsewhere {
		t.Errorf("names %v in one store, %s in another: want the same and then another", keys, elsewhere)
	}
	if got, err := s.Get(t.Context(), keys[0]); err != nil || string(got) != "yes" {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestTornAndSwappedBlobsAreFoundOut(t *testing.T) {
	url := fileURL(t)
	root := strings.TrimPrefix(url, "file://")
	s := open(t, options(url, identity(t)))
	text := bytes.Repeat([]byte("line after line, "), 20000)
	rnd := rand.NewChaCha8([32]byte{2})
	noise := make([]byte, 200<<10)
	_, _ = rnd.Read(noise)
	for name, data := range map[string][]byte{"text": text, "noise": noise, "short": []byte("hi"), "empty": {}} {
		if err := s.Put(t.Context(), name, data); err != nil {
			t.Fatal(err)
		}
		whole, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range []int{0, 1, 20, len(whole) / 2, len(whole) - 1} {
			if err := os.WriteFile(filepath.Join(root, name), whole[:n], 0o600); err != nil {
				t.Fatal(err)
			}
			if got, err := s.Get(t.Context(), name); !errors.Is(err, ErrTorn) || errors.Is(err, io.EOF) {
				t.Errorf("%s cut to %d of %d: got %d bytes, %v; want ErrTorn", name, n, len(whole), len(got), err)
			}
		}
		flipped := bytes.Clone(whole)
		flipped[len(flipped)-3] ^= 1
		if err := os.WriteFile(filepath.Join(root, name), flipped, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Get(t.Context(), name); !errors.Is(err, ErrTorn) {
			t.Errorf("%s with a flipped bit: %v; want ErrTorn", name, err)
		}
		if err := os.WriteFile(filepath.Join(root, "moved"), whole, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Get(t.Context(), "moved"); !errors.Is(err, ErrTorn) {
			t.Errorf("%s under another name: %v; want ErrTorn", name, err)
		}
	}
}

func TestStoreThatWentAwayIsNotEmpty(t *testing.T) {
	url := fileURL(t)
	root := strings.TrimPrefix(url, "file://")
	s := open(t, options(url, identity(t)))
	if err := s.Put(t.Context(), "k", []byte("x")); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(root, root+".away"); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(root, 0o700); err != nil { // like a mount point whose disk is not mounted
		t.Fatal(err)
	}
	_, err := s.Get(t.Context(), "k")
	checks := map[string]error{"get": err, "put": s.Put(t.Context(), "k", nil), "create": s.Create(t.Context(), "n", nil),
		"delete": s.Delete(t.Context(), "k")}
	_, checks["list"] = s.List(t.Context(), "k")
	_, checks["exists"] = s.Exists(t.Context(), "k")
	for what, err := range checks {
		if !errors.Is(err, ErrUnreachable) {
			t.Errorf("%s: %v; want ErrUnreachable", what, err)
		}
	}
	if entries, err := os.ReadDir(root); err != nil || len(entries) != 0 {
		t.Errorf("something was written where the store was: %v, %v", entries, err)
	}
}

func TestS3ServerThatIsDownIsUnreachable(t *testing.T) {
	t.Setenv("AWS_MAX_ATTEMPTS", "1")
	url := s3URL(t)
	s := open(t, options(url, identity(t)))
	down := options("s3://ours?region=us-east-1&use_path_style=true&disable_https=true&endpoint=http://127.0.0.1:1", identity(t))
	if _, err := Open(t.Context(), down); !errors.Is(err, ErrUnreachable) {
		t.Errorf("open: %v; want ErrUnreachable", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Get(ctx, "k"); !errors.Is(err, context.Canceled) {
		t.Errorf("get with an ended context: %v; want context.Canceled", err)
	}
}

func TestFilesAreOursAlone(t *testing.T) {
	url := fileURL(t)
	root := strings.TrimPrefix(url, "file://")
	s := open(t, options(url, identity(t)))
	if err := s.Put(t.Context(), "a/b/c", []byte("x")); err != nil {
		t.Fatal(err)
	}
	err := filepath.WalkDir(filepath.Dir(root), func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %v", path, info.Mode())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestNothingReadableIsInTheStore(t *testing.T) {
	url := fileURL(t)
	root := strings.TrimPrefix(url, "file://")
	s := open(t, options(url, identity(t)))
	const marked = "marked-secret-7f1c"
	if err := s.Put(t.Context(), "plain", []byte(marked)); err != nil {
		t.Fatal(err)
	}
	if err := s.Put(t.Context(), "packed", bytes.Repeat([]byte(marked), 1000)); err != nil {
		t.Fatal(err)
	}
	if _, err := s.PutContent(t.Context(), "content", []byte(marked)); err != nil {
		t.Fatal(err)
	}
	files := 0
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		files++
		data, err := os.ReadFile(path)
		if bytes.Contains(data, []byte(marked)) {
			t.Errorf("%s can be read", path)
		}
		return err
	})
	if err != nil || files != 5 { // one of them is the lock
		t.Fatalf("looked at %d files, %v; want 5", files, err)
	}
}

func TestStreamIsInvisibleBeforeItsEnd(t *testing.T) {
	everyPlace(t, func(t *testing.T, url string) {
		s := open(t, options(url, identity(t)))
		block := bytes.Repeat([]byte("0123456789abcdef"), 64<<10/16)
		begin := func(ctx context.Context) *Writer {
			w, err := s.NewWriter(ctx, "big")
			if err != nil {
				t.Fatal(err)
			}
			for range 100 {
				if _, err := w.Write(block); err != nil {
					t.Fatal(err)
				}
			}
			return w
		}
		absent := func(when string) {
			if there, err := s.Exists(t.Context(), "big"); there || err != nil {
				t.Errorf("%s: there is %v, %v", when, there, err)
			}
		}
		w := begin(t.Context())
		absent("before the end")
		w.Abort()
		absent("after abort")

		ctx, cancel := context.WithCancel(t.Context())
		w = begin(ctx)
		cancel()
		if err := w.Close(); !errors.Is(err, context.Canceled) {
			t.Errorf("close after the context ended: %v", err)
		}
		absent("after the context ended")

		w = begin(t.Context())
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		info, err := s.Stat(t.Context(), "big")
		if err != nil || info.Size != w.Stored() || info.Size == 0 {
			t.Errorf("stored %d, said %d, %v", info.Size, w.Stored(), err)
		}
		r, err := s.NewReader(t.Context(), "big")
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(r)
		if err != nil || !bytes.Equal(got, bytes.Repeat(block, 100)) {
			t.Errorf("read %d bytes, %v", len(got), err)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
}

// writeForEver runs in a separate process, which a test kills while it writes.
func writeForEver(url, secret string) {
	id, err := age.ParseX25519Identity(secret)
	if err != nil {
		panic(err)
	}
	s, err := Open(context.Background(), Options{URL: url, Recipients: []age.Recipient{id.Recipient()}, Identities: []age.Identity{id}})
	if err != nil {
		panic(err)
	}
	w, err := s.NewWriter(context.Background(), "half")
	if err != nil {
		panic(err)
	}
	rnd := rand.NewChaCha8([32]byte{3})
	block := make([]byte, 1<<20)
	for i := 0; ; i++ {
		_, _ = rnd.Read(block)
		if _, err := w.Write(block); err != nil {
			panic(err)
		}
		if i == 3 {
			fmt.Println("writing")
			// An empty select would end the process: the runtime takes it for a deadlock.
			_, _ = io.Copy(io.Discard, os.Stdin)
		}
	}
}

func TestKilledWriterLeavesNothingVisible(t *testing.T) {
	url, id := fileURL(t), identity(t)
	root := strings.TrimPrefix(url, "file://")
	s := open(t, options(url, id))
	cmd := exec.Command(os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), "STORE_TEST_WRITE="+url, "STORE_TEST_IDENTITY="+id.String())
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := cmd.StdinPipe(); err != nil { // open until the process is killed
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(out, make([]byte, len("writing"))); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if found, err := s.List(t.Context(), ""); err != nil || len(found) != 0 {
		t.Errorf("visible after the kill: %v, %v", found, err)
	}
	temps, err := os.ReadDir(filepath.Join(root, tempDir))
	temps = slices.DeleteFunc(temps, func(e fs.DirEntry) bool { return e.Name() == lockName })
	if err != nil || len(temps) != 1 {
		t.Fatalf("left in %s: %v, %v; want the one file", tempDir, temps, err)
	}
	old := filepath.Join(root, tempDir, temps[0].Name())
	past := time.Now().Add(-2 * tempAge)
	if err := os.Chtimes(old, past, past); err != nil {
		t.Fatal(err)
	}
	open(t, options(url, id))
	if _, err := os.Stat(old); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a day later it is still there: %v", err)
	}
}
