package gateway

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// escaped writes every character of a text as JSON may.
func escaped(text string) (out string) {
	for _, c := range []byte(text) {
		out += fmt.Sprintf(`\u%04x`, c)
	}
	return out
}

// heard returns the texts of a stream's deltas.
func heard(t *testing.T, stream string) (out string) {
	t.Helper()
	for line := range strings.Lines(stream) {
		data, ok := strings.CutPrefix(strings.TrimSpace(line), "data: ")
		var m struct{ Delta string }
		if ok && data != "[DONE]" {
			if err := json.Unmarshal([]byte(data), &m); err != nil {
				t.Errorf("%q: %v", data, err)
			}
		}
		out += m.Delta
	}
	return out
}

func event(kind, members string) string {
	if members != "" {
		members = "," + members
	}
	return `data: {"type":"` + kind + `"` + members + "}\n\n"
}

// A provider's debug output, or a model that was told its own key, may repeat it.
func TestNoSecretGoesBackToTheHostInAStream(t *testing.T) {
	t.Parallel()
	other := "another-secret-of-a-header"
	delta := func(at int, text string) string {
		return event("response.output_text.delta", fmt.Sprintf(`"output_index":%d,"delta":"%s"`, at, text))
	}
	created := event("response.created", `"response":{"id":"r1"}`)
	end := event("response.completed", `"response":{"id":"r1","output":[]}`)
	twice := escaped(escaped(theKey)) // in the arguments of a tool
	for name, c := range map[string]struct{ stream, heard string }{
		"as it is":             {created + delta(0, "a "+theKey+" b") + end, "a [secret] b"},
		"escaped":              {created + delta(0, "a "+escaped(theKey)+" b") + end, "a [secret] b"},
		"a header":             {created + delta(0, other) + end, "[secret]"},
		"in two deltas":        {created + delta(0, "a "+theKey[:7]) + delta(0, theKey[7:]+" b") + end, "a [secret] b"},
		"in many deltas":       {created + delta(0, theKey[:3]) + delta(0, theKey[3:9]) + delta(0, theKey[9:12]) + delta(0, theKey[12:]) + end, "[secret]"},
		"two texts at a time":  {created + delta(0, theKey[:7]) + delta(1, theKey[:4]) + delta(0, theKey[7:]) + delta(1, "x") + end, "[secret]" + theKey[:4] + "x"},
		"only a beginning":     {created + delta(0, "a "+theKey[:7]) + delta(0, "-not") + end, "a " + theKey[:7] + "-not"},
		"a beginning at last":  {created + delta(0, "a "+theKey[:7]) + end, "a " + theKey[:7]},
		"a beginning, cut off": {created + delta(0, "a "+theKey[:7]), "a " + theKey[:7]},
		"in an item":           {created + event("response.output_item.done", `"output_index":0,"item":{"type":"message","content":[{"type":"output_text","text":"`+escaped(theKey)+`"}]}`) + end, ""},
		"in arguments":         {created + event("response.output_item.done", `"output_index":0,"item":{"type":"function_call","arguments":"{\"cmd\":\"`+strings.ReplaceAll(twice, `\`, `\\`)+`\"}"}`) + end, ""},
		"in a name":            {created + event("response.metadata", `"`+theKey+`":1`) + end, ""},
		"in the final event":   {created + event("response.completed", `"response":{"id":"r1","output":[{"type":"message","content":[{"type":"output_text","text":"`+theKey+`"}]}]}`), ""},
		"in a failure":         {created + delta(0, "x") + event("response.failed", `"response":{"error":{"code":"insufficient_quota","message":"for `+escaped(theKey)+`"}}`), "x"},
		"in an error":          {created + delta(0, "x") + event("error", `"message":"for `+theKey+`"`), "x"},
		"in the event's line":  {"event: " + theKey + "\n" + created + "event: " + theKey + "\ndata: {\"a\":1}\n\n" + end, ""},
		"over lines of data":   {created + "data: {\"type\":\"response.output_text.delta\",\ndata: \"delta\":\"" + escaped(theKey) + "\"}\n\n" + end, "[secret]"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newProvider(t, sends(c.stream))
			u := p.up()
			u.Header = http.Header{"X-Api-Key": {"Bearer " + other}}
			b := newBench(t, Limits{Attempts: 1}, u)
			_, text, _ := b.ask() // some of the streams are cut
			plain := unescape(unescape(unescape(text)))
			if got := heard(t, text); got != c.heard || strings.Contains(plain, theKey) || strings.Contains(plain, other) {
				t.Errorf("codex hears %q, expected %q, of\n%s", got, c.heard, text)
			}
			if o := b.last(1); strings.Contains(fmt.Sprintf("%+v", o), theKey) {
				t.Errorf("record %+v", o)
			}
		})
	}
}

// Pieces in which bytes arrive are not events.
func TestASecretThatArrivesInPiecesIsFound(t *testing.T) {
	t.Parallel()
	whole := event("response.created", `"response":{"id":"r1"}`) + event("response.output_text.delta", `"delta":"a `+theKey+` b"`) + event("response.completed", `"response":{"id":"r1","output":[]}`)
	p := newProvider(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for _, c := range []byte(whole) {
			_, _ = w.Write([]byte{c})
			w.(http.Flusher).Flush()
		}
	})
	b := newBench(t, Limits{}, p.up())
	if _, text, err := b.ask(); err != nil || heard(t, text) != "a [secret] b" {
		t.Errorf("%v:\n%s", err, text)
	}
}

func TestNoSecretGoesBackToTheHostOtherwise(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", maxErrorBody-7) + theKey
	for name, act := range map[string]http.HandlerFunc{
		"an error":               says(400, `{"error":{"message":"for `+theKey+`"}}`),
		"an error, escaped":      says(400, `{"error":{"message":"for `+escaped(theKey)+`"}}`),
		"an error of no JSON":    says(400, "for "+theKey),
		"an error, half of JSON": says(400, `{"error":"`+escaped(theKey)),
		"a cut error":            says(400, long),
		"a header":               says(400, `{}`, "X-Request-Id", "r-"+theKey),
		"a header of a stream": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("X-Codex-Turn-State", theKey)
			sends(event("response.created", `"response":{}`)+event("response.completed", `"response":{"output":[]}`))(w, r)
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, Limits{Attempts: 1}, newProvider(t, act).up())
			res, text, err := b.do("POST", "/v1/responses", strings.NewReader(hello))
			if err != nil {
				t.Fatal(err)
			}
			all := unescape(fmt.Sprint(res.Header)) + unescape(text)
			if strings.Contains(all, theKey) || strings.HasSuffix(text, theKey[:7]) {
				t.Errorf("codex gets %.200s … %s", res.Header, text[max(0, len(text)-200):])
			}
			if o := b.last(1); strings.Contains(fmt.Sprintf("%+v", o), theKey) {
				t.Errorf("record %+v", o)
			}
		})
	}
	t.Run("a whole answer", func(t *testing.T) {
		b := newBench(t, Limits{}, newProvider(t, says(200, `{"output":[{"type":"message","content":[{"type":"output_text","text":"`+escaped(theKey)+`"}]}]}`)).up())
		_, text, err := b.do("POST", "/v1/responses/compact", strings.NewReader(`{"model":"m"}`))
		if err != nil || strings.Contains(unescape(text), theKey) || !strings.Contains(text, "[secret]") {
			t.Errorf("%v: %s", err, text)
		}
	})
}

// Whatever the events are, the texts that have no secret reach codex as they are.
func FuzzScrubberKeepsTexts(f *testing.F) {
	f.Add("a sk-the-", "providers", "-kex")
	f.Add("\\u0073", "\"", "sk-the-providers-ke")
	f.Fuzz(func(t *testing.T, a, b, c string) {
		s := scrubber{secrets: []string{theKey}}
		var got string
		want := ""
		for _, text := range []string{a, b, c} {
			raw := mustJSON(map[string]any{"type": "x.delta", "delta": text})
			var back struct{ Delta string }
			if err := json.Unmarshal(raw, &back); err != nil {
				t.Fatal(err)
			}
			want += back.Delta
			for _, fr := range s.take(frame{kind: "x.delta", data: raw}) {
				got += heard(t, string(fr.text()))
			}
		}
		for _, fr := range s.flush() {
			got += heard(t, string(fr.text()))
		}
		if strings.Contains(got, theKey) || !hasEscaped(want, s.secrets) && got != want {
			t.Errorf("%q became %q", want, got)
		}
	})
}
