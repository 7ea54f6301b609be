// Package access decides what a principal may do, by one file of people, groups, roles and
// conditions.
//
// A file that [Parse] accepts is whole: every key can be read, every name in it is known,
// and every condition compiles. [Access] is immutable and safe for concurrent use. A
// decision depends only on the file and the request, and its work is bounded. What no
// binding allows is refused. A condition that fails allows nothing.
//
// The package verifies no signature: [Access.Signers] says whose signatures count.
package access
