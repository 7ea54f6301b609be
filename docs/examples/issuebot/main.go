package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "issuebot:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	fl := flag.NewFlagSet("issuebot", flag.ContinueOnError)
	listen := fl.String("listen", "127.0.0.1:8090", "address for GitHub's webhooks; put a server with TLS in front of it")
	secret := fl.String("secret-file", "", "file with the secret of the webhook")
	label := fl.String("label", "codex", "label that starts a session")
	state := fl.String("state", "issuebot", "folder that survives the program")
	api := fl.String("worker", "", "unix:///path or https://host:port of a worker")
	apiToken := fl.String("worker-token-file", "", "file with an API token, where the workers need one")
	github := fl.String("github", "https://api.github.com", "GitHub's API")
	githubToken := fl.String("github-token-file", "", "file with a token that may read and write issues")
	host := fl.String("host", "", "host of the sessions; by default any")
	seed := fl.String("seed", "", "seed of the sessions")
	sandbox := fl.String("sandbox", "read-only", "sandbox of the sessions")
	settle := fl.Duration("settle", 30*time.Second, "wait so long, after a comment was sent and the answer was lost, before it is looked for")
	if err := fl.Parse(args); err != nil {
		return err
	}
	b := &bot{label: *label, start: start{Host: *host, Seed: *seed, Sandbox: *sandbox, ApprovalPolicy: "never", CloseAfter: true}, log: slog.Default(), poll: 2 * time.Second, settle: *settle, pause: pause}
	for _, f := range []struct {
		name, file string
		to         *string
		need       bool
	}{{"-secret-file", *secret, &b.secret, true}, {"-github-token-file", *githubToken, &b.github.token, true}, {"-worker-token-file", *apiToken, &b.worker.token, false}} {
		if f.file == "" && !f.need {
			continue
		}
		text, err := os.ReadFile(f.file)
		if err != nil {
			return fmt.Errorf("%s: %w", f.name, err)
		}
		if *f.to = strings.TrimSpace(string(text)); *f.to == "" {
			return fmt.Errorf("%s: %s is empty", f.name, f.file)
		}
	}
	b.github.base, b.github.http = strings.TrimSuffix(*github, "/"), &http.Client{Timeout: time.Minute}
	b.worker.base, b.worker.http = strings.TrimSuffix(*api, "/"), &http.Client{Timeout: time.Minute}
	if path, is := strings.CutPrefix(*api, "unix://"); is {
		b.worker.base = "http://worker"
		b.worker.http.Transport = &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", path)
		}}
	} else if *api == "" {
		return errors.New("-worker is missing: unix:///path or https://host:port")
	}
	book, err := openBook(*state)
	if err != nil {
		return err
	}
	defer book.close()
	b.book = book
	return b.serve(ctx, *listen)
}
