package main

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.temporal.io/sdk/client"
	"golang.org/x/crypto/ssh"

	"fairlead.dev/fairlead/internal/access"
	"fairlead.dev/fairlead/internal/api"
	"fairlead.dev/fairlead/internal/command"
	"fairlead.dev/fairlead/internal/lab/issuer"
	"fairlead.dev/fairlead/internal/login"
	"fairlead.dev/fairlead/internal/payload"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/internal/realparts"
	"fairlead.dev/fairlead/internal/sshsig"
)

// writeKey writes a fresh private key, and returns the line of the public one.
func writeKey(t *testing.T, path string) string {
	t.Helper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(private, "")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
		t.Fatal(err)
	}
	public, err := ssh.NewPublicKey(private.Public())
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(ssh.MarshalAuthorizedKey(public)))
}

// writeAccess writes an access file in which host-operators are those of the group sre.
func (p place) writeAccess(t *testing.T, worker string, authorities ...string) {
	t.Helper()
	text := fmt.Sprintf("people: [{name: root, keys: []}]\nworkers: [%q]\nbindings:\n  - {name: hosts, roles: [host-operator], to: ['group:sre']}\n  - {name: all, roles: [viewer], to: [everybody]}\nauthorities: [", worker)
	for _, a := range authorities {
		text += fmt.Sprintf("{key: %q, names: ['*@example.com']},", a)
	}
	if len(authorities) == 0 {
		text = strings.Replace(text, "['group:sre']", "[root]", 1)
	}
	// A worker must never see half of a file.
	fresh := filepath.Join(p.dir, "access.new")
	if err := os.WriteFile(fresh, []byte(text+"]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(fresh, filepath.Join(p.dir, "access.yaml")); err != nil {
		t.Fatal(err)
	}
}

// One person after the other logs in at a running worker and gives a command to it, through
// Temporal.
func TestWhoLogsInAtAWorkerGivesItCommands(t *testing.T) {
	id := issuer.Serve(t, issuer.Person{ID: "dora", Email: "dora@example.com", Verified: true, Groups: []string{"sre"}},
		issuer.Person{ID: "carl", Email: "carl@example.com", Verified: true, Groups: []string{"sales"}})
	address := freeAddress(t)
	p := newPlace(t, fmt.Sprintf("temporal: {address: %q, payload_key: payloads, worker_payload_key: workers}\nauthority: required\naccess: access.yaml\nworker_key: worker\nlogin: {issuer: %q, client_id: %s, certificate_key: ca}\n", address, id.URL, issuer.ClientID))
	key, err := payload.GenerateKey(filepath.Join(p.dir, "payloads"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := payload.GenerateKey(filepath.Join(p.dir, "workers")); err != nil {
		t.Fatal(err)
	}
	worker, ca := writeKey(t, filepath.Join(p.dir, "worker")), writeKey(t, filepath.Join(p.dir, "ca"))
	p.writeAccess(t, worker, ca)
	_, port, _ := strings.Cut(address, ":")
	start(t, exec.Command(realparts.DevServer(t), "server", "start-dev", "--headless", "--port", port, "--db-filename", filepath.Join(p.dir, "t.db")))
	runWorker(t, "--config", p.config)
	wait(t, "the worker is ready", func() bool {
		st, err := p.status(t)
		return err == nil && st.Ready
	})
	at, err := api.NewClient("unix://"+p.socket, api.ClientOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer at.Close()
	opts := client.Options{HostPort: address}
	payload.NewCodec("default", key).Use(&opts)
	c, err := client.Dial(opts)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	pool := protocol.PoolID("")
	set := func(arg any) error {
		u, err := c.UpdateWorkflow(t.Context(), client.UpdateWorkflowOptions{WorkflowID: pool, UpdateName: protocol.UpdateSetHost, Args: []any{arg}, WaitForStage: client.WorkflowUpdateStageCompleted})
		if err == nil {
			err = u.Get(t.Context(), nil)
		}
		return err
	}
	change := protocol.SetHost{Name: protocol.LocalHost, Slots: 3}
	logIn := func(person string) ssh.Signer {
		t.Helper()
		settings, err := at.LoginSettings(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		token, err := login.Device(t.Context(), settings, func(c login.Code) { id.Approve(c.Code, person) })
		if err != nil {
			t.Fatal(err)
		}
		pem := filepath.Join(t.TempDir(), "key")
		public := writeKey(t, pem)
		data, err := os.ReadFile(pem)
		if err != nil {
			t.Fatal(err)
		}
		own, err := sshsig.ParseKey(data, nil)
		if err != nil {
			t.Fatal(err)
		}
		proof, err := login.Prove(own, token)
		if err != nil {
			t.Fatal(err)
		}
		got, err := at.LogIn(t.Context(), login.Request{IDToken: token, PublicKey: public, Proof: proof})
		if err != nil {
			t.Fatal(err)
		}
		signer, err := sshsig.Certified(own, []byte(got.Certificate))
		if err != nil {
			t.Fatal(err)
		}
		return signer
	}
	signed := func(signer ssh.Signer, who string) json.RawMessage {
		t.Helper()
		raw, err := json.Marshal(change)
		if err != nil {
			t.Fatal(err)
		}
		out, err := command.Sign(signer, who, pool, protocol.UpdateSetHost, raw, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	if err := set(change); err == nil || !strings.Contains(err.Error(), "not signed") {
		t.Errorf("unsigned: %v", err)
	}
	dora, carl := logIn("dora"), logIn("carl")
	if err := set(signed(carl, "carl@example.com")); err == nil || !strings.Contains(err.Error(), "allows host.write") {
		t.Errorf("by carl, who is in another group: %v", err)
	}
	if err := set(signed(carl, "dora@example.com")); err == nil || !strings.Contains(err.Error(), "signed it") {
		t.Errorf("by carl, as dora: %v", err)
	}
	if err := set(signed(dora, "dora@example.com")); err != nil {
		t.Errorf("by dora: %v", err)
	}
	caller, err := at.Whoami(t.Context(), func(workflow, name string, args []byte) ([]byte, error) {
		return command.Sign(dora, "dora@example.com", workflow, name, args, time.Now())
	})
	if err != nil || !slices.Equal(caller.Groups, []string{"sre"}) || !slices.Contains(caller.Roles, access.HostOperator) {
		t.Errorf("dora is %+v, %v", caller, err)
	}
	// With the issuer gone, dora goes on. Without the authority, she does not.
	id.SetDown(true)
	if err := set(signed(dora, "dora@example.com")); err != nil {
		t.Errorf("by dora, with the issuer gone: %v", err)
	}
	p.writeAccess(t, worker)
	wait(t, "the worker reads that the authority is taken out", func() bool {
		err := set(signed(dora, "dora@example.com"))
		return err != nil && strings.Contains(err.Error(), "does not list the authority") && strings.Contains(err.Error(), "ctl login")
	})
}

func freeAddress(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	return ln.Addr().String()
}
