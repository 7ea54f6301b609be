package config

import (
	"slices"
	"strings"
	"testing"
)

func TestPrivateIsEveryFileWithASecretThatAConfigNames(t *testing.T) {
	c, err := Parse("/etc/fairlead/worker.yaml", []byte(`
temporal: {tls: {ca: ca.pem, cert: us.pem, key: us.key}, api_key_file: temporal.key, payload_key: payload.key, worker_payload_key: workers.key}
store: {url: "file:///var/lib/fairlead/store", identity: store.identity}
api: {listen: "unix:///run/fairlead/api.sock", tls: {cert: api.pem, key: api.key}, token_file: api.token, read_token_file: read.token}
sign_with: ~/.ssh/id_ed25519
authority: required
access: access.yaml
worker_key: worker.key
state: state
console: {listen: "0.0.0.0:443", url: "https://c.example.com", tls: {cert: console.pem, key: console.key}, link_key: links.key}
login: {issuer: "https://id.example.com", client_id: fairlead, certificate_key: ca.key}
hosts: {deny_read: [/srv/keys, ~/notes]}
`))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"/etc/fairlead/worker.yaml", "/etc/fairlead/temporal.key", "/etc/fairlead/payload.key", "/etc/fairlead/workers.key", "/etc/fairlead/store.identity", "/etc/fairlead/api.token", "/etc/fairlead/read.token", "/etc/fairlead/worker.key", "/etc/fairlead/ca.key", "/etc/fairlead/state", "/etc/fairlead/links.key",
		"/etc/fairlead/us.key", "/etc/fairlead/api.key", "/etc/fairlead/console.key", "/var/lib/fairlead/store", "/run/fairlead/api.sock", "~/.ssh/id_ed25519", "/srv/keys", "~/notes"}
	if got := c.Private(); !slices.Equal(got, want) {
		t.Errorf("private are\n%q, want\n%q", got, want)
	}
	for _, bad := range []string{"keys", "/", "~/", "~/.", "''"} {
		if _, err := Parse("c.yaml", []byte("hosts: {deny_read: ["+bad+"]}\n")); err == nil || !strings.Contains(err.Error(), "hosts.deny_read") {
			t.Errorf("%s: %v", bad, err)
		}
	}
}
