package teamtool

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"path"
	"strings"
)

// A Target is a webhook, or a tree of them, that a worker may call.
type Target struct {
	// URL is one webhook; if it ends in a slash, all below it.
	URL string
	// SecretFile has the secrets that sign calls, one in a line.
	SecretFile string
}

// CheckTarget returns an error if raw cannot be the URL of a Target.
func CheckTarget(raw string) error {
	u, err := parseURL(raw)
	if err != nil {
		return err
	}
	if u.Path == "" {
		return errors.New("it has no path: end it in a slash to allow all of the server")
	}
	return nil
}

// parseURL reads the URL of a webhook. It refuses forms that two readers might take for
// different places.
func parseURL(raw string) (*url.URL, error) {
	u, err := url.Parse(raw)
	switch {
	case err != nil || u.Host == "" || u.Opaque != "":
		return nil, errors.New("it is not a URL such as https://tools.example.com/lookup")
	case u.User != nil:
		return nil, errors.New("a URL must not hold a password")
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "" || strings.Contains(raw, "#"):
		return nil, errors.New("it has a query or a fragment: want only scheme, host and path")
	case u.RawPath != "" || strings.ContainsAny(u.Path, "%\\") || u.Path != "" && path.Clean(u.Path) != strings.TrimSuffix(u.Path, "/") && u.Path != "/":
		return nil, errors.New("its path is not plain: no escapes, double slashes, dots as names")
	case u.Scheme == "https", u.Scheme == "http" && loopback(u.Hostname()):
	default:
		return nil, errors.New("want https (http only to this machine, such as http://127.0.0.1:8080/lookup)")
	}
	u.Scheme, u.Host = strings.ToLower(u.Scheme), strings.ToLower(u.Host)
	return u, nil
}

func loopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

// Find returns the target that allows a webhook: the one with the longest path.
func Find(targets []Target, webhook string) (Target, error) {
	u, err := parseURL(webhook)
	if err != nil {
		return Target{}, err
	}
	var best Target
	for _, t := range targets {
		a, err := parseURL(t.URL)
		if err != nil || a.Scheme != u.Scheme || a.Host != u.Host {
			continue
		}
		if (a.Path == u.Path || strings.HasSuffix(a.Path, "/") && strings.HasPrefix(u.Path, a.Path)) && len(t.URL) > len(best.URL) {
			best = t
		}
	}
	if best.URL == "" {
		return best, fmt.Errorf("the workers' config does not allow %s", webhook)
	}
	return best, nil
}
