package config

import (
	"net"
	"net/url"
	"time"
)

// Loopback reports whether the console listens on loopback.
func (c *Console) Loopback() bool {
	host, _, err := net.SplitHostPort(c.Listen)
	ip := net.ParseIP(host)
	return err == nil && (host == "localhost" || ip != nil && ip.IsLoopback())
}

// Address returns the address that people open.
func (c *Console) Address() string {
	switch {
	case c.Listen == "":
		return ""
	case c.URL != "":
		return c.URL
	case c.TLS != nil && c.TLS.Cert != "":
		return "https://" + c.Listen
	}
	return "http://" + c.Listen
}

func (c *Config) checkConsole() (p []Problem) {
	add := func(key, format string, args ...any) { p = append(p, c.at(key, format, args...)) }
	k := &c.Console
	if k.Listen == "" {
		if k.URL != "" || k.TLS != nil || k.LinkKey != "" || k.ClientID != "" {
			add("console.listen", "it is missing, and the rest of console says that there is to be one")
		}
		return p
	}
	if _, _, err := net.SplitHostPort(k.Listen); err != nil {
		add("console.listen", "%q is not host:port", shorten(k.Listen))
	}
	if k.TLS != nil && (k.TLS.Cert == "" || k.TLS.Key == "") {
		add("console.tls", "cert and key go together")
	}
	if !k.Loopback() && k.TLS == nil {
		add("console.listen", "%s is not a loopback address: set console.tls", shorten(k.Listen))
	}
	if k.URL != "" {
		u, err := url.Parse(k.URL)
		if err != nil || u.Host == "" || u.Scheme != "https" && !(u.Scheme == "http" && k.Loopback()) || u.Path != "" || u.RawQuery != "" || u.User != nil {
			add("console.url", "%q is not an address such as https://fairlead.example.com, without a path", shorten(k.URL))
		}
	}
	if k.Lifetime < time.Minute || k.Lifetime > 7*24*time.Hour {
		add("console.lifetime", "%s is not between 1m and 168h", k.Lifetime)
	}
	return p
}
