package config

import (
	"net/url"
	"path/filepath"
	"strings"
)

// Private returns the paths of a worker's machine that no command of a session must read:
// the config file and the keys, tokens and folders that it names.
func (c *Config) Private() []string {
	all := []string{c.path, c.Temporal.APIKeyFile, c.Temporal.PayloadKey, c.Temporal.WorkerPayloadKey, c.Store.Identity, c.API.TokenFile, c.API.ReadTokenFile, c.WorkerKey, c.TokenFile, c.Login.CertificateKey, c.State, c.Notifications, c.Console.LinkKey}
	for _, w := range c.Tools.Webhooks {
		all = append(all, w.SecretFile)
	}
	for _, q := range c.Tools.Activities {
		all = append(all, q.KeyFile)
	}
	for _, t := range []*TLS{c.Temporal.TLS, c.API.TLS} {
		if t != nil {
			all = append(all, t.Key)
		}
	}
	if t := c.Console.TLS; t != nil {
		all = append(all, t.Key)
	}
	if u, err := url.Parse(c.Store.URL); err == nil && u.Scheme == "file" {
		all = append(all, u.Path)
	}
	for _, at := range []string{c.API.Listen, c.API.Address, c.API.CodecListen} {
		if socket, is := strings.CutPrefix(at, "unix://"); is {
			all = append(all, socket)
		}
	}
	if with := c.SignWith; with != "agent" && !strings.HasPrefix(with, "agent:") {
		all = append(all, with)
	}
	var named []string
	for _, p := range append(all, c.Hosts.DenyRead...) {
		if filepath.IsAbs(p) || strings.HasPrefix(p, "~/") {
			named = append(named, p)
		}
	}
	return named
}
