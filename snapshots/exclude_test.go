package snapshots

import (
	"bytes"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// gitSays asks git itself which paths the patterns exclude. A path that ends in a slash is
// a folder.
func gitSays(t *testing.T, patterns, paths []string) map[string]bool {
	t.Helper()
	dir := t.TempDir()
	for _, p := range paths {
		if name, isDir := strings.CutSuffix(p, "/"); isDir {
			if err := os.MkdirAll(filepath.Join(dir, name), 0o755); err != nil {
				t.Fatal(err)
			}
		} else {
			if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, p)), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, p), nil, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	git := func(stdin string, args ...string) []byte {
		cmd := exec.Command("git", args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null")
		cmd.Stdin = strings.NewReader(stdin)
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		if exit, ok := err.(*exec.ExitError); err != nil && (!ok || exit.ExitCode() != 1) {
			t.Fatalf("git %v: %v: %s", args, err, stderr.Bytes())
		}
		return out
	}
	git("", "init", "-q")
	if err := os.WriteFile(filepath.Join(dir, ".git/info/exclude"), []byte(strings.Join(patterns, "\n")+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	// With -v and -n git reports the pattern that decided for each path. If it begins with
	// !, the path is not excluded. Folders are passed without their final slash, which git
	// would take for a part of the name. Git itself looks which paths are folders.
	ask := strings.ReplaceAll(strings.Join(paths, "\x00")+"\x00", "/\x00", "\x00")
	answer := strings.Split(string(git(ask, "check-ignore", "--no-index", "--stdin", "-z", "-v", "-n")), "\x00")
	said := map[string]bool{}
	for i := 0; i+3 < len(answer); i += 4 {
		said[answer[i+3]] = answer[i+2] != "" && !strings.HasPrefix(answer[i+2], "!")
	}
	return said
}

// mustAgree compares our result with git's for all paths.
func mustAgree(t *testing.T, patterns, paths []string) (excluded int) {
	t.Helper()
	x, err := newExcluder(patterns)
	if err != nil {
		t.Fatal(err)
	}
	said := gitSays(t, patterns, paths)
	for _, p := range paths {
		name, dir := strings.CutSuffix(p, "/")
		want, asked := said[name]
		if !asked {
			t.Fatalf("git said nothing of %q", p)
		}
		if got := x.excluded(name, dir); got != want {
			t.Errorf("patterns %q, path %q: excluded is %v; git says %v", patterns, p, got, want)
		}
		if want {
			excluded++
		}
	}
	return excluded
}

var ignoredTree = []string{
	"a", "b.o", "lib/", "lib/a.o", "lib/b.c", "src/", "src/lib/", "src/lib/x.o", "src/lib/keep.o", "src/main.c", "build/", "build/out/",
	"build/out/deep/", "build/out/deep/file", "node_modules/", "node_modules/p/", "node_modules/p/index.js", "src/node_modules/", "src/node_modules/q.js",
	"foo/", "foo/bar/", "foo/bar/baz", "foo/x/", "foo/x/bar/", "foo/x/bar/baz", "#odd", "!odd", "with space", "tail ", "back\\slash", "[x]", "x", "y", "z1", "z-", "z]",
	"Upper", "log.txt", "logs/", "logs/a.log", "logs/keep/", "logs/keep/b.log", "a*b", "aXb", "a?c", "dist", "src/dist/", "src/dist/f", "é", "tab\there",
}

func TestExcludesAreThoseOfGit(t *testing.T) {
	for _, patterns := range [][]string{
		{"*.o"}, {"*.o", "!keep.o"}, {"/lib"}, {"lib/"}, {"lib"}, {"src/lib"}, {"/src/*.c"}, {"build/"}, {"build/", "!build/out/deep/file"},
		{"build/*", "!build/out/"}, {"build/**", "!build/out/", "!build/out/deep/"}, {"node_modules"}, {"**/node_modules/"}, {"foo/**/baz"}, {"foo/**"}, {"**/bar"},
		{"foo/*/baz"}, {"foo**bar"}, {"**"}, {"*", "!*/", "!*.c"}, {"/*", "!/src", "/src/*", "!/src/lib"}, {`\#odd`}, {"#odd"}, {`\!odd`}, {"!odd"}, {"with space"},
		{"tail"}, {"tail "}, {`tail\ `}, {`tail\ \ `}, {`back\\slash`}, {`back\slash`}, {`\[x\]`}, {"[x]"}, {"[xy]"}, {"[!x]"}, {"[^xy]"}, {"z[]-]"}, {"z[0-9]"}, {"z[a\\-]"},
		{"[[:upper:]]*"}, {"[[:digit:]x]"}, {"z[[:digit:]]"}, {"[[:nonsense:]]"}, {"[x"}, {"x]"}, {`a\*b`}, {"a*b"}, {"a?b"}, {`a\?c`}, {"dist"}, {"dist/"}, {"/dist"},
		{"logs/*", "!logs/keep/"}, {"logs/", "!logs/keep/"}, {"*.log", "!logs/keep/*.log"}, {"é"}, {"[é]"}, {"tab\t*"}, {""}, {" "}, {"/"}, {"!"}, {"//"}, {"lib//"}, {`x\`},
		{"***/bar"}, {"foo/***/baz"}, {"*/bar"}, {"src/**/x.o"}, {"src/**x.o"}, {"s*c/**"}, {"**/lib/*"}, {"[[:x]"}, {"[a-"}, {"[-x]"}, {"[x-]"}, {"z[]]"}, {"z[!]]"}, {"*.o\r"},
	} {
		mustAgree(t, patterns, ignoredTree)
	}
}

// The patterns are thousands of random ones that nobody would write.
func TestExcludesAreThoseOfGitByChance(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	paths := []string{"a", "b", "ab", "ba", "aab", "a-", "c/", "c/a", "c/b", "c/ab", "c/d/", "c/d/a", "c/d/b", "c/d/ab", "d/", "d/c/", "d/c/a", "d/c/b/", "d/c/b/a", "d/a"}
	pieces := []string{"a", "b", "c", "d", "*", "**", "/", "/", "?", "[a", "]", "[!b]", "[a-c]", "-", `\`, "!", "**/", "/**", " ", "[[:alpha:]]"}
	excluded := 0
	for range 120 {
		var patterns []string
		for range 1 + random.IntN(3) {
			var b strings.Builder
			for range 1 + random.IntN(5) {
				b.WriteString(pieces[random.IntN(len(pieces))])
			}
			patterns = append(patterns, b.String())
		}
		excluded += mustAgree(t, patterns, paths)
	}
	if excluded < 200 {
		t.Errorf("only %d paths were excluded at all", excluded)
	}
}

func TestExcludesRefuseWhatIsNoPattern(t *testing.T) {
	for _, bad := range []string{"a\nb", "a\x00"} {
		if _, err := newExcluder([]string{bad}); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
	if x, err := newExcluder(slices.Repeat([]string{"# nothing", ""}, 3)); err != nil || len(x.patterns) != 0 {
		t.Errorf("%v, %v", x, err)
	}
}
