// Package script holds what the scripts that run on hosts have in common: words of shell,
// the text of the fence, exit statuses, and what their answers mean.
//
// A quoted word arrives unchanged in dash, bash, busybox and mksh. The fence's text does
// not change the script's positional parameters. Its variables and functions have names
// that begin with fl_, and it uses file descriptor 9.
package script
