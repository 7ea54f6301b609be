package access_test

import (
	"strings"
	"testing"
	"time"

	"fairlead.dev/fairlead/internal/access"
)

var tokenTime = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)

func tokenFile(t *testing.T, more string) *access.Access {
	t.Helper()
	a, err := access.Parse([]byte(`
people: [{name: ann}, {name: olga}, {name: own}]
bindings:
  - {name: admins, roles: [admin], to: [ann]}
  - {name: operators, roles: [operator], to: [olga]}
  - {name: own, roles: [operator], to: [own], when: owner == who}
  - {name: approves, roles: [approver], to: ["token:robot"]}
` + more))
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestATokenHasNoMoreThanItsScopeItsRolesAndItsOwner(t *testing.T) {
	a := tokenFile(t, "")
	token := func(name, owner string, role access.Role, scope ...access.Verb) access.Token {
		return access.Token{Name: name, Owner: owner, Roles: []access.Role{role}, Scope: scope, ExpiresAt: tokenTime.Add(time.Hour)}
	}
	for _, c := range []struct {
		what   string
		token  access.Token
		verb   access.Verb
		object access.Object
		why    string // "" if it is allowed
	}{
		{"its role", token("ci", "ann", access.Operator), access.SessionStart, access.Object{}, ""},
		{"beyond its role", token("ci", "ann", access.Operator), access.HostExec, access.Object{}, "the roles of token ci do not allow"},
		{"its scope", token("ci", "ann", access.Operator, access.SessionRead), access.SessionRead, access.Object{}, ""},
		{"beyond its scope", token("ci", "ann", access.Operator, access.SessionRead), access.SessionStart, access.Object{}, "the scope of token ci has no session.start"},
		{"more than its owner", token("ci", "olga", access.Admin), access.SeedExport, access.Object{}, "no more than its owner"},
		{"a token that creates or lists tokens", token("ci", "ann", access.Admin), access.TokenWrite, access.Object{}, "no token allows token.write"},
		{"a binding that names it", token("robot", "ann", access.Viewer), access.ApprovalDecide, access.Object{}, ""},
		{"a binding that names it, beyond its owner", token("robot", "olga", access.Viewer), access.ApprovalDecide, access.Object{}, "no more than its owner"},
		{"a binding that names another", token("ci", "ann", access.Viewer), access.ApprovalDecide, access.Object{}, "the roles of token ci"},
		{"its owner's session", token("ci", "own", access.Operator), access.SessionClose, access.Object{Owner: "own"}, ""},
		{"a session that it began", token("ci", "own", access.Operator), access.SessionClose, access.Object{Owner: "token:ci"}, ""},
		{"a session of another token", token("ci", "own", access.Operator), access.SessionClose, access.Object{Owner: "token:other"}, "no more than its owner"},
		{"a session of somebody else", token("ci", "own", access.Operator), access.SessionClose, access.Object{Owner: "olga"}, "no more than its owner"},
	} {
		got := a.DecideToken(c.token, access.Request{Who: c.token.Principal(), Verb: c.verb, Object: c.object}, tokenTime)
		if got.Allowed != (c.why == "") || !strings.Contains(got.Reason, c.why) {
			t.Errorf("%s: %+v", c.what, got)
		}
	}
}

func TestATokenEndsWithItsTimeItsOwnerAndItsKey(t *testing.T) {
	key := "SHA256:" + strings.Repeat("a", 43)
	token := access.Token{Name: "ci", Owner: "ann", Key: key, Roles: []access.Role{access.Operator}, ExpiresAt: tokenTime.Add(time.Hour)}
	revoked := token
	revoked.RevokedAt, revoked.RevokedBy = tokenTime, "olga"
	for what, c := range map[string]struct {
		more  string
		token access.Token
		now   time.Time
		why   string
	}{
		"nothing ends it":      {"", token, tokenTime.Add(time.Hour - time.Second), ""},
		"its time":             {"", token, tokenTime.Add(time.Hour), "expired"},
		"it is revoked":        {"", revoked, tokenTime, "was revoked by olga"},
		"by the access file":   {`revoked: {people: ["token:ci"]}`, token, tokenTime, "token ci is revoked"},
		"its owner is revoked": {"revoked: {people: [ann]}", token, tokenTime, "ended with its owner"},
		"the key that made it": {"revoked: {keys: [\"" + key + "\"]}", token, tokenTime, "ended with the key"},
	} {
		a := tokenFile(t, c.more)
		if why := a.Ended(c.token, c.now); (why == "") != (c.why == "") || !strings.Contains(why, c.why) {
			t.Errorf("%s: %q", what, why)
		}
		if got := a.DecideToken(c.token, access.Request{Verb: access.SessionRead}, c.now); got.Allowed != (c.why == "") {
			t.Errorf("%s: %+v", what, got)
		}
	}
}

func TestTheAccessFileNamesTokens(t *testing.T) {
	tokenFile(t, `  - {name: more, roles: [viewer], to: ["group:bots", "token:a.b-c_1"]}
groups: [{name: bots, members: ["token:ci", ann]}]
revoked: {people: ["token:old"]}
`)
	for what, text := range map[string]string{
		"a person with the name of a token": `people: [{name: "token:ci"}]` + "\nbindings: [{name: a, roles: [viewer], to: [everybody]}]",
		"a token with a bad name":           `bindings: [{name: a, roles: [viewer], to: ["token:A B"]}]`,
		"no name":                           `bindings: [{name: a, roles: [viewer], to: ["token:"]}]`,
		"a wildcard":                        `bindings: [{name: a, roles: [viewer], to: ["token:*"]}]`,
	} {
		if _, err := access.Parse([]byte(text)); err == nil {
			t.Errorf("%s: it is accepted", what)
		}
	}
}
