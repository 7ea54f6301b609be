// Package script holds the common parts of the scripts that run on hosts: quoting, the text
// of the fence, exit statuses, and the parsing of their answers. A quoted word arrives
// unchanged in dash, bash, busybox and mksh.
package script
