// Package audit is `ctl audit`: the record of who did what.
package audit
