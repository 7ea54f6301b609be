package shellwords

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

func TestPlainCommandsAreSplitAsShellsDo(t *testing.T) {
	for command, want := range map[string][]string{
		"git status":                            {"git", "status"},
		"  git\t status  ":                      {"git", "status"},
		"/bin/bash -lc 'git status'":            {"git", "status"},
		"bash -c 'git status'":                  {"git", "status"},
		"/usr/bin/zsh -l -c 'git status'":       {"git", "status"},
		`/bin/bash -lc "echo 'a b' c"`:          {"echo", "a b", "c"},
		`/bin/bash -lc 'echo "a b" c'`:          {"echo", "a b", "c"},
		`/bin/bash -lc 'grep "a\.b\\c\"d\$" f'`: {"grep", `a\.b\c"d$`, "f"},
		`/bin/bash -lc "echo \"\$(rm x)\""`:     nil,
		`/bin/bash -lc "echo '\$(rm x)'"`:       {"echo", "$(rm x)"},
		`git log --format=%h HEAD~1`:            {"git", "log", "--format=%h", "HEAD~1"},
		`echo a\ b\;c`:                          {"echo", "a b;c"},
		`echo '' ""`:                            {"echo", "", ""},
		`echo it\''s'`:                          {"echo", "it's"},
		"echo 'two\nlines'":                     {"echo", "two\nlines"},
		`echo 'ä ☃'`:                            {"echo", "ä ☃"},
		"bash -lc 'git status' extra":           {"bash", "-lc", "git status", "extra"},
		"bash -xc 'git status'":                 {"bash", "-xc", "git status"},
		"./bash -lc 'git status'":               {"./bash", "-lc", "git status"},
		"/tmp/bash -lc 'git status'":            {"/tmp/bash", "-lc", "git status"},
		"bash -lc \"bash -c 'rm -rf /'\"":       {"bash", "-c", "rm -rf /"},
		"env A=b git status":                    {"env", "A=b", "git", "status"},
		"git -c core.fsmonitor=./x status":      {"git", "-c", "core.fsmonitor=./x", "status"},
		"/usr/bin/git status":                   {"/usr/bin/git", "status"},
		"bash -c ''":                            nil, "bash -c ' '": nil, "bash -lc '; rm x'": nil, `bash -lc "git status" ; rm x`: nil,
		"/bin/bash -lc git":              {"git"},
		"'git' \"status\"":               {"git", "status"},
		"/bin/zsh -lc 'git log HEAD~1'":  nil,
		"/bin/bash -lc 'git log HEAD~1'": {"git", "log", "HEAD~1"},
	} {
		words, plain := Split(command)
		if !slices.Equal(words, want) || plain != (want != nil) {
			t.Errorf("%q: %q, plain %v, want %q", command, words, plain, want)
		}
	}
}

// attacks returns commands that begin with git status and do something else, a Go string
// literal a line. The tests of policies try them, too.
func attacks(t testing.TB) []string {
	t.Helper()
	data, err := os.ReadFile("testdata/attacks.txt")
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for line := range strings.Lines(string(data)) {
		text, err := strconv.Unquote(strings.TrimSuffix(line, "\n"))
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		out = append(out, text)
	}
	return out
}

func TestACommandThatIsMoreThanItsWordsHasNone(t *testing.T) {
	for _, attack := range attacks(t) {
		for _, command := range []string{attack, "/bin/bash -lc " + quoted(attack), "/usr/bin/zsh -lc " + quoted(attack), "sh -c " + quoted(attack)} {
			if words, plain := Split(command); words != nil || plain {
				t.Errorf("%q is split into %q", command, words)
			}
		}
	}
	if words, _ := Split("echo " + strings.Repeat("x", MaxCommand)); words != nil {
		t.Error("a command longer than any argument is split")
	}
}

