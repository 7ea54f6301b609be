package workflows

import (
	"strings"
	"testing"

	"fairlead.dev/fairlead/internal/protocol"
)

var oneHost = map[string]string{"os": "linux", "mem": "64", "disk": "9", "codex": "0.169.0", "gpu": "no", "load": "1.5", "note": "a>b", "zero": "007"}

func TestASelectorMeetsWhatItSays(t *testing.T) {
	for text, want := range map[string]bool{
		"os=linux": true, "os=darwin": false, "arch=amd64": false,
		"os!=linux": false, "os!=darwin": true, "arch!=amd64": true,
		"mem>=64": true, "mem>=65": false, "mem<=64": true, "mem<=63": false,
		"mem>63": true, "mem>64": false, "mem<65": true, "mem<64": false,
		"disk<32": true, "disk>=32": false, // compared as numbers, not as strings
		"load>1.25": true, "load<1.6": true, "load>=1.50": true, "load>-1": true,
		"codex>=0.160.0": true, "codex>=0.99.0": true, "codex>=0.169.1": false, "codex<1": true, "codex>=0.169": true,
		"zero>=7": true, "zero<=7": true,
		"gpu": true, "!gpu": false, "arch": false, "!arch": true,
		"arch>=1": false, "arch<=1": false, "os>=1": false, "os<1": false,
		"note=a>b": true, "note!=a>b": false, "mem=64": true, "mem=064": false, "os=": false, "os!=": true,
	} {
		s, err := protocol.ParseSelector(text)
		switch {
		case err != nil:
			t.Errorf("%s: %v", text, err)
		case s.String() != text:
			t.Errorf("%s reads as %s", text, s)
		case s.Meets(oneHost) != want:
			t.Errorf("%s is met: %v", text, !want)
		}
	}
}

func TestABadSelectorSaysWhatIsWrong(t *testing.T) {
	for text, want := range map[string]string{
		"": "has no label", "=v": "has no label", "!": "has no label", "!!k": "has no label", " k": "has no label",
		"mem>=lots": "not a number", "mem>": "not a number", "mem<1e3": "not a number", "mem>NaN": "not a number", "mem>=0x20": "not a number",
		"mem>=-1.2.3": "not a number", "mem>1.": "not a number", "mem>=32 ": "not a number", "mem>==32": "not a number",
		"!gpu=no": "takes no value", "k v": "not an operator", "k!v": "not an operator", "k==v": "not an operator", "k!==v": "not an operator", "k\x00": "cannot be printed", "k=\xff": "cannot be printed",
		"k=" + strings.Repeat("v", protocol.MaxSelector): "at most 200",
	} {
		if _, err := protocol.ParseSelector(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	if _, err := protocol.ParseSelectors(make([]string, protocol.MaxSelectors+1)); err == nil || !strings.Contains(err.Error(), "33 selectors") {
		t.Errorf("too many: %v", err)
	}
}

func FuzzSelector(f *testing.F) {
	for _, seed := range []string{"os=linux", "k!=v", "mem>=32", "load<=1.5", "codex>0.160.0", "n<-3", "gpu", "!gpu", "k=a>b", "!k=v", "k==v", ">=1", "k>=1.2.3.4"} {
		f.Add(seed, "64")
	}
	f.Fuzz(func(t *testing.T, text, have string) {
		s, err := protocol.ParseSelector(text)
		if err != nil {
			return
		}
		if again, err := protocol.ParseSelector(s.String()); err != nil || again != s {
			t.Errorf("%q reads as %q, and that as %q: %v", text, s, again, err)
		}
		labels := map[string]string{s.Key: have}
		opposite := map[string]string{"=": "!=", "!=": "=", "": "!", "!": "", ">=": "<", "<": ">=", "<=": ">", ">": "<="}
		o := protocol.Selector{Key: s.Key, Op: opposite[s.Op], Value: s.Value}
		_, isNumber := protocol.NumberOf(have)
		met, otherwise := s.Meets(labels), o.Meets(labels)
		switch {
		case s.Ordered() && !isNumber && (met || otherwise):
			t.Errorf("%q or %q is met by %q, which is no number", s, o, have)
		case (!s.Ordered() || isNumber) && met == otherwise:
			t.Errorf("%q and %q: both are %v of %q", s, o, met, have)
		}
		if s.Lacks(labels) == "" {
			t.Error("nothing is said of what is lacking")
		}
	})
}
