// Package alarm tests the alerts of deploy/observability with promtool, Prometheus's own program. A
// [History] has the values that Prometheus would have read from workers, minute by minute, and says
// which alerts must fire at which minute. Its values may be those that a real worker served.
package alarm
