// Package script holds what the scripts that run on hosts have in common: words of shell,
// the text of the fence, exit statuses, and what their answers mean.
//
// A quoted word arrives unchanged in dash, bash, busybox and mksh. The fence's text leaves
// the script's positional parameters alone, and uses only names that begin with fl_ and
// descriptor 9.
package script
