package teamtool

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
)

const (
	secretPrefix = "whsec_"
	leastSecret  = 24 // bytes
	mostSecret   = 64
	maxSecrets   = 4
)

// ReadSecrets reads a file with one to four secrets, as Standard Webhooks writes them:
// whsec_ and base64 of 24 to 64 bytes. No error contains a secret.
func ReadSecrets(name string) ([][]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, 4<<10))
	if err != nil {
		return nil, err
	}
	var all [][]byte
	for _, line := range strings.Fields(string(data)) {
		encoded, ok := strings.CutPrefix(line, secretPrefix)
		key, err := base64.StdEncoding.DecodeString(encoded)
		if !ok || err != nil || len(key) < leastSecret || len(key) > mostSecret {
			return nil, fmt.Errorf("%s: line %d is not %s and base64 of %d to %d bytes", name, len(all)+1, secretPrefix, leastSecret, mostSecret)
		}
		all = append(all, key)
	}
	switch {
	case len(all) == 0:
		return nil, errors.New(name + " has no secret")
	case len(all) > maxSecrets:
		return nil, fmt.Errorf("%s has more than %d secrets", name, maxSecrets)
	}
	return all, nil
}

// Sign returns the header webhook-signature: one signature for each secret.
func Sign(secrets [][]byte, id string, at int64, body []byte) string {
	var out []string
	for _, key := range secrets {
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte(id + "." + strconv.FormatInt(at, 10) + "."))
		_, _ = io.Copy(mac, bytes.NewReader(body))
		out = append(out, "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	}
	return strings.Join(out, " ")
}
