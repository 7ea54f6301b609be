package hostexec_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fairlead.dev/fairlead/hostexec"
)

// maze makes a folder "work" full of links, and a folder "out" beside it.
func maze(t *testing.T) (dir string) {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	dir = filepath.Join(dir, oddName)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, folder := range []string{"work/sub/deep", "work/a b\n", "work/-n", `work/\n`, "out/in"} {
		must(os.MkdirAll(filepath.Join(dir, folder), 0o755))
	}
	must(os.WriteFile(dir+"/work/file", nil, 0o644))
	for name, to := range map[string]string{
		"rel": "../out", "abs": dir + "/out/in", "chain": "rel/in", "file2": "file", "dangling": "sub/none/x", "up": "sub/deep/../..",
		"broken\n": "a b\n", "loop": "pool", "pool": "loop", "self": "self/x", "trail": "sub/", "top": "/", "proc": "/proc/self/cwd",
	} {
		must(os.Symlink(to, dir+"/work/"+name))
	}
	return dir
}

func TestPathsAreResolvedWithTheToolsThereAre(t *testing.T) {
	for _, p := range places(t) {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			h, dir := p.host(t), maze(t)
			w := dir + "/work"
			want := map[string]hostexec.RealPath{}
			both := func(path, is string) { want[w+path] = hostexec.RealPath{Entry: dir + is, Target: dir + is} }
			last := func(path, entry, target string) {
				want[w+path] = hostexec.RealPath{Entry: dir + entry, Target: dir + target}
			}
			both("/sub/new", "/work/sub/new")
			both("/new/../sub/./x//y", "/work/sub/x/y")
			both("/rel/authorized_keys", "/out/authorized_keys")
			both("/rel/../x", "/x")                  // the parent of what the link leads to
			both("/sub/none/../../x", "/work/x")     // of what does not exist
			both("/abs/x", "/out/in/x")              // absolute
			both("/chain/x/y", "/out/in/x/y")        // a link to a link
			both("/up/sub/x", "/work/sub/x")         // .. in a link
			both("/trail/x", "/work/sub/x")          // a slash at the end of a link
			both("/broken\n/x\n", "/work/a b\n/x\n") // line breaks and spaces
			both(`/\n/x`, `/work/\n/x`)
			both("/-n/*", "/work/-n/*")
			both("/top/"+dir+"/out/x", "/out/x")
			both("/..", "")
			both("/.", "/work")
			last("/rel", "/work/rel", "/out")
			last("/rel/", "/work/rel", "/out")
			last("/file2", "/work/file2", "/work/file")
			last("/chain", "/work/chain", "/out/in")
			last("/dangling", "/work/dangling", "/work/sub/none/x")
			want["/"] = hostexec.RealPath{Entry: "/", Target: "/"}
			var paths []string
			for path := range want {
				paths = append(paths, path)
			}
			got, err := hostexec.ResolvePaths(t.Context(), h, append(paths, paths[0]), nil)
			if err != nil {
				t.Fatal(err)
			}
			for path, is := range want {
				if got[path] != is {
					t.Errorf("%q:\n got %q\nwant %q", path, got[path], is)
				}
			}
			if len(got) != len(want) {
				t.Errorf("%d paths were asked, %d answered", len(want), len(got))
			}
			for path, why := range map[string]string{"/loop/x": "circle", "/self": "circle", "/proc/x": "/proc", "/" + strings.Repeat("a/", 490) + strings.Repeat("b", 100): "longer"} {
				_, err := hostexec.ResolvePaths(t.Context(), h, []string{w + "/file", w + path}, nil)
				var un *hostexec.UnresolvedError
				if !errors.As(err, &un) || !strings.Contains(un.Why, why) {
					t.Errorf("%.40s: %v", path, err)
				}
			}
		})
	}
}

// A name that is not UTF-8 cannot be shown to a rule as it is.
func TestALinkToBytesThatAreNoTextIsNotResolved(t *testing.T) {
	dir := t.TempDir()
	if err := os.Symlink("\xff\xfe", dir+"/link"); err != nil {
		t.Fatal(err)
	}
	var un *hostexec.UnresolvedError
	if got, err := hostexec.ResolvePaths(t.Context(), localHost(t), []string{dir + "/link"}, nil); !errors.As(err, &un) || !strings.Contains(un.Why, "UTF-8") {
		t.Errorf("%q, %v", got, err)
	}
}

func TestAThousandPathsAreResolvedAndNotOneMore(t *testing.T) {
	h, dir := localHost(t), maze(t)
	var paths []string
	for i := range hostexec.MaxResolve {
		paths = append(paths, fmt.Sprintf("%s/work/%s/%d", dir, []string{"rel", "sub", "chain"}[i%3], i))
	}
	got, err := hostexec.ResolvePaths(t.Context(), h, paths, nil)
	if err != nil || len(got) != len(paths) || got[paths[999]].Target != dir+"/out/999" {
		t.Fatalf("%d of %d, the last is %q: %v", len(got), len(paths), got[paths[999]], err)
	}
	var un *hostexec.UnresolvedError
	for name, more := range map[string][]string{
		"one more": append(paths, dir), "too long": {"/" + strings.Repeat("a", hostexec.MaxResolveBytes)}, "relative": {"work"}, "empty": {""}, "NUL": {"/a\x00b"},
	} {
		if _, err := hostexec.ResolvePaths(t.Context(), h, more, nil); !errors.As(err, &un) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// answering is a host that says what a script did not.
type answering struct {
	hostexec.Host
	out string
}

func (a answering) Name() string { return "liar" }
func (a answering) Run(context.Context, hostexec.Command) (hostexec.Result, error) {
	return hostexec.Result{Stdout: []byte(a.out)}, nil
}

func TestAHostThatAnswersInPartResolvesNothing(t *testing.T) {
	for _, out := range []string{
		"", ".\x00", "/a\x00/a\x00", "/a\x00/a\x00.", "/a\x00.\x00", "/a\x00/a\x00/b\x00/b\x00.\x00", "a\x00/a\x00.\x00", "/a\x00\x00.\x00", "no\x00", "no sense\x00",
		"/a\x00/a\x00.\x00\x00", "/a\x00/a\x00.\x00noise",
	} {
		if got, err := hostexec.ResolvePaths(t.Context(), answering{out: out}, []string{"/a"}, nil); err == nil {
			t.Errorf("%q: %q", out, got)
		}
	}
	got, err := hostexec.ResolvePaths(t.Context(), answering{out: "/a\x00/b\x00.\x00"}, []string{"/a"}, nil)
	if err != nil || got["/a"] != (hostexec.RealPath{Entry: "/a", Target: "/b"}) {
		t.Errorf("%q, %v", got, err)
	}
}
