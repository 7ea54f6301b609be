package main

import (
	"go.temporal.io/server/common/log"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// newLogger returns a logger to standard error and a function that silences it
// (but at level debug): the parts of a server that stops complain at length of
// each other's absence, and nobody should look for a fault there.
func newLogger(level, format string) (log.Logger, func()) {
	if level == "never" {
		return log.NewNoopLogger(), func() {}
	}
	c := log.Config{Level: level, Format: "json"}
	if format != "json" {
		c.Format = "console"
	}
	z := log.BuildZapLogger(c)
	from := zap.NewAtomicLevelAt(zapcore.LevelOf(z.Core()))
	quiet := func() {
		if from.Level() > zap.DebugLevel {
			from.SetLevel(zap.FatalLevel)
		}
	}
	return log.NewZapLogger(z.WithOptions(zap.IncreaseLevel(from))), quiet
}
