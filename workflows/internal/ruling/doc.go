// Package ruling reads the policies of a session. All functions are pure, so workflows may
// call them.
package ruling
