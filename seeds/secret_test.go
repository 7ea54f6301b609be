package seeds

import (
	"bytes"
	"encoding/gob"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
)

func TestSecretIsNeverSeen(t *testing.T) {
	const text = "hunter2-hunter2"
	s := NewSecret(text)
	holder := struct {
		S Secret
		P *Secret
		M map[string]Secret
	}{s, &s, map[string]Secret{"k": s}}
	var out bytes.Buffer
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d"} {
		fmt.Fprintf(&out, verb+"\n", s)
		fmt.Fprintf(&out, verb+"\n", holder)
	}
	slog.New(slog.NewJSONHandler(&out, nil)).Info("x", "s", s, "h", holder)
	slog.New(slog.NewTextHandler(&out, nil)).Info("x", "s", s, "h", holder)
	if data, err := json.Marshal(holder); err == nil {
		t.Errorf("it became JSON: %s", data)
	}
	if err := gob.NewEncoder(&out).Encode(s); err == nil {
		t.Error("it became gob")
	}
	if strings.Contains(out.String(), "hunter2") || strings.Contains(out.String(), fmt.Sprintf("%x", "hunter2")) {
		t.Errorf("seen: %s", out.String())
	}
	if s.Reveal() != text {
		t.Errorf("revealed %q", s.Reveal())
	}
}
