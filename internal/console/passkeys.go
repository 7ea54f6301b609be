package console

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"

	"fairlead.dev/fairlead/internal/audit"
	"fairlead.dev/fairlead/internal/passkey"
	"fairlead.dev/fairlead/internal/protocol"
)

// A passkey says who decides what a policy marks as high risk. So somebody who finds a browser
// that has been logged in for hours can add none: that needs a login of the last minutes, in which
// the person proved who they are. An issuer that knows the browser asks nobody, so the moment of
// the login says nothing.
const freshFor = 10 * time.Minute

// challengeOf is the value of a login that has the challenge for a new passkey.
const challengeOf = "passkey_challenge"

// A passkeysView is the page of a person's passkeys.
type passkeysView struct {
	Keys []keyRow
	// Not says why none can be added here, or is empty.
	Not   string
	Fresh bool // the login is of the last minutes
	Again bool // a person can log in again at the issuer
	Max   int
	Made  string // options for the browser, in JSON
}

type keyRow struct {
	passkey.Key
	Use passkey.Use
}

// fresh reports whether the person has proved who they are within the last minutes.
func (c *Console) fresh(ctx context.Context) bool {
	asked, ok := c.logins.Get(ctx, askedOf).(int64)
	return ok && time.Since(time.Unix(asked, 0)) < freshFor
}

// A passkeyVisit is a request about the person's passkeys.
type passkeyVisit struct{ *visit }

func ofPasskeys(serve func(passkeyVisit) error) func(*visit) error {
	return func(v *visit) error {
		if v.opts.Passkeys == nil {
			return v.nowhere()
		}
		return serve(passkeyVisit{v})
	}
}

func (v passkeyVisit) list() error { return v.show(nil, http.StatusOK) }

func (v passkeyVisit) show(p *Problem, status int) error {
	keys, err := v.opts.Passkeys.Of(v.r.Context(), v.who.Principal)
	if err != nil {
		return v.unread(err)
	}
	view := passkeysView{Max: passkey.MaxKeys, Fresh: v.fresh(v.r.Context()), Again: v.opts.Login != nil, Not: v.notHere()}
	for _, k := range keys {
		use, err := v.opts.Passkeys.Last(v.r.Context(), k)
		if err != nil {
			return v.unread(err)
		}
		view.Keys = append(view.Keys, keyRow{k, use})
	}
	if len(keys) >= passkey.MaxKeys && view.Not == "" {
		view.Not = fmt.Sprintf("You have %d passkeys, which is the limit. Remove one to add another.", len(keys))
	}
	if view.Not == "" && view.Fresh {
		if view.Made, err = v.options(keys); err != nil {
			return err
		}
	}
	return v.showWith(p, status, "passkeys", "Your passkeys", "passkeys", "", view)
}

// notHere says why a browser makes no passkeys at the address of this page, or returns "".
func (v passkeyVisit) notHere() string {
	if v.siteless != nil {
		return "No passkey can be added: " + v.siteless.Error() + "."
	}
	if at, err := url.Parse(v.site.Origin); err != nil || at.Host != v.r.Host {
		return fmt.Sprintf("Browsers keep passkeys for a name, and not for %s. Open the link of `ctl ui` with %s in place of this address.", v.r.Host, v.site.Origin)
	}
	return ""
}

// options returns the options with which a browser makes a passkey. The challenge counts for
// this login, once.
func (v passkeyVisit) options(has []passkey.Key) (string, error) {
	challenge := make([]byte, 32)
	rand.Read(challenge)
	v.logins.Put(v.r.Context(), challengeOf, challenge)
	type algorithm struct {
		Type string `json:"type"`
		Alg  int    `json:"alg"`
	}
	known, may := []credentialID{}, []algorithm{}
	for _, k := range has {
		known = append(known, credentialID{"public-key", k.ID, k.Transports})
	}
	for _, a := range passkey.Algorithms() {
		may = append(may, algorithm{"public-key", a})
	}
	user := sha256.Sum256([]byte(v.who.Principal))
	name := v.who.Principal
	if name == "" {
		name = "the owner of this stack"
	}
	raw, err := json.Marshal(map[string]any{
		"challenge":        base64.RawURLEncoding.EncodeToString(challenge),
		"rp":               map[string]string{"id": v.site.ID, "name": "Fairlead"},
		"user":             map[string]string{"id": base64.RawURLEncoding.EncodeToString(user[:]), "name": name, "displayName": name},
		"pubKeyCredParams": may, "excludeCredentials": known, "attestation": "none", "timeout": freshFor.Milliseconds(),
		"authenticatorSelection": map[string]any{"residentKey": "preferred", "userVerification": "required"},
	})
	return string(raw), err
}

