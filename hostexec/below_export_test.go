package hostexec

import (
	"strings"
	"testing"
)

// GrowBelow makes the file grow after its size was checked.
func GrowBelow(t *testing.T) {
	const look = "[ \"$size\" -le \"$3\" ] || no large \"$size\"\n"
	whole := belowScript
	t.Cleanup(func() { belowScript = whole })
	if !strings.Contains(whole, look) {
		t.Fatalf("the script has no %q", look)
	}
	belowScript = strings.Replace(whole, look, look+"truncate -s 4T \"$2\"\n", 1)
}

// SwapBelow removes the checks of the path from ReadBelow's script, as if the files were
// swapped directly after the checks. It also shortens the script's wait.
func SwapBelow(t *testing.T) {
	whole := belowScript
	t.Cleanup(func() { belowScript = whole })
	for _, cut := range [][2]string{
		{"[ ! -d \"$2\" ] || no directory\n", ""}, {"[ -f \"$2\" ] || no special\n", ""}, {"sleep 20", "sleep 1"},
	} {
		if !strings.Contains(belowScript, cut[0]) {
			t.Fatalf("the script has no %q", cut[0])
		}
		belowScript = strings.Replace(belowScript, cut[0], cut[1], 1)
	}
}
