package receivers

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/ecdh"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
)

// A Device is a browser that is subscribed at a push service.
type Device struct {
	Service *HTTP
	key     *ecdh.PrivateKey
	auth    []byte
}

// NewDevice subscribes a device at a push service of its own.
func NewDevice() (*Device, error) {
	key, err := ecdh.P256().GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	d := &Device{key: key, auth: make([]byte, 16)}
	rand.Read(d.auth)
	d.Service = newHTTP(func(w http.ResponseWriter, _ Got, _ Fault) { w.WriteHeader(http.StatusCreated) })
	return d, nil
}

// Subscription is what the browser gives, as JSON.
func (d *Device) Subscription() json.RawMessage {
	b64 := base64.RawURLEncoding.EncodeToString
	raw, err := json.Marshal(map[string]any{"endpoint": d.Service.URL + "/push/1", "keys": map[string]string{"p256dh": b64(d.key.PublicKey().Bytes()), "auth": b64(d.auth)}})
	if err != nil {
		panic(err) // texts can be encoded
	}
	return raw
}

// Open decrypts a message as RFC 8291 says.
func (d *Device) Open(g Got) ([]byte, error) {
	if e := g.Header.Get("Content-Encoding"); e != "aes128gcm" {
		return nil, fmt.Errorf("its encoding is %q", e)
	}
	const head = 16 + 4 + 1
	if len(g.Body) < head {
		return nil, errors.New("it is too short")
	}
	salt, size, n := g.Body[:16], binary.BigEndian.Uint32(g.Body[16:20]), int(g.Body[20])
	if len(g.Body) < head+n || int(size) < len(g.Body)-head-n {
		return nil, errors.New("it is not one record")
	}
	sender, err := ecdh.P256().NewPublicKey(g.Body[head : head+n])
	if err != nil {
		return nil, err
	}
	shared, err := d.key.ECDH(sender)
	if err != nil {
		return nil, err
	}
	info := append(append([]byte("WebPush: info\x00"), d.key.PublicKey().Bytes()...), sender.Bytes()...)
	ikm, err := hkdf.Key(sha256.New, shared, d.auth, string(info), 32)
	if err != nil {
		return nil, err
	}
	cek, err := hkdf.Key(sha256.New, ikm, salt, "Content-Encoding: aes128gcm\x00", 16)
	if err != nil {
		return nil, err
	}
	nonce, err := hkdf.Key(sha256.New, ikm, salt, "Content-Encoding: nonce\x00", 12)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(cek)
	if err != nil {
		return nil, err
	}
	gcm, err := cipher.NewGCM(block)
	if err != nil {
		return nil, err
	}
	plain, err := gcm.Open(nil, nonce, g.Body[head+n:], nil)
	if err != nil {
		return nil, err
	}
	for i := len(plain) - 1; i >= 0; i-- { // padding: zeros after a 2
		switch plain[i] {
		case 0:
		case 2:
			return plain[:i], nil
		default:
			return nil, errors.New("its padding is wrong")
		}
	}
	return nil, errors.New("it has no padding")
}
