package inventory

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/skeema/knownhosts"
)

// Pins looks up host keys in known_hosts files of this machine, and caches the files.
type Pins struct{ files map[string]*pinFile }

type pinFile struct {
	db      *knownhosts.HostKeyDB
	revoked map[string]bool // in base64
}

// Keys returns the keys of a host in a known_hosts file, each as "type base64", without
// revoked keys and those of authorities, because a pin is a host's own key. With missing, a
// file that does not exist has no keys; otherwise it is an error.
func (p *Pins) Keys(file string, h *Host, missing bool) ([]string, error) {
	f, ok := p.files[file]
	if !ok {
		var err error
		switch f, err = readPins(file); {
		case missing && errors.Is(err, fs.ErrNotExist):
			f = nil
		case err != nil:
			return nil, err
		}
		if p.files == nil {
			p.files = map[string]*pinFile{}
		}
		p.files[file] = f
	}
	if f == nil {
		return nil, nil
	}
	at := net.JoinHostPort(h.Address, strconv.Itoa(orSSH(h.Port)))
	if h.KeyName != "" {
		at = net.JoinHostPort(h.KeyName, "22") // ssh looks up HostKeyAlias without the port
	}
	var out []string
	for _, k := range f.db.HostKeys(at) {
		blob := base64.StdEncoding.EncodeToString(k.Marshal())
		if line := k.Type() + " " + blob; !k.Cert && !f.revoked[blob] && !slices.Contains(out, line) {
			out = append(out, line)
		}
	}
	return out, nil
}

func readPins(file string) (*pinFile, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("known_hosts %s: %w", file, err)
	}
	db, err := knownhosts.NewDB(file)
	if err != nil {
		return nil, fmt.Errorf("known_hosts %s: %s", file, strings.TrimPrefix(strings.TrimPrefix(err.Error(), "knownhosts: "), file+":"))
	}
	f := &pinFile{db: db, revoked: map[string]bool{}}
	lines := bufio.NewScanner(bytes.NewReader(data))
	lines.Buffer(nil, len(data)+1)
	for lines.Scan() {
		if fields := strings.Fields(lines.Text()); len(fields) >= 4 && fields[0] == "@revoked" {
			f.revoked[fields[3]] = true
		}
	}
	return f, lines.Err()
}
