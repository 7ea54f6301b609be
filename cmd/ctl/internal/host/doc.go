// Package host is `ctl host` and `ctl pool`: the inventory of hosts, tasks on hosts, and
// pools of slots.
package host
