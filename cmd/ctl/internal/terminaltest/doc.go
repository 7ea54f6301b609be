// Package terminaltest gives tests a real terminal. It supports only Linux.
package terminaltest
