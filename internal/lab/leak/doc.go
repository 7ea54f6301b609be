// Package leak looks for marked secrets wherever Fairlead stores, prints or
// passes on anything: raw, in base64 at any offset, in hex, escaped for URLs
// and JSON. It does not use the code that hides secrets.
//
// Its test runs sessions with every kind of seed through a day with faults,
// lets the agent print its credential, and then searches everything.
package leak
