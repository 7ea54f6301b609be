// Package notify has `ctl notify`: what people were told, by which rules, and a test.
package notify
