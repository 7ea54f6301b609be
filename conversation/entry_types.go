package conversation

import (
	"fairlead.dev/fairlead/internal/protocol"
)

// A Sink receives what a pump folds, in order, from one goroutine. An error ends the pump.
// An entry that the sink refused does not count as applied.
type Sink interface {
	// Entry takes a finished entry. A second attempt gives the same ones again.
	Entry(protocol.Entry) error
	// Request takes a newly seen request, uncut.
	Request(protocol.Request) error
	// Delta takes a live piece of text; it must not block for long.
	Delta(protocol.Delta)
}
