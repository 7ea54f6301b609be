package seeds

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"fairlead.dev/fairlead/internal/lab/scriptedauth"
)

func TestALoginTellsWhoItBelongsTo(t *testing.T) {
	s := scriptedauth.Serve(t)
	b := loginBundle(t, s.Login(scriptedauth.Account{Email: "ann@example.com", Plan: "pro"}))
	if a := AccountOf(b); a == nil || a.Identity != "ann@example.com" || a.Plan != "pro" || a.Limits != nil {
		t.Errorf("it belongs to %+v", a)
	}
	if a := AccountOf(keyBundle(t, `{"auth_mode":"apikey","OPENAI_API_KEY":"sk-1"}`, "")); a != nil {
		t.Errorf("a key belongs to %+v", a)
	}
}

// The answers have the form that codex's backend client reads.
func TestTheUsageOfALoginIsReadWithoutAModelCall(t *testing.T) {
	issuer := scriptedauth.Serve(t)
	b := loginBundle(t, issuer.Login(scriptedauth.Account{ID: "acct-1"}))
	access, err := AccessOf(b)
	if err != nil {
		t.Fatal(err)
	}
	answer, status := "", http.StatusOK
	var asked []*http.Request
	usage := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r)
		w.WriteHeader(status)
		fmt.Fprint(w, answer)
	}))
	defer usage.Close()
	at := time.Unix(1_800_000_000, 0)
	i := Issuer{UsageURL: usage.URL + "/backend-api/wham/usage", Now: func() time.Time { return at }}

	answer = `{"plan_type":"plus","rate_limit":{"allowed":false,"limit_reached":true,
		"primary_window":{"used_percent":100,"limit_window_seconds":18000,"reset_after_seconds":60,"reset_at":1800000060},
		"secondary_window":{"used_percent":41.5,"limit_window_seconds":604800,"reset_at":1800300000}},
		"rate_limit_reached_type":{"type":"workspace_member_usage_limit_reached"},"credits":null}`
	l, err := i.Usage(t.Context(), b)
	if err != nil {
		t.Fatal(err)
	}
	if l.Plan != "plus" || l.Reached != "workspace_member_usage_limit_reached" || l.AtMS != at.UnixMilli() ||
		l.Primary.UsedPercent != 100 || l.Primary.WindowMinutes != 300 || l.Primary.ResetsAt != 1800000060 || l.Secondary.UsedPercent != 41 {
		t.Errorf("the usage is %+v, %+v, %+v", l, l.Primary, l.Secondary)
	}
	if r := asked[0]; r.Method != http.MethodGet || r.Header.Get("Authorization") != "Bearer "+access.Token.Reveal() || r.Header.Get("ChatGPT-Account-Id") != "acct-1" {
		t.Errorf("it asked by %s %v", r.Method, r.Header)
	}
	for name, c := range map[string]struct {
		answer string
		status int
	}{
		"not allowed": {`{"detail":"no"}`, 401}, "no windows": {`{}`, 200}, "not JSON": {`<html>`, 200}, "moved": {`{"plan_type":"plus"}`, 307},
	} {
		answer, status = c.answer, c.status
		if l, err := i.Usage(t.Context(), b); err == nil || strings.Contains(err.Error(), access.Token.Reveal()) {
			t.Errorf("%s: %+v, %v", name, l, err)
		}
	}
	asked = nil
	i.UsageURL = "http://example.com/usage"
	if _, err := i.Usage(t.Context(), b); err == nil {
		t.Error("an access token went over a plain wire")
	}
	i.UsageURL = ""
	if _, err := i.Usage(t.Context(), b); err == nil || !strings.Contains(err.Error(), "another issuer") {
		t.Errorf("a token of another issuer was sent to codex's own: %v", err)
	}
}
