// Package certs has the certificates with which the programs of a local stack prove to each
// other that they belong to one user.
//
// A folder holds an authority and what it has signed:
//
//	ca.key      the authority's private key
//	ca.pem      its certificate, which both sides trust
//	server.pem  certificate and key of the Temporal server, for 127.0.0.1, ::1 and localhost
//	client.pem  certificate and key of ctl, workers and other clients
//
// All are ECDSA keys on P-256, mode 0600. A certificate and its key are one file, which is
// replaced as a whole: a reader finds the old pair or the new one, also after a crash.
//
// Ensure makes what is missing, damaged or near its end. The authority's certificate is
// renewed with the same key, so both of its certificates verify what the other one verifies.
// Client returns a configuration that reads the files at each handshake. So a renewal needs no
// restart.
package certs
