package login

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"
)

// A Browser logs people in by the authorization code flow with PKCE (RFC 7636). It is safe for
// concurrent use.
type Browser struct {
	settings Settings
	verifier *Verifier
	slots    chan struct{}
}

// A Flow is a login that has begun. Whoever finishes it must be who began it: keep it in that
// person's browser, where no other reads it, and compare State.
type Flow struct {
	State    string `json:"state"`
	Nonce    string `json:"nonce"`
	Verifier string `json:"verifier"`
	// Again is the moment of Begin, in seconds since 1970, if the issuer is to ask the person again.
	Again int64 `json:"again,omitempty"`
}

// NewBrowser does not ask the issuer yet.
func NewBrowser(s Settings, c Claims) *Browser {
	return &Browser{settings: s, verifier: NewVerifier(s, c, nil), slots: make(chan struct{}, atOnce)}
}

// Close closes idle connections.
func (b *Browser) Close() { b.verifier.Close() }

// Begin returns the page of the issuer where the person logs in. The issuer sends the browser
// to redirect. again asks the issuer to have the person log in even if it knows the browser. The
// error wraps ErrIssuer or ErrRefused.
func (b *Browser) Begin(ctx context.Context, redirect string, again bool) (to string, f Flow, err error) {
	conf, err := b.config(ctx, redirect)
	if err != nil {
		return "", f, err
	}
	if !webPage(conf.Endpoint.AuthURL) {
		return "", f, fmt.Errorf("%w: %s names no page to log in at (authorization_endpoint)", ErrRefused, b.settings.Issuer)
	}
	f = Flow{State: rand.Text(), Nonce: rand.Text(), Verifier: oauth2.GenerateVerifier()}
	opts := []oauth2.AuthCodeOption{oidc.Nonce(f.Nonce), oauth2.S256ChallengeOption(f.Verifier)}
	if again {
		f.Again = b.verifier.now().Unix()
		opts = append(opts, oauth2.SetAuthURLParam("prompt", "login"), oauth2.SetAuthURLParam("max_age", "0"))
	}
	return conf.AuthCodeURL(f.State, opts...), f, nil
}

// Finish exchanges the code with which the browser came back for an ID token, and says whom it
// names.
func (b *Browser) Finish(ctx context.Context, redirect string, f Flow, code string) (Person, error) {
	if code == "" || len(code) > maxURL || f.Nonce == "" {
		return Person{}, fmt.Errorf("%w: the issuer gave no code", ErrRefused)
	}
	select {
	case b.slots <- struct{}{}:
		defer func() { <-b.slots }()
	case <-ctx.Done():
		return Person{}, fmt.Errorf("%w: many log in at once: %w", ErrIssuer, context.Cause(ctx))
	}
	conf, err := b.config(ctx, redirect)
	if err != nil {
		return Person{}, err
	}
	token, err := conf.Exchange(oidc.ClientContext(ctx, b.verifier.http), code, oauth2.VerifierOption(f.Verifier))
	if err != nil {
		return Person{}, failed(ctx, answer(b.settings, "finish the login", err))
	}
	id, _ := token.Extra("id_token").(string)
	if id == "" {
		return Person{}, fmt.Errorf("%w: %s gave no ID token: login.scopes must have openid", ErrRefused, b.settings.Issuer)
	}
	who, err := b.verifier.Verify(ctx, id, f.Nonce)
	if err != nil || f.Again == 0 {
		return who, err
	}
	// What asks for it passes through the browser, where people can take it out, and some issuers
	// ignore it. The claim is signed.
	switch begun := time.Unix(f.Again, 0); {
	case who.AskedAt.IsZero():
		return Person{}, fmt.Errorf("%w: the ID token of %s does not say when the issuer asked you (claim auth_time): let the issuer send that claim", ErrRefused, b.settings.Issuer)
	case who.AskedAt.Before(begun.Add(-skew)):
		return Person{}, fmt.Errorf("%w: %s did not ask you again: its ID token says that it asked you at %s (claim auth_time): log out there, and log in again", ErrRefused, b.settings.Issuer, who.AskedAt.UTC().Format(time.RFC3339))
	}
	return who, nil
}

func (b *Browser) config(ctx context.Context, redirect string) (*oauth2.Config, error) {
	issuer, err := b.verifier.keys(ctx) // which are kept, so that strangers cannot flood the issuer
	if err != nil {
		return nil, failed(ctx, err)
	}
	conf := &oauth2.Config{ClientID: b.settings.ClientID, Endpoint: issuer.at, Scopes: b.settings.Scopes, RedirectURL: redirect}
	conf.Endpoint.AuthStyle = oauth2.AuthStyleInParams // a public client has no secret
	return conf, nil
}
