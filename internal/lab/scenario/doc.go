// Package scenario is the engine of the rigs that strike a running system and
// judge the outcome. It has what such rigs share: random choices that a seed
// decides, strikes that are carried out each at its time, findings, tables, and
// the frame of the command. What is struck, and what is wrong, is theirs.
//
// A rig plans from a seed, carries the plan out, and makes a Result of each
// thing that it judges. It has succeeded if it has results and all are clean.
// Result and Strike are not safe for concurrent use; the functions are.
package scenario
