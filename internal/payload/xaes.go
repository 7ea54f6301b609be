package payload

import (
	"crypto/aes"
	"crypto/cipher"
	"fmt"
)

// xaes is XAES-256-GCM (c2sp.org/XAES-256-GCM). AES-GCM alone allows 2^32 random nonces of
// 12 bytes per key, which a large installation approaches within months.
type xaes struct {
	block cipher.Block
	k1    [aes.BlockSize]byte // CMAC's subkey
}

const (
	keySize   = 32
	nonceSize = 24
	tagSize   = 16
)

func newXAES(key []byte) (*xaes, error) {
	if len(key) != keySize {
		return nil, fmt.Errorf("a payload key has %d bytes, not %d", keySize, len(key))
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	x := &xaes{block: block}
	block.Encrypt(x.k1[:], x.k1[:])
	var msb byte
	for i := len(x.k1) - 1; i >= 0; i-- {
		msb, x.k1[i] = x.k1[i]>>7, x.k1[i]<<1|msb
	}
	x.k1[len(x.k1)-1] ^= msb * 0b10000111
	return x, nil
}

// gcm returns the cipher for a nonce, to use with its last 12 bytes.
func (x *xaes) gcm(nonce []byte) (cipher.AEAD, error) {
	var key [keySize]byte
	for i := range 2 {
		half := key[i*aes.BlockSize:][:aes.BlockSize]
		copy(half, []byte{0, byte(i + 1), 'X', 0})
		copy(half[4:], nonce[:12])
		for j := range half {
			half[j] ^= x.k1[j]
		}
		x.block.Encrypt(half, half)
	}
	block, err := aes.NewCipher(key[:])
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}

// seal encrypts in place what follows the nonce in buf, and appends the tag, for which buf
// needs capacity.
func (x *xaes) seal(buf, bound []byte) ([]byte, error) {
	gcm, err := x.gcm(buf[:nonceSize])
	if err != nil {
		return nil, err
	}
	return gcm.Seal(buf[:nonceSize], buf[12:nonceSize], buf[nonceSize:], bound), nil
}

func (x *xaes) open(sealed, bound []byte) ([]byte, error) {
	if len(sealed) < nonceSize+tagSize {
		return nil, ErrTorn
	}
	gcm, err := x.gcm(sealed[:nonceSize])
	if err != nil {
		return nil, err
	}
	plain, err := gcm.Open(nil, sealed[12:nonceSize], sealed[nonceSize:], bound)
	if err != nil {
		return nil, ErrTorn
	}
	return plain, nil
}
