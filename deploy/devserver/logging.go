package main

import (
	"go.temporal.io/server/common/log"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// newLogger also returns a function that silences the logger (except at level debug),
// because the parts of a stopping server report each other's absence.
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
