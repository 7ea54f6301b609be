package api

import (
	"fmt"
	"os"
	"strings"

	"fairlead.dev/fairlead/internal/config"
)

// Connect makes a client for a config. It trusts tls.ca, or else the worker's own tls.cert.
// It does not connect.
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
