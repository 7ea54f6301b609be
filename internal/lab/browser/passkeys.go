package browser

import (
	"github.com/chromedp/cdproto/webauthn"
	"github.com/chromedp/chromedp"
)

// Authenticator gives the tab an authenticator with a new passkey store, whose person is always
// there and verified.
func (b *Tab) Authenticator() webauthn.AuthenticatorID {
	b.Helper()
	Call(b, webauthn.Enable, webauthn.EnableParams{})
	out, err := chromedp.Call(b.Ctx, webauthn.AddVirtualAuthenticator, webauthn.AddVirtualAuthenticatorParams{Options: &webauthn.VirtualAuthenticatorOptions{
		Protocol: webauthn.AuthenticatorProtocolCtap2, Transport: webauthn.AuthenticatorTransportInternal,
		HasResidentKey: true, HasUserVerification: true, IsUserVerified: true, AutomaticPresenceSimulation: true,
	}})
	if err != nil {
		b.Fatal(err)
	}
	return out.AuthenticatorID
}
