package main

import (
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"time"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:8080", "`address` to serve")
	secretFile := flag.String("secret-file", "", "`file` with the secrets of the workers' config, one in a line")
	name := flag.String("file", "tickets.jsonl", "`file` that keeps the tickets")
	flag.Parse()
	secrets, err := readSecrets(*secretFile)
	if err != nil {
		log.Fatalf("ticketdesk: %v", err)
	}
	d, err := openDesk(*name, secrets)
	if err != nil {
		log.Fatalf("ticketdesk: %v", err)
	}
	l, err := net.Listen("tcp", *listen)
	if err != nil {
		log.Fatalf("ticketdesk: %v", err)
	}
	fmt.Printf("listening on %s\n", l.Addr())
	server := &http.Server{Handler: d, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 30 * time.Second}
	log.Fatalf("ticketdesk: %v", server.Serve(l))
}
