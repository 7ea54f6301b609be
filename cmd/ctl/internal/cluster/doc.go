// Package cluster has `ctl cluster`, `ctl capacity` and `ctl recover`. The first finds and makes
// what a Temporal cluster lacks for Fairlead. The second estimates what a load takes. The third
// reconciles seeds with the store after Temporal's database was restored.
package cluster
