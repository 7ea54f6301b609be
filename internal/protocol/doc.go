// Package protocol has the types and names that workflows, activities, the worker's API and
// ctl use towards each other. It imports only the standard library, so that a program that
// only talks to a workflow needs no code of workflows or activities.
//
// A type belongs here if two of workflows, activities, the API and ctl name it. Three kinds
// of types do not: the state that a workflow carries from run to run; the input and result
// of an activity that only one workflow calls, which are beside the activity; and the types
// that a workflow exchanges with the pump, which are in conversation. Typed search
// attributes are in workflows, because they need Temporal's SDK.
//
// All types are recorded in histories and sent between workers of different versions. JSON
// names are never changed; testdata/golden in workflows lists them.
//
// The package is larger than others because it has the whole vocabulary that ctl, the API, the console
// and workflows share, and may import nothing of ours.
package protocol
