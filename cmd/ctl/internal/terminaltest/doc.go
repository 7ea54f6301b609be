// Package terminaltest gives tests a real terminal. It has one on Linux only.
package terminaltest
