// Scriptedmodel serves a scripted stand-in for OpenAI's Responses API.
//
//	scriptedmodel [--listen 127.0.0.1:0] [--script FILE]
//
// When it listens it prints one line of JSON, {"url":…,"base_url":…}; base_url
// is for codex's configuration. Without a script, every request is a surprise
// until one is PUT to url/script. It exits on SIGINT and SIGTERM. Package
// scriptedmodel describes scripts and the control paths.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"fairlead.dev/fairlead/internal/lab/scriptedmodel"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "scriptedmodel:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	listen := flag.String("listen", "127.0.0.1:0", "TCP address; there is no access control, so keep to loopback")
	file := flag.String("script", "", "script to answer by; YAML or JSON")
	flag.Parse()
	if flag.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", flag.Arg(0))
	}

	var script scriptedmodel.Script
	if *file != "" {
		var err error
		if script, err = scriptedmodel.Load(*file); err != nil {
			return err
		}
	}
	s, err := scriptedmodel.New(script, slog.New(slog.NewTextHandler(os.Stderr, nil)))
	if err != nil {
		return err
	}
	if err := s.Start(*listen); err != nil {
		return err
	}
	ready := map[string]string{"url": s.URL(), "base_url": s.BaseURL()}
	if err := json.NewEncoder(os.Stdout).Encode(ready); err != nil {
		_ = s.Close()
		return fmt.Errorf("print the address: %w", err)
	}
	<-ctx.Done()
	return s.Close()
}
