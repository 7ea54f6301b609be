// Package leak looks for marked secrets wherever Fairlead keeps, prints or
// passes on anything: raw, in base64 however it lies in it, in hex, escaped for
// URLs and JSON. What it knows of these forms is its own: it does not ask the
// code that is to hide them.
//
// Its test lets sessions with every kind of seed go through a day with faults,
// has the agent print its credential, and then looks everywhere.
package leak
