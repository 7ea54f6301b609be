package main

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"
)

// mostSkew is how far the timestamp of a call may be away.
const mostSkew = 5 * time.Minute

// readSecrets reads secrets in the form whsec_ and base64.
func readSecrets(name string) ([][]byte, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	var all [][]byte
	for i, line := range strings.Fields(string(text)) {
		encoded, ok := strings.CutPrefix(line, "whsec_")
		key, err := base64.StdEncoding.DecodeString(encoded)
		if !ok || err != nil || len(key) < 24 {
			return nil, fmt.Errorf("%s: line %d is no secret", name, i+1)
		}
		all = append(all, key)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s has no secret", name)
	}
	return all, nil
}

// verify checks that somebody who knows one of the secrets signed the body, its id and its
// time, and that this was not long ago.
func verify(secrets [][]byte, h http.Header, body []byte, now time.Time) error {
	id, stamp := h.Get("webhook-id"), h.Get("webhook-timestamp")
	at, err := strconv.ParseInt(stamp, 10, 64)
	if err != nil || id == "" {
		return errors.New("the headers webhook-id and webhook-timestamp are missing")
	}
	if skew := now.Sub(time.Unix(at, 0)); skew > mostSkew || skew < -mostSkew {
		return errors.New("the timestamp is too far away")
	}
	for _, one := range strings.Fields(h.Get("webhook-signature")) {
		version, encoded, _ := strings.Cut(one, ",")
		got, err := base64.StdEncoding.DecodeString(encoded)
		if version != "v1" || err != nil {
			continue // of a later version
		}
		for _, key := range secrets {
			mac := hmac.New(sha256.New, key)
			mac.Write([]byte(id + "." + stamp + "."))
			mac.Write(body)
			if hmac.Equal(got, mac.Sum(nil)) {
				return nil
			}
		}
	}
	return errors.New("no signature is right")
}
