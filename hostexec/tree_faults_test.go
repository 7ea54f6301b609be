package hostexec_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/hostexec/hosttest"
	"fairlead.dev/fairlead/hostexec/tree"
)

func plant(t *testing.T, h hostexec.Host, script string, args ...string) {
	t.Helper()
	if _, err := h.Run(t.Context(), hostexec.Command{Script: script, Args: args}); err != nil {
		t.Fatal(err)
	}
}

func paths(entries []tree.Entry, is func(tree.Entry) bool) []string {
	var out []string
	for _, e := range entries {
		if is(e) {
			out = append(out, e.Path)
		}
	}
	return out
}

func TestWhatIsPrunedIsNotEntered(t *testing.T) {
	dir := t.TempDir()
	plant(t, localHost(t), `cd "$1" && mkdir -p node_modules/x sub/node_modules/y build sub/build 'a[b]*' ab .git && : >node_modules/x/f && : >sub/node_modules/y/f &&
		: >build/f && : >sub/build/f && : >'a[b]*/f' && : >ab/f && : >x.tmp && : >sub/y.tmp && : >sub/keep && mkdir z.tmp && : >z.tmp/f`, dir)
	opts := tree.ListOptions{Prune: []string{"node_modules/", "x.tmp", "sub/build", "a[b]*/", ".*", "a[b]*/none", "*.tmp/"}}
	for name, h := range treeHosts(t) {
		entries := list(t, h, dir, opts)
		pruned := paths(entries, func(e tree.Entry) bool { return e.Pruned })
		if want := []string{".git", "ab", "node_modules", "sub/build", "sub/node_modules", "x.tmp", "z.tmp"}; !slices.Equal(pruned, want) {
			t.Errorf("%s: pruned %q, want %q", name, pruned, want)
		}
		other := paths(entries, func(e tree.Entry) bool { return !e.Pruned })
		if want := []string{".", "a[b]*", "a[b]*/f", "build", "build/f", "sub", "sub/keep", "sub/y.tmp"}; !slices.Equal(other, want) {
			t.Errorf("%s: listed %q, want %q", name, other, want)
		}
	}
	for _, bad := range []string{"", "/", "/abs", "../x", "a/../b", "a//b", "x\x00"} {
		_, err := tree.List(t.Context(), localHost(t), dir, tree.ListOptions{Prune: []string{bad}}, func(tree.Entry) error { return nil })
		if err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}

func TestWhatMayNotBeReadIsListedAsSuch(t *testing.T) {
	sshd := newHost(t, hosttest.StartSSHD(t, hosttest.Options{NewUser: true}).Spec())
	tools := busybox(t)
	// The user of the host must be able to reach the tools.
	for d := tools; d != os.TempDir(); d = filepath.Dir(d) {
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, h := range map[string]hostexec.Host{"gnu": sshd, "busybox": &otherShell{sshd, tools}} {
		t.Run(name, func(t *testing.T) {
			home := "/tmp/" + filepath.Base(t.TempDir()) + name + fmt.Sprint(os.Getpid())
			t.Cleanup(func() { os.RemoveAll(home) })
			plant(t, h, `mkdir "$1" && cd "$1" && mkdir -p shut/in blind/in open && echo x >shut/f && echo x >blind/f && echo x >open/f && echo no >open/secret && chmod 000 shut open/secret && chmod 600 blind`, home)
			entries := list(t, h, home, tree.ListOptions{})
			unreadable := paths(entries, func(e tree.Entry) bool { return e.Unreadable })
			if !slices.Equal(unreadable, []string{"blind", "shut"}) {
				t.Errorf("unreadable: %q", unreadable)
			}
			if all := paths(entries, func(e tree.Entry) bool { return e.Kind == tree.RegularFile }); !slices.Equal(all, []string{"open/f", "open/secret"}) {
				t.Errorf("files: %q", all)
			}
			var got, still []string
			err := tree.Read(t.Context(), h, home, slices.Values([]string{"open/f", "open/secret", "open", "gone"}), func(f *tree.File) error {
				data, err := io.ReadAll(f)
				got = append(got, fmt.Sprint(f.Path, f.Missing, string(data)))
				return err
			}, func(e tree.Entry) error {
				still = append(still, e.Path)
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			want := []string{"open/ffalsex\n", "open/secrettrue", "opentrue", "gonetrue"}
			if !slices.Equal(got, want) {
				t.Errorf("got %q, want %q", got, want)
			}
			slices.Sort(still)
			if !slices.Equal(slices.Compact(still), []string{"open", "open/f", "open/secret"}) {
				t.Errorf("still there: %q", still)
			}
			// A caller that asks for a file in such a folder has listed the folder while it
			// was accessible.
			err = tree.Read(t.Context(), h, home, slices.Values([]string{"open/f", "shut/f"}), func(*tree.File) error { return nil }, nil)
			if err == nil || !strings.Contains(err.Error(), "shut/f") || !strings.Contains(err.Error(), "Permission denied") {
				t.Errorf("a folder was shut meanwhile: %v", err)
			}
		})
	}
}

// restless is a script that changes a tree all the time, except for some files.
const restless = `cd "$1" || exit; i=0
while [ -d "$1" ]; do
	i=$((i+1))
	head -c 900000 /dev/zero >grows$((i%7)); : >grows$((i%5)); head -c 3000000 /dev/zero >shrinks; : >shrinks
	: >comes$i; rm -f comes$((i-3)); rm -rf turns; mkdir turns; : >turns/f; rm -rf turns; ln -s / turns; rm -f turns; echo x >turns
done`

func TestFilesThatChangeDoNotFailIt(t *testing.T) {
	for name, h := range treeHosts(t) {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir() + "/tree"
			steady := map[string]string{}
			if err := os.Mkdir(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			for i := range 300 {
				name := fmt.Sprintf("steady%03d", i)
				steady[name] = strings.Repeat(name, i*40)
				if err := os.WriteFile(dir+"/"+name, []byte(steady[name]), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			s, err := localHost(t).Start(t.Context(), hostexec.Command{Script: restless, Args: []string{dir}})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			left := map[string]bool{}
			for n := range steady {
				left[n] = true
			}
			// If a file in a batch shrinks, files of the batch that do not change may be
			// missing. They are read when the test asks for them again.
			for round := 0; round < 5 || len(left) > 0 && round < 200; round++ {
				entries := list(t, h, dir, tree.ListOptions{})
				names := paths(entries, func(e tree.Entry) bool {
					return e.Kind == tree.RegularFile && !strings.HasPrefix(e.Path, "steady")
				})
				for n := range steady {
					if round < 5 || left[n] {
						names = append(names, n)
					}
				}
				slices.Sort(names)
				var told []string
				err := tree.Read(t.Context(), h, dir, slices.Values(names), func(f *tree.File) error {
					told = append(told, f.Path)
					data, err := io.ReadAll(f)
					if want, ok := steady[f.Path]; ok && err == nil && !f.Missing {
						delete(left, f.Path)
						if string(data) != want {
							t.Errorf("%s: %d bytes, not %d", f.Path, len(data), len(want))
						}
					}
					if err != nil && !errors.Is(err, tree.ErrTorn) {
						return err
					}
					return nil
				}, nil)
				if err != nil {
					t.Fatal(err)
				}
				if !slices.Equal(told, names) {
					t.Fatalf("told of %q, not %q", told, names)
				}
			}
			if len(left) > 0 {
				t.Errorf("%d steady files were never read", len(left))
			}
			// The script ends when its folder is gone.
			for os.RemoveAll(dir) != nil {
			}
		})
	}
}

func TestManyNamesAndASlowReaderDoNotBlockEachOther(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(dir+"/big", make([]byte, 3<<20), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dir+"/small", []byte("small"), 0o644); err != nil {
		t.Fatal(err)
	}
	const many = 60_000
	for name, h := range treeHosts(t) {
		files, bytes := 0, int64(0)
		err := tree.Read(t.Context(), h, dir, func(yield func(string) bool) {
			for i := range many {
				name := "no such file, whose name is as long as those that there are in real life"
				if i%5000 == 0 {
					name = "big"
				} else if i%100 == 0 {
					name = "small"
				}
				if !yield(name) {
					return
				}
			}
		}, func(f *tree.File) error {
			files++
			n, err := io.Copy(io.Discard, f)
			bytes += n
			return err
		}, nil)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		// GNU tar takes a repeated name for a hard link.
		if files != many || bytes < 3<<20+5 {
			t.Errorf("%s: %d files of %d bytes", name, files, bytes)
		}
	}
}

func TestAFileOfFiveGigabytesTakesNoMemory(t *testing.T) {
	dir := t.TempDir()
	f, err := os.Create(dir + "/file")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	const size = 5 << 30
	if err := f.Truncate(size); err != nil {
		t.Fatal(err)
	}
	// busybox's tar writes the whole file, with its zeros.
	h := &otherShell{localHost(t), busybox(t)}
	var before, during runtime.MemStats
	runtime.ReadMemStats(&before)
	err = tree.Read(t.Context(), h, dir, slices.Values([]string{"file"}), func(f *tree.File) error {
		n, err := io.CopyBuffer(io.Discard, struct{ io.Reader }{f}, make([]byte, 1<<20))
		runtime.ReadMemStats(&during)
		if n != size {
			t.Errorf("%d bytes", n)
		}
		return err
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if grown := int64(during.Sys) - int64(before.Sys); grown > 32<<20 {
		t.Errorf("it took %d MiB", grown>>20)
	}
}

func TestATreeIsReadUntilItsReaderFails(t *testing.T) {
	dir := t.TempDir()
	for i := range 100 {
		if err := os.WriteFile(fmt.Sprintf("%s/%d", dir, i), make([]byte, 200_000), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	why := errors.New("enough")
	for name, h := range treeHosts(t) {
		_, err := tree.List(t.Context(), h, dir, tree.ListOptions{}, func(e tree.Entry) error { return why })
		if !errors.Is(err, why) {
			t.Errorf("%s: list: %v", name, err)
		}
		stopped := make(chan bool, 1)
		err = tree.Read(t.Context(), h, dir, func(yield func(string) bool) {
			for i := 0; ; i++ {
				if !yield(fmt.Sprint(i % 100)) {
					stopped <- true
					return
				}
			}
		}, func(*tree.File) error { return why }, nil)
		if !errors.Is(err, why) {
			t.Errorf("%s: read: %v", name, err)
		}
		select {
		case <-stopped:
		case <-t.Context().Done():
			t.Errorf("%s: names were asked for without end", name)
		}
		for _, bad := range []string{"", ".", "..", "../x", "/etc/passwd", "a/../b", "a\x00b"} {
			if err := tree.Read(t.Context(), h, dir, slices.Values([]string{"1", bad}), func(*tree.File) error { return nil }, nil); err == nil || !strings.Contains(err.Error(), "clean path") {
				t.Errorf("%s: %q: %v", name, bad, err)
			}
		}
		if err := tree.Read(t.Context(), h, dir+"/none", slices.Values([]string{"1"}), func(*tree.File) error { return nil }, nil); !errors.Is(err, hostexec.ErrNotExist) {
			t.Errorf("%s: no folder: %v", name, err)
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		endless := func(yield func(string) bool) { // a few names could be read whole before the cancellation counts
			for i := 0; ctx.Err() == nil && yield(fmt.Sprint(i%100)); i++ {
			}
			<-ctx.Done()
		}
		err = tree.Read(ctx, h, dir, endless, func(*tree.File) error { cancel(why); return nil }, nil)
		if !errors.Is(err, why) || !errors.Is(err, hostexec.ErrOutcomeUnknown) {
			t.Errorf("%s: cancelled: %v", name, err)
		}
	}
}

func TestWhatCannotBeReadIsNotZeros(t *testing.T) {
	// This file reports 4096 bytes and no blocks, but no byte can be read.
	const dir, name = "/sys/devices/virtual/net/lo", "speed"
	if data, err := os.ReadFile(dir + "/" + name); err == nil {
		t.Fatalf("it can be read: %q", data)
	}
	for where, h := range treeHosts(t) {
		had := false
		err := tree.Read(t.Context(), h, dir, slices.Values([]string{name}), func(f *tree.File) error {
			_, err := io.Copy(io.Discard, f)
			had = err == nil && !f.Missing
			return nil
		}, nil)
		if err == nil && had {
			t.Errorf("%s: it was read", where)
		}
	}
}

// Trees are compressed if the round trip is long, and not if it is short. The resulting
// tree is the same.
func TestATreeTravelsCompressedWhereTheWayIsLong(t *testing.T) {
	line := newLine(t)
	dir := t.TempDir()
	text := strings.Repeat("all work and no play\n", 1<<18)
	if err := os.WriteFile(dir+"/text", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name        string
		host        *hosttest.SSHD
		busy        bool
		least, most int64
	}{
		{"near", hosttest.StartSSHD(t, hosttest.Options{}), false, int64(len(text)), int64(len(text)) * 2},
		{"far", hosttest.StartSSHD(t, hosttest.Options{Behind: line}), false, 0, int64(len(text)) / 4},
		{"far with gzip", hosttest.StartSSHD(t, hosttest.Options{Behind: line}), true, 0, int64(len(text)) / 4},
	} {
		t.Run(c.name, func(t *testing.T) {
			var h hostexec.Host = newHost(t, c.host.Spec())
			if c.busy {
				h = &otherShell{h, busybox(t)}
			}
			if _, err := h.Run(t.Context(), hostexec.Command{Script: ":", Bulk: true}); err != nil {
				t.Fatal(err)
			}
			meter, err := hosttest.MeterPort(t.Context(), c.host.Spec().Port)
			if err != nil {
				t.Fatal(err)
			}
			defer meter.Close()
			if n := len(list(t, h, dir, tree.ListOptions{})); n != 2 {
				t.Fatalf("%d entries", n)
			}
			var got []byte
			err = tree.Read(t.Context(), h, dir, slices.Values([]string{"text"}), func(f *tree.File) (err error) {
				got, err = io.ReadAll(f)
				return err
			}, nil)
			if err != nil {
				t.Fatal(err)
			}
			if string(got) != text {
				t.Errorf("%d bytes came, and not those that are there", len(got))
			}
			read, err := meter.Bytes(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			to := t.TempDir() + "/tree"
			err = tree.Write(t.Context(), h, to, tree.WriteOptions{}, func(w *tree.Writer) error {
				return writeFileInto(w, "text", []byte(text))
			})
			if err != nil {
				t.Fatal(err)
			}
			mustBe(t, to+"/text", []byte(text))
			all, err := meter.Bytes(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for what, n := range map[string]int64{"reading": read, "writing": all - read} {
				if n < c.least || n > c.most {
					t.Errorf("%s: %d bytes travelled for %d, not between %d and %d", what, n, len(text), c.least, c.most)
				}
			}
		})
	}
}
