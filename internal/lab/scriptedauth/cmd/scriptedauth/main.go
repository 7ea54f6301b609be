// Scriptedauth serves a scripted stand-in for the issuer of ChatGPT logins.
//
//	scriptedauth [--listen 127.0.0.1:0]
//
// When it listens it prints one line of JSON, {"issuer":…,"token_endpoint":…},
// the values of seeds.issuer and seeds.token_endpoint in a config file. It
// exits on SIGINT and SIGTERM. Package scriptedauth describes the control
// paths.
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

	"fairlead.dev/fairlead/internal/lab/scriptedauth"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "scriptedauth:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	listen := flag.String("listen", "127.0.0.1:0", "TCP address; there is no access control, so keep to loopback")
	flag.Parse()
	if flag.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", flag.Arg(0))
	}
	s := scriptedauth.New(slog.New(slog.NewTextHandler(os.Stderr, nil)))
	if err := s.Start(*listen); err != nil {
		return err
	}
	ready := map[string]string{"issuer": s.Issuer(), "token_endpoint": s.TokenEndpoint()}
	if err := json.NewEncoder(os.Stdout).Encode(ready); err != nil {
		_ = s.Close()
		return fmt.Errorf("print the address: %w", err)
	}
	<-ctx.Done()
	return s.Close()
}