// add keeps the passkey that the browser has made.
func (v passkeyVisit) add() error {
	f, ctx := v.r.PostForm, v.r.Context()
	challenge, _ := v.logins.Pop(ctx, challengeOf).([]byte)
	var k passkey.Key
	err := error(nil)
	switch {
	case v.notHere() != "":
		err = errors.New(v.notHere())
	case !v.fresh(ctx):
		err = fmt.Errorf("your login is older than %d minutes: log in again to add a passkey", int(freshFor.Minutes()))
	case f.Get("credential") == "":
		return v.show(&Problem{Status: http.StatusBadRequest, Detail: "your browser has made no passkey", Hint: "this page needs JavaScript to add one"}, http.StatusBadRequest)
	case len(challenge) == 0:
		return v.show(&Problem{Status: http.StatusConflict, Detail: "this page was used before, or another one was opened since", Hint: "add the passkey again"}, http.StatusConflict)
	default:
		if k, err = passkey.Created([]byte(f.Get("credential")), challenge, v.site); err == nil {
			k, err = v.opts.Passkeys.Add(ctx, v.who.Principal, f.Get("name"), k)
		}
	}
	if errors.Is(err, passkey.ErrUnknown) {
		return v.unread(err)
	}
	if err != nil {
		v.opts.API.Recorded(v.who, audit.PasskeyAdd, "passkey", "", err)
		return v.show(&Problem{Status: http.StatusForbidden, Detail: err.Error()}, http.StatusForbidden)
	}
	v.opts.API.Recorded(v.who, audit.PasskeyAdd, passkeyObject(k), fmt.Sprintf("passkey %q for %s, public key %s", k.Name, k.Origin, k.PublicKey), nil)
	return v.see("/passkeys")
}

// remove asks, and then removes a passkey of the person.
func (v passkeyVisit) remove() error {
	ctx, id := v.r.Context(), v.r.URL.Query().Get("id")
	keys, err := v.opts.Passkeys.Of(ctx, v.who.Principal)
	if err != nil {
		return v.unread(err)
	}
	i := slices.IndexFunc(keys, func(k passkey.Key) bool { return k.ID == id })
	if i < 0 {
		return &Problem{Status: http.StatusNotFound, Detail: "you have no such passkey", Hint: "it may have been removed: look at the list again"}
	}
	k := keys[i]
	if v.r.Method != http.MethodPost {
		q := question{Text: []string{fmt.Sprintf("The passkey %q decides nothing any more, at this worker at once, and at all others within a minute. What it has decided stays decided.", k.Name),
			"Remove it on your device, too: Fairlead cannot do that."},
			Action: "/passkeys/remove?id=" + url.QueryEscape(id), Key: newKey(), Button: "Remove the passkey", Grave: true, Back: "/passkeys"}
		return v.visit.show(http.StatusOK, "confirm", fmt.Sprintf("Remove passkey %q", k.Name), "passkeys", "", q)
	}
	by := v.who.Principal
	if by == "" {
		by = "the owner of this stack"
	}
	if _, err = v.opts.Passkeys.Remove(ctx, v.who.Principal, id, by); err != nil && !errors.Is(err, passkey.ErrRemoved) {
		return v.unread(err)
	}
	v.opts.API.Recorded(v.who, audit.PasskeyRemove, passkeyObject(k), fmt.Sprintf("passkey %q", k.Name), nil)
	return v.see("/passkeys")
}

// usable returns the person's passkeys that this page can ask for.
func (v passkeyVisit) usable() []passkey.Key {
	if v.opts.Passkeys == nil || v.opts.Challenge == nil || v.notHere() != "" {
		return nil
	}
	keys, err := v.opts.Passkeys.Of(v.r.Context(), v.who.Principal)
	if err != nil {
		v.opts.Logger.Error("passkeys cannot be read", "err", err)
		return nil
	}
	return slices.DeleteFunc(keys, func(k passkey.Key) bool { return k.Site != v.site })
}

// ask answers with what the browser asks a passkey, in JSON, for the decision of a form.
func (v passkeyVisit) ask() error {
	id := v.r.PathValue("id")
	keys := v.usable()
	if len(keys) == 0 {
		return &Problem{Status: http.StatusConflict, Detail: "you have no passkey for this page", Hint: "add one under Passkeys"}
	}
	var ap protocol.Approval
	if err := v.get("/v1/approvals/"+url.PathEscape(id), &ap); err != nil {
		return err
	}
	if slices.ContainsFunc(ap.Questions, func(q protocol.Question) bool { return q.Secret }) {
		return &Problem{Status: http.StatusConflict, Detail: "a passkey signs no secret answers", Hint: "answer with ctl and a FIDO key"}
	}
	d, err := v.decision(id)
	if err != nil {
		return err
	}
	challenge, err := v.opts.Challenge(ap, protocol.Decide{Approval: ap.ID, Digest: d.Digest, Outcome: d.Outcome, Scope: d.Scope, Answers: d.Answers, Grant: d.Grant})
	if err != nil {
		return &Problem{Status: http.StatusBadRequest, Detail: err.Error()}
	}
	may := []credentialID{}
	for _, k := range keys {
		may = append(may, credentialID{"public-key", k.ID, k.Transports})
	}
	raw, err := json.Marshal(map[string]any{"challenge": base64.RawURLEncoding.EncodeToString(challenge), "rpId": v.site.ID,
		"allowCredentials": may, "userVerification": "required", "timeout": freshFor.Milliseconds()})
	if err != nil {
		return err
	}
	v.w.Header().Set("Content-Type", "application/json")
	_, err = v.w.Write(raw)
	return err
}

// A credentialID names a passkey to a browser.
type credentialID struct {
	Type       string   `json:"type"`
	ID         string   `json:"id"`
	Transports []string `json:"transports,omitempty"`
}

// passkeyObject names a passkey in records.
func passkeyObject(k passkey.Key) string { return "passkey/" + k.ID[:min(len(k.ID), 43)] }

// unread answers while the store does not.
func (v passkeyVisit) unread(err error) error {
	v.opts.Logger.Error("passkeys cannot be read", "err", err)
	return &Problem{Status: http.StatusServiceUnavailable, Detail: "the passkeys cannot be read now", Hint: "the worker's log says why; try again in a moment"}
}
