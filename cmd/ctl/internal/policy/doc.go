// Package policy is `ctl policy`: checking a policy and trying it on a request.
package policy
