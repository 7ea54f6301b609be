package scriptedauth

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// refresh sends the request that codex sends.
func refresh(ctx context.Context, s *Server, token string) (int, string, error) {
	body := fmt.Sprintf(`{"client_id":%q,"grant_type":"refresh_token","refresh_reason":"unauthorized_recovery","refresh_token":%q}`, ClientID, token)
	req, err := http.NewRequestWithContext(ctx, "POST", s.TokenEndpoint(), strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(data), err
}

func TestATokenIsGoodOnceAndItsReuseBurnsTheFamily(t *testing.T) {
	s := Serve(t)
	l, other := s.Login(Account{}), s.Login(Account{ID: "acct-other"})
	status, body, err := refresh(t.Context(), s, l.Refresh)
	var next Tokens
	if err != nil || status != 200 || json.Unmarshal([]byte(body), &next) != nil || next.Refresh == l.Refresh || next != s.Newest(l).Tokens {
		t.Fatalf("the first use: %d %v", status, err)
	}
	if status, body, err = refresh(t.Context(), s, l.Refresh); err != nil || status != 401 || !strings.Contains(body, `"refresh_token_reused"`) {
		t.Errorf("the second use: %d %s %v", status, body, err)
	}
	if status, body, err = refresh(t.Context(), s, next.Refresh); err != nil || status != 401 || !strings.Contains(body, `"refresh_token_invalidated"`) {
		t.Errorf("the newest of a burnt family: %d %s %v", status, body, err)
	}
	if status, _, err = refresh(t.Context(), s, other.Refresh); err != nil || status != 200 {
		t.Errorf("another login: %d %v", status, err)
	}
	if s.Uses(l.Refresh) != 2 || s.MostUses() != 2 || s.Revoked(l) == "" || s.Revoked(other) != "" {
		t.Errorf("%d uses, at most %d, revoked %q and %q", s.Uses(l.Refresh), s.MostUses(), s.Revoked(l), s.Revoked(other))
	}
}

func TestFaultsAreWhatTheyAreCalled(t *testing.T) {
	for kind, want := range map[string]struct {
		status  int // 0: no answer
		rotated bool
	}{
		"rate_limited": {429, false}, "server_error": {500, false}, "unavailable": {503, false}, "garbage": {200, false}, "html": {200, false},
		"unauthorized": {401, false}, "invalid_grant": {400, false}, "expired": {401, false}, "invalidated": {401, false},
		"drop": {0, false}, "lost": {0, true}, "slow": {200, true},
	} {
		t.Run(kind, func(t *testing.T) {
			s := Serve(t)
			l := s.Login(Account{})
			s.Fail(Fault{Kind: kind, Delay: time.Millisecond})
			status, _, err := refresh(t.Context(), s, l.Refresh)
			if status != want.status || (err != nil) != (want.status == 0) {
				t.Errorf("answered %d, %v", status, err)
			}
			if rs := s.Refreshes(); len(rs) != 1 || rs[0].Rotated != want.rotated || rs[0].Answer == "" {
				t.Errorf("recorded %+v", rs)
			}
			if (s.Newest(l).Refresh != l.Refresh) != want.rotated {
				t.Error("the login is not as the fault says")
			}
			// The fault was for one request.
			if status, _, err = refresh(t.Context(), s, s.Newest(l).Refresh); err != nil || status != 200 {
				t.Errorf("afterwards: %d %v", status, err)
			}
		})
	}
}

func TestWhatHangsWasNotReadAndWhatIsHeldWas(t *testing.T) {
	for kind, rotated := range map[string]bool{"hang": false, "held": true} {
		s := Serve(t)
		l := s.Login(Account{})
		s.Fail(Fault{Kind: kind})
		ctx, cancel := context.WithCancel(t.Context())
		gone := make(chan error, 1)
		go func() { _, _, err := refresh(ctx, s, l.Refresh); gone <- err }()
		if err := s.AwaitHolding(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		cancel() // the client dies
		if err := <-gone; !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		if err := s.AwaitRequests(t.Context(), EndpointToken, 1); err != nil {
			t.Fatal(err)
		}
		if got := s.Newest(l).Refresh != l.Refresh; got != rotated {
			t.Errorf("%s: rotated %v", kind, got)
		}
		// After Release both answer normally.
		s.Fail(Fault{Kind: kind})
		status := make(chan int, 1)
		go func() { n, _, _ := refresh(t.Context(), s, s.Newest(l).Refresh); status <- n }()
		if err := s.AwaitHolding(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		s.Release()
		if n := <-status; n != 200 {
			t.Errorf("%s, released: %d", kind, n)
		}
		if s.MostUses() > 1 {
			t.Errorf("%s: a token was used twice", kind)
		}
	}
}

func TestSurprisesAreKept(t *testing.T) {
	s := New(nil)
	if err := s.Start("127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	for _, ask := range []struct{ path, kind, body string }{
		{"/oauth/token", "application/json", `{"client_id":"other","grant_type":"refresh_token"}`},
		{"/oauth/token", "application/json", `{"client_id":"` + ClientID + `","grant_type":"password"}`},
		{"/oauth/token", "application/json", `{"client_id":"` + ClientID + `","grant_type":"refresh_token","surprising":1}`},
		{"/oauth/token", "text/plain", `hello`},
		{"/oauth/revoke", "application/json", `{}`},
		{"/api/accounts/deviceauth/token", "application/json", `{"device_auth_id":"x","user_code":"y"}`},
	} {
		before := len(s.Surprises())
		resp, err := http.Post(s.Issuer()+ask.path, ask.kind, strings.NewReader(ask.body))
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != 400 || len(s.Surprises()) != before+1 {
			t.Errorf("%s %s: %d, %d surprises", ask.path, ask.body, resp.StatusCode, len(s.Surprises())-before)
		}
	}
	if err := s.fail(Fault{Kind: "earthquake"}); err == nil {
		t.Error("a fault that there is not")
	}
}

func TestNothingThatIsShownHoldsAToken(t *testing.T) {
	s := Serve(t)
	l := s.Login(Account{Mark: "marked-secret"})
	if _, _, err := refresh(t.Context(), s, l.Refresh); err != nil {
		t.Fatal(err)
	}
	resp, err := http.Get(s.Issuer() + "/requests")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil || !strings.Contains(string(data), Digest(l.Refresh)) {
		t.Errorf("%s, %v", data, err)
	}
	if strings.Contains(string(data), "marked-secret") || !strings.Contains(l.Refresh+l.ID+l.Access, "marked-secret") {
		t.Errorf("requests show %s", data)
	}
}
