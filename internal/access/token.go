package access

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
)

// A Token is what a program acts with for its owner, under the name token:NAME.
type Token struct {
	Name  string `json:"name"`
	Owner string `json:"owner"` // who made it
	// Key is the fingerprint of the key with which its owner asked for it.
	Key       string    `json:"key,omitempty"`
	Roles     []Role    `json:"roles"`
	Scope     []Verb    `json:"scope,omitempty"` // if set, only these verbs
	CreatedAt time.Time `json:"created_at"`
	ExpiresAt time.Time `json:"expires_at"`
	RevokedAt time.Time `json:"revoked_at,omitzero"`
	RevokedBy string    `json:"revoked_by,omitempty"`
}

// tokenPrefix begins the principals of tokens. No name of a person or a group has a colon.
const tokenPrefix = "token:"

var tokenName = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,62}$`)

// Principal returns the name under which the token acts.
func (t Token) Principal() string { return tokenPrefix + t.Name }

// TokenName returns the name of a principal's token, or false for another principal.
func TokenName(who string) (string, bool) {
	return strings.CutPrefix(who, tokenPrefix)
}

func isToken(who string) bool {
	name, ok := TokenName(who)
	return ok && tokenName.MatchString(name)
}

// Ended says why a token does not count any more, or returns "".
func (a *Access) Ended(t Token, now time.Time) string {
	switch {
	case !t.RevokedAt.IsZero():
		return fmt.Sprintf("token %s was revoked by %s at %s", t.Name, t.RevokedBy, t.RevokedAt.UTC().Format(time.RFC3339))
	case !now.Before(t.ExpiresAt):
		return fmt.Sprintf("token %s expired at %s", t.Name, t.ExpiresAt.UTC().Format(time.RFC3339))
	case a.revoked.person(t.Principal()):
		return fmt.Sprintf("token %s is revoked", t.Name)
	case a.revoked.person(t.Owner):
		return fmt.Sprintf("token %s ended with its owner: %s is revoked", t.Name, t.Owner)
	case t.Key != "" && slices.Contains(a.revoked.Keys, t.Key):
		return fmt.Sprintf("token %s ended with the key that asked for it: %s is revoked", t.Name, t.Key)
	}
	return ""
}

// DecideToken answers a request of a token. The token's own roles, or a binding that names
// it, must allow the request, its scope must have the verb, and its owner must be allowed the
// same now. Groups that the issuer of a login named for the owner do not count, because they
// may have changed. No token makes, lists or revokes tokens.
func (a *Access) DecideToken(t Token, r Request, now time.Time) Answer {
	return a.decideToken(t, r, now, a.holds)
}

// CouldToken is as [Access.Could], for a token.
func (a *Access) CouldToken(t Token, r Request, now time.Time) Answer {
	return a.decideToken(t, r, now, func(binding, Request) string { return "" })
}

func (a *Access) decideToken(t Token, r Request, now time.Time, holds func(binding, Request) string) Answer {
	no := func(format string, args ...any) Answer {
		return Answer{Access: a.Digest, Reason: fmt.Sprintf(format, args...)}
	}
	switch why := a.Ended(t, now); {
	case why != "":
		return no("%s", why)
	case r.Verb == TokenWrite:
		return no("no token allows %s: a person has to do it", r.Verb)
	case len(t.Scope) > 0 && !slices.Contains(t.Scope, r.Verb):
		return no("the scope of token %s has no %s: %s", t.Name, r.Verb, names(t.Scope))
	}
	own := slices.ContainsFunc(t.Roles, func(role Role) bool { return slices.Contains(role.Verbs(), r.Verb) })
	if !own {
		r.Who, r.Groups = t.Principal(), nil
		if answer := a.decide(r, holds); !answer.Allowed {
			return no("the roles of token %s do not allow %s: %s; and %s", t.Name, r.Verb, names(t.Roles), answer.Reason)
		}
	}
	// What the token began is its owner's.
	if r.Object.Owner == t.Principal() {
		r.Object.Owner = t.Owner
	}
	r.Who, r.Groups = t.Owner, nil
	answer := a.decide(r, holds)
	if !answer.Allowed {
		answer.Reason = fmt.Sprintf("token %s may do no more than its owner, and %s", t.Name, answer.Reason)
	}
	return answer
}
