// Package teamworker is a worker of "a team": a program that carries out calls of a tool as a
// Temporal activity. It uses nothing of Fairlead, as a team's program would. A test starts its
// own binary as such a worker (Start), so that it can be killed.
package teamworker

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"google.golang.org/protobuf/proto"
)

// Options are of one worker.
type Options struct {
	Address, Namespace, Queue string
	CA, Cert, Key             string // files
	KeyID, Codec              string // of the queue: its id, and 32 bytes in base64; empty means plain
	// Desk is a folder. The worker adds a file to Desk/attempts for each attempt, waits until
	// there is a file Desk/open, and then adds Desk/effects/ID, the call's one effect.
	Desk string
}

const variable = "FAIRLEAD_LAB_TEAMWORKER"

// Main runs a worker for ever if the process is to be one. A test calls it first of all.
func Main() {
	text := os.Getenv(variable)
	if text == "" {
		return
	}
	var o Options
	err := json.Unmarshal([]byte(text), &o)
	if err == nil {
		err = o.run()
	}
	fmt.Fprintln(os.Stderr, "the team's worker:", err)
	os.Exit(1)
}

// Start starts the program again as a worker.
func Start(o Options) (*exec.Cmd, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	c := exec.Command(self)
	c.Env, c.Stderr = append(os.Environ(), variable+"="+string(text)), os.Stderr
	return c, c.Start()
}

func (o Options) run() error {
	pem, err := os.ReadFile(o.CA)
	if err != nil {
		return err
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(pem)
	cert, err := tls.LoadX509KeyPair(o.Cert, o.Key)
	if err != nil {
		return err
	}
	opts := client.Options{HostPort: o.Address, Namespace: o.Namespace}
	opts.ConnectionOptions.TLS = &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{cert}, ServerName: "127.0.0.1"}
	if o.KeyID != "" {
		opts.DataConverter = converter.NewCodecDataConverter(converter.GetDefaultDataConverter(), &codec{o})
	}
	c, err := client.Dial(opts)
	if err != nil {
		return err
	}
	w := worker.New(c, o.Queue, worker.Options{MaxHeartbeatThrottleInterval: time.Second})
	w.RegisterActivityWithOptions(o.lookup, activity.RegisterOptions{Name: "LookupTicket"})
	return w.Run(nil)
}

// A call is what an activity of a tool gets.
type call struct {
	ID        string
	Session   string
	Turn      int
	Tool      string
	Arguments struct{ ID string }
}

func (o Options) lookup(ctx context.Context, in call) (map[string]any, error) {
	if in.ID != activity.GetInfo(ctx).ActivityID {
		return nil, fmt.Errorf("the call is %s, the activity %s", in.ID, activity.GetInfo(ctx).ActivityID)
	}
	if in.Arguments.ID == "none" {
		return nil, temporal.NewNonRetryableApplicationError("there is no such ticket", "NotFound", nil)
	}
	f, err := os.CreateTemp(filepath.Join(o.Desk, "attempts"), in.ID+".*")
	if err != nil {
		return nil, err
	}
	_ = f.Close()
	for {
		activity.RecordHeartbeat(ctx)
		if _, err := os.Stat(filepath.Join(o.Desk, "open")); err == nil {
			break
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
	effect, err := os.OpenFile(filepath.Join(o.Desk, "effects", in.ID), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err == nil {
		err = effect.Close()
	}
	if err != nil && !errors.Is(err, os.ErrExist) { // an earlier attempt did it
		return nil, err
	}
	return map[string]any{"text": fmt.Sprintf("ticket %s is open, says %s in turn %d", in.Arguments.ID, in.Session, in.Turn), "success": true}, nil
}

// A codec encrypts as the encryption sample of Temporal's Go SDK does.
type codec struct{ o Options }

func (c *codec) gcm() (cipher.AEAD, error) {
	key, err := base64.StdEncoding.DecodeString(c.o.Codec)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}

// Encode implements converter.PayloadCodec.
func (c *codec) Encode(payloads []*commonpb.Payload) ([]*commonpb.Payload, error) {
	gcm, err := c.gcm()
	if err != nil {
		return nil, err
	}
	out := make([]*commonpb.Payload, len(payloads))
	for i, p := range payloads {
		plain, err := proto.Marshal(p)
		if err != nil {
			return nil, err
		}
		nonce := make([]byte, gcm.NonceSize())
		if _, err := rand.Read(nonce); err != nil {
			return nil, err
		}
		out[i] = &commonpb.Payload{
			Metadata: map[string][]byte{converter.MetadataEncoding: []byte("binary/encrypted"), "encryption-key-id": []byte(c.o.KeyID)},
			Data:     gcm.Seal(nonce, nonce, plain, nil),
		}
	}
	return out, nil
}

// Decode implements converter.PayloadCodec.
func (c *codec) Decode(payloads []*commonpb.Payload) ([]*commonpb.Payload, error) {
	gcm, err := c.gcm()
	if err != nil {
		return nil, err
	}
	out := make([]*commonpb.Payload, len(payloads))
	for i, p := range payloads {
		if string(p.Metadata[converter.MetadataEncoding]) != "binary/encrypted" || len(p.Data) < gcm.NonceSize() {
			return nil, errors.New("a payload is not encrypted")
		}
		plain, err := gcm.Open(nil, p.Data[:gcm.NonceSize()], p.Data[gcm.NonceSize():], nil)
		if err != nil {
			return nil, err
		}
		out[i] = &commonpb.Payload{}
		if err := proto.Unmarshal(plain, out[i]); err != nil {
			return nil, err
		}
	}
	return out, nil
}
