package login

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"
)

// A Code is what a person gives to the issuer, in a browser anywhere.
type Code struct {
	URL     string // where the code is entered
	Direct  string // the same with the code in it, or empty
	Code    string
	Expires time.Time
}

const (
	maxURL  = 2048 // bytes
	maxCode = 100
	// codeLife bounds the time for which a code is waited for.
	codeLife = 30 * time.Minute
)

// Device asks the issuer for a code, shows it, and waits until a person has entered it. It
// returns the ID token. The error wraps ErrIssuer or ErrRefused, or is that of ctx.
func Device(ctx context.Context, s Settings, show func(Code)) (idToken string, err error) {
	if !webPage(s.Issuer) {
		return "", fmt.Errorf("%w: the issuer %.200q is not https://… (http only on loopback)", ErrRefused, s.Issuer)
	}
	client := newClient(s.Issuer)
	defer client.CloseIdleConnections()
	ctx = oidc.ClientContext(ctx, client)
	provider, err := oidc.NewProvider(ctx, s.Issuer)
	if err != nil {
		return "", failed(ctx, fmt.Errorf("%w: read the settings of %s: %s", ErrIssuer, s.Issuer, brief(err)))
	}
	conf := &oauth2.Config{ClientID: s.ClientID, Endpoint: provider.Endpoint(), Scopes: s.Scopes}
	conf.Endpoint.AuthStyle = oauth2.AuthStyleInParams // a public client has no secret
	if conf.Endpoint.DeviceAuthURL == "" {
		return "", fmt.Errorf("%w: %s has no device flow (device_authorization_endpoint): have it turned on there", ErrRefused, s.Issuer)
	}
	asked, err := conf.DeviceAuth(ctx)
	if err != nil {
		return "", failed(ctx, answer(s, "ask for a code", err))
	}
	code, err := codeOf(s, asked)
	if err != nil {
		return "", err
	}
	show(code)
	waiting, cancel := context.WithDeadline(ctx, code.Expires)
	defer cancel()
	for {
		token, err := conf.DeviceAccessToken(waiting, asked)
		switch {
		case err == nil:
			id, _ := token.Extra("id_token").(string)
			if id == "" {
				return "", fmt.Errorf("%w: %s gave no ID token: login.scopes must have openid", ErrRefused, s.Issuer)
			}
			return id, nil
		case ctx.Err() != nil:
			return "", context.Cause(ctx)
		case waiting.Err() != nil || time.Now().After(code.Expires):
			return "", fmt.Errorf("%w: nobody entered the code within its time: log in again", ErrRefused)
		case !passing(err):
			return "", answer(s, "wait for the login", err)
		}
		// The library waits before it asks again.
	}
}

// failed returns the cause of ctx if it has ended, and else err.
func failed(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// passing reports whether to ask again: the network or the issuer failed, and the issuer did
// not say no.
func passing(err error) bool {
	var said *oauth2.RetrieveError
	if errors.As(err, &said) {
		return said.ErrorCode == "" && said.Response != nil && said.Response.StatusCode >= http.StatusInternalServerError
	}
	return network(err)
}

func answer(s Settings, doing string, err error) error {
	var said *oauth2.RetrieveError
	switch {
	case errors.As(err, &said) && said.ErrorCode == "access_denied":
		return fmt.Errorf("%w: it was denied at %s", ErrRefused, s.Issuer)
	case errors.As(err, &said) && said.ErrorCode == "expired_token":
		return fmt.Errorf("%w: nobody entered the code within its time: log in again", ErrRefused)
	case errors.As(err, &said) && said.ErrorCode != "":
		return fmt.Errorf("%w: %s at %s as client %q: %.40s %s", ErrRefused, doing, s.Issuer, s.ClientID, said.ErrorCode, brief(errors.New(said.ErrorDescription)))
	}
	return fmt.Errorf("%w: %s at %s: %s", ErrIssuer, doing, s.Issuer, brief(err))
}

// codeOf checks an answer: people open the address in it.
func codeOf(s Settings, asked *oauth2.DeviceAuthResponse) (Code, error) {
	c := Code{URL: asked.VerificationURI, Direct: asked.VerificationURIComplete, Code: asked.UserCode, Expires: time.Now().Add(codeLife)}
	if !asked.Expiry.IsZero() && asked.Expiry.Before(c.Expires) {
		c.Expires = asked.Expiry
	}
	odd := strings.ContainsFunc(c.Code, func(r rune) bool { return !unicode.IsPrint(r) })
	switch {
	case !webPage(c.URL) || c.Direct != "" && !webPage(c.Direct):
		return Code{}, fmt.Errorf("%w: %s names no page (https://…) for the code", ErrRefused, s.Issuer)
	case c.Code == "" || len(c.Code) > maxCode || odd || asked.DeviceCode == "":
		return Code{}, fmt.Errorf("%w: %s gave no code that a person could enter", ErrRefused, s.Issuer)
	}
	return c, nil
}

func webPage(s string) bool {
	u, err := url.Parse(s)
	if err != nil || u.Host == "" || u.User != nil || len(s) > maxURL {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	return u.Scheme == "https" || u.Scheme == "http" && (u.Hostname() == "localhost" || ip != nil && ip.IsLoopback())
}
