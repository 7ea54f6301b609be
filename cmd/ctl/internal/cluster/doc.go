// Package cluster has `ctl cluster`: what a Temporal cluster lacks for Fairlead.
package cluster