func TestTheScriptOfAShellIsWhatItRuns(t *testing.T) {
	for command, want := range map[string]string{
		"/bin/bash -lc 'ls | wc'":        "ls | wc",
		"/usr/bin/zsh -l -c 'a; b'":      "a; b",
		`sh -c "echo 'x y' > f"`:         "echo 'x y' > f",
		"/bin/bash -lc ls":               "ls",
		"ls":                             "",
		"/w/bash -lc ls":                 "", // any program that the model chose
		"/bin/bash -lc ls x":             "", // x would be $0
		"/bin/bash -lc 'a'; rm -rf x":    "",
		"/bin/bash -lc \"echo $(rm x)\"": "",
		"/bin/bash -x -c ls":             "",
	} {
		if got, ok := Script(command); got != want || ok != (want != "") {
			t.Errorf("%s runs %q (%v), want %q", command, got, ok, want)
		}
	}
}

// quoted quotes a text as one word for a shell.
func quoted(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// printer prints the words that follow it. A shell treats these words as behind any
// command.
const printer = `printf '%s\0' `

// realSplit asks a real shell for the words of a command.
func realSplit(t *testing.T, shell []string, command string) []string {
	t.Helper()
	dir := t.TempDir()
	cmd := exec.CommandContext(t.Context(), shell[0], append(shell[1:], "-c", printer+command)...)
	cmd.Dir = dir
	// PATH has only printf, so that a command that we wrongly split does not run.
	cmd.Env = []string{"PATH=" + onlyPrintf(t), "HOME=/home-of-nobody", "IFS=x"}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s cannot run %q: %v: %s", shell[0], command, err, out)
	}
	var words []string
	for w := range bytes.SplitSeq(bytes.TrimSuffix(out, []byte{0}), []byte{0}) {
		words = append(words, string(w))
	}
	return words
}

func onlyPrintf(t *testing.T) string {
	t.Helper()
	real, err := exec.LookPath("printf")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.Symlink(real, filepath.Join(dir, "printf")); err != nil {
		t.Fatal(err)
	}
	return dir
}

var realShells = [][]string{{"sh"}, {"bash"}, {"bash", "--posix"}, {"mksh"}, {"busybox", "sh"}}

func agreeOn(t *testing.T, command string) {
	t.Helper()
	words, ok := split(command)
	if !ok {
		return
	}
	for _, shell := range realShells {
		if got := realSplit(t, shell, command); !slices.Equal(got, words) {
			t.Errorf("%q: %q, and %s makes %q of it", command, words, strings.Join(shell, " "), got)
		}
	}
}

func TestRealShellsMakeTheSameWords(t *testing.T) {
	for _, command := range []string{
		`git log --format=%h HEAD~1 a~b`, `a "b c" 'd e' f\ g`, `a "\a\$\` + "`" + `\"\\b" '\a'`, `a 'x'"y"z\w`, `a '' "" b''c`, "a 'b\nc' \"d\te\"",
		`a -n -e -- --x=y a=b a:b a@b a,b a+b a/b %s\\n \% x%y`, `a \; \& \| \< \> \( \) \$ \# \* \? \[ \{ \} \! \~ \^ \= \' \"`, `a 'ä ☃' "☃"`, `a 'a*' "b?" '[c]' "{d,e}" '~' "~/x" '#'`,
		`a 1 12 0x1 -1 . .. / // @ + , : _ -`,
	} {
		if _, ok := split(command); !ok {
			t.Errorf("%q is not split", command)
		}
		agreeOn(t, command)
	}
}

// FuzzSplit compares each successful split with the split of real shells.
func FuzzSplit(f *testing.F) {
	for _, s := range []string{"git status", `a "b\c" 'd'\e ~f g~h i=~ j:~k`, "a\tb\nc", `"\""`, "a=b c"} {
		f.Add(s)
	}
	for _, s := range attacks(f) {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, command string) {
		words, plain := Split(command)
		if plain != (words != nil) {
			t.Fatalf("%q, plain %v", words, plain)
		}
		if size := len(strings.Join(words, "")); size > len(command) {
			t.Fatalf("%d bytes of words of %d", size, len(command))
		}
		agreeOn(t, command)
	})
}
