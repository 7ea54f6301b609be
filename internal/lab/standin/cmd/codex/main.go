// Command codex stands in for the real one; see package standin.
package main

import (
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"syscall"

	"fairlead.dev/fairlead/internal/lab/standin"
)

func main() {
	switch {
	case len(os.Args) == 2 && os.Args[1] == "--version":
		fmt.Println("codex-cli " + standin.Version)
		return
	case len(os.Args) != 2 || os.Args[1] != "app-server":
		fmt.Fprintln(os.Stderr, "usage: codex app-server | codex --version (this is a stand-in)")
		os.Exit(2)
	}
	// Hundreds of these processes run: prefer little memory to speed.
	runtime.GOMAXPROCS(1)
	debug.SetGCPercent(30)
	s, err := standin.New(os.Getenv("CODEX_HOME"), os.Stdout, os.Stderr)
	if err != nil {
		fmt.Fprintln(os.Stderr, "codex:", err)
		os.Exit(1)
	}
	told := make(chan os.Signal, 1)
	signal.Notify(told, syscall.SIGTERM, os.Interrupt)
	go func() {
		<-told
		s.Abort()
		os.Exit(0)
	}()
	s.Serve(os.Stdin)
	s.Abort()
}
