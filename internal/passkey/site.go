package passkey

import (
	"fmt"
	"net"
	"net/url"
)

// A Site is where people register and use passkeys: the console.
type Site struct {
	ID     string `json:"rp_id"`  // the domain that passkeys belong to (the relying party's id)
	Origin string `json:"origin"` // the address of its pages, without a path
}

// SiteOf returns the site of a console. Browsers keep passkeys for names only. So a console at a
// loopback address is reached as localhost, and one at another address without a name has no site.
func SiteOf(address string) (Site, error) {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		return Site{}, fmt.Errorf("%.100q is not the address of a console", address)
	}
	name := u.Hostname()
	if ip := net.ParseIP(name); ip != nil {
		if !ip.IsLoopback() {
			return Site{}, fmt.Errorf("browsers keep no passkeys for the address %s, because it is no name: set console.url to an https address with a name", address)
		}
		name = "localhost"
	}
	if u.Scheme != "https" && name != "localhost" {
		return Site{}, fmt.Errorf("browsers keep no passkeys for %s: set console.url to an https address", address)
	}
	s := Site{ID: name, Origin: u.Scheme + "://" + name}
	if port := u.Port(); port != "" {
		s.Origin += ":" + port
	}
	return s, nil
}
