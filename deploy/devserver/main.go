package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"syscall"
)

const (
	exitDone    = 0
	exitFailed  = 1
	exitUsage   = 2
	exitRefused = 6
)

func main() {
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

func run(args []string, stdout, stderr io.Writer) int {
	switch {
	case len(args) == 1 && args[0] == "version":
		json.NewEncoder(stdout).Encode(map[string]string{"server": serverVersion, "ui": uiVersion})
		return exitDone
	case len(args) >= 2 && args[0] == "server" && args[1] == "start-dev":
		return start(args[2:], stdout, stderr)
	case len(args) == 1 && slices.Contains([]string{"help", "--help", "-h"}, args[0]):
		fmt.Fprint(stdout, usage())
		return exitDone
	}
	fmt.Fprintf(stderr, "devserver: no such command\n%s", usage())
	return exitUsage
}

func start(args []string, stdout, stderr io.Writer) int {
	o, err := parse(args)
	if errors.Is(err, errHelp) {
		fmt.Fprint(stdout, usage())
		return exitDone
	}
	if err != nil {
		fmt.Fprintln(stderr, "devserver:", err)
		return exitUsage
	}
	// A second signal ends the process at once, which the database survives.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)
	if err := serve(ctx, o, stdout); err != nil {
		fmt.Fprintln(stderr, "devserver:", err)
		if r := (refusal{}); errors.As(err, &r) {
			return exitRefused
		}
		return exitFailed
	}
	return exitDone
}
