package gateways

import (
	"strings"
	"testing"

	"fairlead.dev/fairlead/seeds"
)

// A kept body has no secret and no beginning of one. It has the text before a secret.
func TestAKeptBodyHasNoSecretAndAllElseWithinItsBound(t *testing.T) {
	const key = "sk-marked-0123456789abcdef"
	hide := seeds.NewRedactor("team", []seeds.Secret{seeds.NewSecret(key)})
	const most = 1024
	for name, text := range map[string]string{
		"short":                  "a " + key + " b",
		"exactly as long":        strings.Repeat("x", most),
		"a secret at the bound":  strings.Repeat("x", most-5) + key + strings.Repeat("y", 100_000),
		"a secret where it ends": strings.Repeat("x", most+mostSecret-5) + key + strings.Repeat("y", 100_000),
	} {
		begin := text[:min(len(text), most+mostSecret)]
		got := bodyText(hide, []byte(begin), int64(len(text)), most)
		if strings.Contains(got.Text, key[:8]) || got.Bytes != int64(len(text)) || got.Cut != (len(text) > most) {
			t.Errorf("%s: cut %v, %d of %d bytes: …%.60q", name, got.Cut, len(got.Text), got.Bytes, got.Text[max(0, len(got.Text)-60):])
		}
		if len(text) > most && (len(got.Text) > most || len(got.Text) < most-len(key)) { // a replaced secret is shorter
			t.Errorf("%s: %d bytes are kept, want about %d", name, len(got.Text), most)
		}
	}
}
