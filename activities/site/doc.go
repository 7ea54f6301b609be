// Package site has what one worker's activities share: Deps, the worker's connections and
// limits, and Site, which adds what the worker remembers. No state in a Site must survive a
// restart. A Site is safe for concurrent use. Secrets are what activities hide in all that
// they store, publish and return.
package site
