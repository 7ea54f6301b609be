package conversation_test

import (
	"context"
	"fmt"
	"io"

	"fairlead.dev/fairlead/conversation"
	"fairlead.dev/fairlead/internal/protocol"
)

type transcript struct{}

func (transcript) Entry(e protocol.Entry) error     { fmt.Println(e.Seq, e.Type, e.Text); return nil }
func (transcript) Request(r protocol.Request) error { return nil }
func (transcript) Delta(protocol.Delta)             {}

// journal is a journal of an ended turn, for the example. hostexec attaches to the journals
// of live processes.
type journal struct {
	io.Reader
	io.Writer
	size int
}

func (j journal) Size() int64  { return int64(j.size) }
func (j journal) Close() error { return nil }

// A worker died after the turn had ended and before anybody knew. The next attempt
// finds everything in the journal and sends nothing.
func ExampleRun() {
	text := `{"id":"send/m-1/0","result":{"turn":{"id":"turn-1"}}}
{"method":"item/completed","params":{"threadId":"t","turnId":"turn-1","item":{"id":"u","type":"userMessage","clientId":"m-1","content":[{"type":"text","text":"Hello?"}]}}}
{"method":"item/completed","params":{"threadId":"t","turnId":"turn-1","item":{"id":"a","type":"agentMessage","text":"Good morning."}}}
{"method":"turn/completed","params":{"threadId":"t","turn":{"id":"turn-1","status":"completed"}}}
`
	pipe, in := io.Pipe()
	go func() { _, _ = io.WriteString(in, text) }() // codex stays alive
	wire := journal{Reader: pipe, Writer: io.Discard, size: len(text)}
	defer in.Close()
	result, err := conversation.Run(context.Background(), closing{wire, pipe}, conversation.PumpInput{
		Session: "hello",
		State:   conversation.PumpState{Cursor: protocol.Cursor{Incarnation: 1}, Opened: 1, ThreadID: "t"},
		Sends:   []conversation.Send{{ID: "m-1", Kind: conversation.SendTurn, Turn: 1, Text: "Hello?"}},
		Prefix:  "g1.p1",
	}, transcript{}, conversation.Options{Attempt: 2})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(result.Reason, result.Turn.Status, result.Deliveries[0].State)
	// Output:
	// 1 user Hello?
	// 2 assistant Good morning.
	// 3 state turn completed
	// turn_ended completed acknowledged
}

// closing ends the reading when the wire is closed, as a Wire must.
type closing struct {
	journal
	pipe *io.PipeReader
}

func (c closing) Close() error { return c.pipe.Close() }
