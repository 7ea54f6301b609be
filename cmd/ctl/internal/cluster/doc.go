// Package cluster has `ctl cluster`, what a Temporal cluster lacks for Fairlead, and `ctl
// recover`, what to do after its database was restored.
package cluster
