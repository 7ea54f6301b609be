// Package host is `ctl host` and `ctl pool`: the inventory of hosts, imports and
// exports of it, tasks on hosts, and the pools that give out their slots.
package host
