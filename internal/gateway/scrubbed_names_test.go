package gateway

import (
	"net/http"
	"net/url"
	"slices"
	"testing"
)

// A patch of the model must not lose a line because a provider's setting stands in it.
func TestOnlyCredentialsAreSearchedInAnswers(t *testing.T) {
	of := []Upstream{{Key: "sk-0123456789abcdef", Header: http.Header{"X-Title": {"My internal tool"}, "X-Api-Key": {"k-0123456789abcdef"}},
		Query: url.Values{"api-version": {"2025-04-01-preview"}}}}
	searched := secretsOf(of, true)
	for text, want := range map[string]bool{"sk-0123456789abcdef": true, "k-0123456789abcdef": true, "My internal tool": false, "2025-04-01-preview": false} {
		if got := slices.Contains(searched, text); got != want {
			t.Errorf("%q is searched in answers: %v", text, got)
		}
		if !slices.Contains(secretsOf(of, false), text) {
			t.Errorf("%q is not hidden in errors", text)
		}
	}
}
