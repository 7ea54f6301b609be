// Package start has what commands that start sessions share: flags, options, checks, and
// what goes with the message.
package start
