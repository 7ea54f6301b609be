// Package token has the commands of `ctl token`: API tokens of programs.
package token
