package login

import (
	"context"
	"crypto/rand"
	"fmt"

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
}

// NewBrowser does not ask the issuer yet.
func NewBrowser(s Settings, c Claims) *Browser {
	return &Browser{settings: s, verifier: NewVerifier(s, c, nil), slots: make(chan struct{}, atOnce)}
}

// Close closes idle connections.
func (b *Browser) Close() { b.verifier.Close() }

// Begin returns the page of the issuer where the person logs in. The issuer sends the browser
// to redirect. The error wraps ErrIssuer or ErrRefused.
func (b *Browser) Begin(ctx context.Context, redirect string) (to string, f Flow, err error) {
	conf, err := b.config(ctx, redirect)
	if err != nil {
		return "", f, err
	}
	if !webPage(conf.Endpoint.AuthURL) {
		return "", f, fmt.Errorf("%w: %s names no page to log in at (authorization_endpoint)", ErrRefused, b.settings.Issuer)
	}
	f = Flow{State: rand.Text(), Nonce: rand.Text(), Verifier: oauth2.GenerateVerifier()}
	return conf.AuthCodeURL(f.State, oidc.Nonce(f.Nonce), oauth2.S256ChallengeOption(f.Verifier)), f, nil
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
	return b.verifier.Verify(ctx, id, f.Nonce)
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
