package command_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"fairlead.dev/fairlead/internal/command"
)

var aRequest = command.Request{Method: "POST", Target: "/v1/messages?folder=x", Worker: "W", Body: command.BodyDigest([]byte("hello"))}

func signedRequest(t testing.TB, seed byte, who string) string {
	t.Helper()
	k, _ := key(t, seed)
	h, err := command.SignRequest(k, who, aRequest, noon)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// changed returns a header with other fields.
func changed(t testing.TB, header string, fields map[string]any) string {
	t.Helper()
	raw, err := base64.RawURLEncoding.DecodeString(header)
	if err != nil {
		t.Fatal(err)
	}
	v := map[string]any{}
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatal(err)
	}
	for k, f := range fields {
		v[k] = f
	}
	if raw, err = json.Marshal(v); err != nil {
		t.Fatal(err)
	}
	return base64.RawURLEncoding.EncodeToString(raw)
}

func TestASignedRequestCountsForItsPrincipalPlaceAndTime(t *testing.T) {
	h := signedRequest(t, 1, "alice")
	r, err := command.CheckRequest(h, aRequest.Method, aRequest.Target, team(t, ""), noon)
	if err != nil || r.Principal != "alice" || r.Body != aRequest.Body || r.Worker != aRequest.Worker || r.Nonce == "" || !r.At.Equal(noon) {
		t.Fatalf("%+v, %v", r, err)
	}
	for what, c := range map[string]struct {
		header, method, target, more string
		now                          time.Time
		want                         error
	}{
		"nothing":                {"", "POST", aRequest.Target, "", noon, command.ErrUnsigned},
		"another method":         {h, "GET", aRequest.Target, "", noon, command.ErrSignature},
		"another path":           {h, "POST", "/v1/inputs?folder=x", "", noon, command.ErrSignature},
		"another query":          {h, "POST", "/v1/messages?folder=y", "", noon, command.ErrSignature},
		"later":                  {h, "POST", aRequest.Target, "", noon.Add(command.MaxSkew + time.Second), command.ErrTime},
		"earlier":                {h, "POST", aRequest.Target, "", noon.Add(-command.MaxSkew - time.Second), command.ErrTime},
		"a stranger":             {signedRequest(t, 9, "alice"), "POST", aRequest.Target, "", noon, command.ErrSignature},
		"a stranger, later":      {signedRequest(t, 9, "alice"), "POST", aRequest.Target, "", noon.Add(command.MaxSkew + time.Second), command.ErrSignature},
		"in another's name":      {signedRequest(t, 2, "alice"), "POST", aRequest.Target, "", noon, command.ErrSignature},
		"a revoked person":       {h, "POST", aRequest.Target, "revoked: {people: [alice]}", noon, command.ErrRevoked},
		"another body":           {changed(t, h, map[string]any{"body": command.BodyDigest(nil)}), "POST", aRequest.Target, "", noon, command.ErrSignature},
		"another nonce":          {changed(t, h, map[string]any{"nonce": "n"}), "POST", aRequest.Target, "", noon, command.ErrSignature},
		"another worker":         {changed(t, h, map[string]any{"worker": "V"}), "POST", aRequest.Target, "", noon, command.ErrSignature},
		"no worker":              {changed(t, h, map[string]any{"worker": ""}), "POST", aRequest.Target, "", noon, command.ErrMalformed},
		"a worker's key":         {signedRequest(t, 5, "alice"), "POST", aRequest.Target, "", noon, command.ErrSignature},
		"a field too many":       {changed(t, h, map[string]any{"more": "x"}), "POST", aRequest.Target, "", noon, command.ErrMalformed},
		"a field too few":        {changed(t, h, map[string]any{"nonce": ""}), "POST", aRequest.Target, "", noon, command.ErrMalformed},
		"a long field":           {changed(t, h, map[string]any{"principal": strings.Repeat("a", 300)}), "POST", aRequest.Target, "", noon, command.ErrMalformed},
		"a number":               {changed(t, h, map[string]any{"at": 7}), "POST", aRequest.Target, "", noon, command.ErrMalformed},
		"a time of another form": {changed(t, h, map[string]any{"at": "2026-05-04T12:00:00.0Z"}), "POST", aRequest.Target, "", noon, command.ErrMalformed},
		"no base64":              {h + "=", "POST", aRequest.Target, "", noon, command.ErrMalformed},
		"too much":               {strings.Repeat("A", command.MaxRequestHeader+1), "POST", aRequest.Target, "", noon, command.ErrMalformed},
	} {
		r, err := command.CheckRequest(c.header, c.method, c.target, team(t, c.more), c.now)
		if !errors.Is(err, c.want) {
			t.Errorf("%s: %+v, %v; want %v", what, r, err, c.want)
		}
		if (r.Principal == "alice") != (c.want == command.ErrTime) {
			t.Errorf("%s: %q is said to have signed it", what, r.Principal)
		}
	}
}

func TestASignatureForACommandIsNoneForARequest(t *testing.T) {
	var signed struct {
		Auth struct{ Signature string } `json:"auth"`
	}
	if err := json.Unmarshal(sign(t, 1, "alice", `{"text":"x"}`), &signed); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(signed.Auth.Signature), "\n")
	h := changed(t, signedRequest(t, 1, "alice"), map[string]any{"signature": strings.Join(lines[1:len(lines)-1], "")})
	if _, err := command.CheckRequest(h, aRequest.Method, aRequest.Target, team(t, ""), noon); !errors.Is(err, command.ErrSignature) || !strings.Contains(err.Error(), "another purpose") {
		t.Error(err)
	}
}

func TestASignedBodyFailsAtItsEndIfItIsAnother(t *testing.T) {
	for body, good := range map[string]bool{"hello": true, "hellO": false, "hello ": false, "": false} {
		got, err := io.ReadAll(command.SignedBody(io.NopCloser(strings.NewReader(body)), aRequest.Body))
		if (err == nil) != good || string(got) != body {
			t.Errorf("%q: %q, %v", body, got, err)
		}
	}
}

func FuzzParseProof(f *testing.F) {
	f.Add(signedRequest(f, 1, "alice"))
	f.Add("")
	f.Add("e30")
	f.Add(base64.RawURLEncoding.EncodeToString([]byte(`{"at":"a","at":"b"}`)))
	a := team(f, "")
	f.Fuzz(func(t *testing.T, header string) {
		p, err := command.ParseProof(header)
		if err != nil {
			if p != (command.Proof{}) {
				t.Errorf("an error with %+v", p)
			}
			return
		}
		if len(header) > command.MaxRequestHeader || p.At == "" || p.Body == "" || p.Nonce == "" || p.Principal == "" || p.Signature == "" {
			t.Errorf("accepted %q as %+v", header, p)
		}
		raw, err := base64.RawURLEncoding.DecodeString(header)
		if err != nil || !bytes.HasPrefix(bytes.TrimSpace(raw), []byte("{")) {
			t.Errorf("accepted %q", raw)
		}
		if r, err := command.CheckRequest(header, "GET", "/", a, noon); err == nil {
			t.Errorf("nobody signed %+v", r)
		}
	})
}
