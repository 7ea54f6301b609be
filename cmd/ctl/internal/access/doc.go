// Package access has the commands of `ctl access`: who may do what.
package access
