package main

import build "fairlead.dev/fairlead/internal/version"

// version is the version of this build.
func version() string { return build.String() }
