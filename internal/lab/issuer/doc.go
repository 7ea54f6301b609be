// Package issuer is an identity provider for tests: the real OpenID Connect server of
// github.com/zitadel/oidc, with its device flow and its authorization code flow, and with keys
// that can be rotated.
package issuer
