// Package bom lists what our programs and images are made of, as a CycloneDX bill of materials.
//
// What a program is linked from is read from the program itself (debug/buildinfo). codex is
// listed as the npm package that it was taken from, with the digest that pins it.
package bom
