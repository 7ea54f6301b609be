// Package login turns a login at an identity provider into an SSH certificate that signs
// commands for some hours.
//
//   - A [Desk] belongs to a worker. It verifies an ID token of OpenID Connect, and signs a
//     certificate for the key of the caller.
//   - A [Verifier] says whom an ID token names, and which groups.
//   - [Device] is the caller's part: the device flow (RFC 8628), at the end of which the
//     identity provider gives an ID token.
//   - [Prove] shows that the caller has the private key for which a certificate is asked.
//
// The identity provider is called the issuer. It is asked when somebody logs in and at no
// other time: a certificate counts until its end, whether the issuer can be reached or not.
// The access file says whether a certificate counts, and for which names.
//
// What an issuer or a caller sends is bounded in size and time. Tokens are in no error and in
// no log.
package login
