// Package stranger does things as another user of this machine, for tests of what such a user
// must not achieve. It needs root and Linux.
package stranger
