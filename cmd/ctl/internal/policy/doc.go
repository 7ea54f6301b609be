// Package policy is `ctl policy`: checking a policy's file, and trying its rules on
// a request.
package policy
