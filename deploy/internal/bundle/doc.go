// Package bundle writes tar archives whose bytes depend on their content alone, for releases
// and for the layers of images.
//
// Entries are sorted. Each has the same time, root as its owner unless it names another one,
// and a mode that the caller states: nothing of the machine that builds gets in. Compression
// depends on the version of the compressor, which go.mod pins.
package bundle
