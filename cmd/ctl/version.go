package main

import build "fairlead.dev/fairlead/internal/version"

func version() string { return build.String() }
