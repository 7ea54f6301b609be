package authority

import (
	"bytes"
	"crypto/ed25519"
	"fmt"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"fairlead.dev/fairlead/internal/access"
	"fairlead.dev/fairlead/internal/command"
	"fairlead.dev/fairlead/internal/owned"
)

func TestACommandNamesOnlyBlobsThatItsPrincipalUploaded(t *testing.T) {
	key := func(seed byte) (ssh.Signer, string) {
		k, err := ssh.NewSignerFromKey(ed25519.NewKeyFromSeed(bytes.Repeat([]byte{seed}, 32)))
		if err != nil {
			t.Fatal(err)
		}
		return k, strings.TrimSpace(string(ssh.MarshalAuthorizedKey(k.PublicKey())))
	}
	ann, annsKey := key(1)
	worker, workersKey := key(2)
	a, err := access.Parse(fmt.Appendf(nil, "people: [{name: ann, keys: [%q]}]\nworkers: [%q]\nbindings: [{name: all, roles: [admin], to: [ann]}]\n", annsKey, workersKey))
	if err != nil {
		t.Fatal(err)
	}
	name := strings.Repeat("0", 64)
	folder := func(who string) string {
		f, ok := owned.FolderOf("session.s1.0123456789abcdef", who)
		if !ok {
			t.Fatal("no folder")
		}
		return f
	}
	mine, others := owned.In(folder("ann"), owned.Messages)+"/"+name, owned.In(folder("bob"), owned.Messages)+"/"+name
	for key, good := range map[string]bool{
		mine:   true,
		others: false,
		owned.In("session.s1.0123456789abcdef", owned.Inputs) + "/" + name: false, // nobody known uploaded it
		"tokens/s1/" + owned.Tag("ann") + "/" + name:                       true,
		"tokens/s1/" + owned.Tag("bob") + "/" + name:                       false,
		"tokens/s1/" + name: false,
		"see " + others:     true, // a text
	} {
		for by, signer := range map[string]ssh.Signer{"ann": ann, "a worker, for ann": worker} {
			for _, args := range []string{`{"blob":%q}`, `{"options":{"workspace":{"repo":{"token":%q}}}}`, `{"first":{"inputs":[{"name":"a"},{"blob":%q}]}}`} {
				raw, err := command.Sign(signer, "ann", "session/s1", "message", fmt.Appendf(nil, args, key), time.Now())
				if err != nil {
					t.Fatal(err)
				}
				v := Fixed(a, time.Now).Judge(Command{Verb: access.SessionMessage, Received: command.Received{Workflow: "session/s1", Name: "message", Raw: raw}})
				if (v.Refused == "") != good || !good && (!strings.Contains(v.Refused, "did not upload") || v.Principal != "ann") {
					t.Errorf("%s signs %s with %s: %+v", by, args, key, v)
				}
				c := Command{Verb: access.SessionMessage, Received: command.Received{Workflow: "session/s1", Name: "message", Raw: raw}, Lent: []string{key}}
				if v := Fixed(a, time.Now).Judge(c); v.Refused != "" {
					t.Errorf("lent %s: %+v", key, v)
				}
			}
		}
	}
}
