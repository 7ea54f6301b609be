package main

import (
	"io"
	"net"
	"testing"

	"go.temporal.io/server/common/log"
)

// says accepts connections, and says a word on each before it echoes.
func says(t *testing.T, word string) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				io.WriteString(c, word)
				io.Copy(c, c)
			}()
		}
	}()
	return l.Addr().String()
}

func TestConnectionsAreSpreadOverFrontends(t *testing.T) {
	port, err := freePort("127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	at := hostPort("127.0.0.1", port)
	b, err := startBalancer(at, []string{says(t, "a"), says(t, "b")}, log.NewNoopLogger())
	if err != nil {
		t.Fatal(err)
	}
	heard := map[string]int{}
	var last net.Conn
	for range 4 {
		if last, err = net.Dial("tcp", at); err != nil {
			t.Fatal(err)
		}
		defer last.Close()
		word, echo := make([]byte, 1), make([]byte, 4)
		if _, err := io.ReadFull(last, word); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(last, "back"); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(last, echo); err != nil || string(echo) != "back" {
			t.Fatalf("%s answers %q, %v", word, echo, err)
		}
		heard[string(word)]++
	}
	if heard["a"] != 2 || heard["b"] != 2 {
		t.Errorf("of four connections each frontend has %v", heard)
	}
	b.stop()
	if _, err := last.Read(make([]byte, 1)); err == nil {
		t.Error("a connection outlives the balancer")
	}
}
