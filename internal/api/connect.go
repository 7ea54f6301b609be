package api

import (
	"fmt"
	"os"
	"strings"

	"fairlead.dev/fairlead/internal/config"
)

// Connect makes a client with the token and the trusted certificate of a config:
// tls.ca, or the worker's own tls.cert if both share a config. It does not connect.
func Connect(endpoint string, conf config.API) (*Client, error) {
	var opts ClientOptions
	if conf.TokenFile != "" {
		token, err := os.ReadFile(conf.TokenFile)
		if err != nil {
			return nil, fmt.Errorf("read the API's token: %w", err)
		}
		opts.Token = strings.TrimSpace(string(token))
	}
	if t := conf.TLS; t != nil {
		opts.CA, opts.ServerName = t.CA, t.ServerName
		if opts.CA == "" {
			opts.CA = t.Cert
		}
	}
	return NewClient(endpoint, opts)
}
