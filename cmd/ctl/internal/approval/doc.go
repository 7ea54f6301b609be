// Package approval is `ctl approval`: listing, deciding, answering and signing.
package approval
