package conn

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"

	"fairlead.dev/fairlead/cmd/ctl/internal/core"
	"fairlead.dev/fairlead/internal/api"
	"fairlead.dev/fairlead/internal/config"
	"fairlead.dev/fairlead/internal/localsocket"
)

// Whoever may poll a task queue can write any address into Temporal. ctl sends tokens, seeds
// and secret answers to workers, so such an address is only a hint. ctl uses it if
//
//   - it is a unix socket: before anything is sent, the kernel says that we, root or api.owner
//     listen there; or
//   - it is https: the worker proves itself with a certificate of api.tls.ca; or
//   - the config or the state folder names it.

// errUntrusted means that nothing shows that an address is a worker's.
var errUntrusted = errors.New("not asked")

// checkHint returns an errUntrusted if ctl must not use an address that Temporal names. known
// are the addresses that the config and the state folder name.
func checkHint(endpoint string, conf config.API, known []string) error {
	u, err := url.Parse(endpoint)
	if err != nil {
		return fmt.Errorf("%w: %v", errUntrusted, err)
	}
	switch {
	case slices.Contains(known, plain(endpoint)):
		return nil
	case u.Scheme == "unix": // checked when it is dialled
		return nil
	case u.Scheme == "https" && conf.TLS != nil && (conf.TLS.CA != "" || conf.TLS.Cert != ""):
		return nil
	case u.Scheme == "https":
		return fmt.Errorf("%w: Temporal alone names this address, and there is no CA to check its certificate with (set api.tls.ca to the CA of the workers, or list the address in api.workers)", errUntrusted)
	}
	return fmt.Errorf("%w: Temporal alone names this address, and plain HTTP does not show who answers (let the worker listen on a unix socket or with a certificate, or list the address in api.workers)", errUntrusted)
}

// distrusts reports whether a worker was not asked, or got nothing, because it did not prove
// that it is one.
func distrusts(err error) bool {
	var cert *tls.CertificateVerificationError
	return errors.Is(err, errUntrusted) || errors.Is(err, localsocket.ErrStranger) || errors.Is(err, localsocket.ErrFolder) || errors.As(err, &cert)
}

// configured returns the addresses that the config names, in the order in which ctl tries
// them.
func configured(conf config.API) (addresses []string) {
	for _, address := range append([]string{conf.Address}, conf.Workers...) {
		if address != "" {
			addresses = append(addresses, address)
		}
	}
	return addresses
}

// knownAddresses returns the addresses that need no further proof than what protects the
// config and the state folder.
func knownAddresses(a *core.App, conf config.API) (known []string) {
	for _, address := range configured(conf) {
		known = append(known, plain(address))
	}
	if host, port, err := net.SplitHostPort(conf.Listen); err == nil {
		scheme := "http://"
		if conf.TLS != nil && conf.TLS.Cert != "" {
			scheme = "https://"
		}
		known = append(known, scheme+conf.Listen)
		if host == "localhost" {
			known = append(known, scheme+net.JoinHostPort("127.0.0.1", port), scheme+net.JoinHostPort("::1", port))
		}
	}
	if info, err := Stack(a); err == nil {
		for _, w := range info.Workers {
			known = append(known, plain(w.API))
		}
	}
	return known
}

func plain(endpoint string) string { return strings.TrimSuffix(endpoint, "/") }

// apiClient returns a client for an address that the config or the state folder names.
func apiClient(a *core.App, endpoint string) (*api.Client, error) {
	conf, err := a.Config()
	if err != nil {
		return nil, err
	}
	proof, err := proofOf(a, conf)
	if err != nil {
		return nil, err
	}
	c, err := api.Connect(endpoint, conf.API, proof)
	switch {
	case errors.Is(err, api.ErrConfig):
		return nil, core.Usage("%v", err).Hinted("check the section api of the config").Because(err)
	case err != nil:
		return nil, core.Failed("%v", err)
	}
	a.OnClose(c)
	return c, nil
}

// hinted returns a client for an address that Temporal names, or an errUntrusted.
func hinted(a *core.App, endpoint string) (*api.Client, error) {
	conf, err := a.Config()
	if err != nil {
		return nil, err
	}
	if err := checkHint(endpoint, conf.API, knownAddresses(a, conf.API)); err != nil {
		return nil, err
	}
	return apiClient(a, endpoint)
}

// warn tells the user, once, that a session's worker is not asked.
func (t *Conn) warn(endpoint string, err error) {
	if _, told := t.warned.LoadOrStore(endpoint, true); !told {
		t.App.Note("the worker at %s: %s", core.Clean(endpoint), core.Clean(err.Error()))
	}
}
