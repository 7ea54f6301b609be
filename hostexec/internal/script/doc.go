// Package script holds the common parts of the scripts that run on hosts: quoting, the text
// of the fence, exit statuses, and the parsing of their answers.
//
// A quoted word arrives unchanged in dash, bash, busybox and mksh. The fence's text does
// not change the script's positional parameters. Its variables and functions have names
// that begin with fl_, and it uses file descriptor 9.
package script
