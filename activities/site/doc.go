// Package site is what one worker's activities share: Deps, the connections and limits that
// the worker is given, and a Site, which has them and what the worker remembers. No state in
// a Site must survive a restart. A Site is safe for concurrent use.
//
// The package also knows the secrets of a session (Secrets), which every activity hides in
// what it stores, publishes and returns.
package site
