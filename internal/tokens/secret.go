package tokens

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash/crc32"
	"math/big"
	"strings"
)

// Prefix begins each secret, so that scanners for leaked secrets can find it:
// fl_[0-9A-Za-z]{49}.
const Prefix = "fl_"

const (
	secretBytes = 32
	bodyChars   = 43 // 32 bytes in base 62
	sumChars    = 6  // CRC-32 in base 62
)

// errNotOne says nothing of what was shown: it could be another secret.
var errNotOne = errors.New("it is not an API token: fl_ and 49 letters and digits, as `ctl token create` printed it")

// NewSecret makes a secret of 256 random bits. Its last characters are a checksum.
func NewSecret() string {
	var raw [secretBytes]byte
	rand.Read(raw[:])
	body := base62(new(big.Int).SetBytes(raw[:]), bodyChars)
	return Prefix + body + checksum(body)
}

// Check returns an error if a text cannot be a secret.
func Check(secret string) error {
	body, ok := strings.CutPrefix(secret, Prefix)
	if !ok || len(body) != bodyChars+sumChars || checksum(body[:bodyChars]) != body[bodyChars:] {
		return errNotOne
	}
	return nil
}

// Digest returns what is kept of a secret. 256 random bits need no slow hash.
func Digest(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}

func checksum(body string) string {
	return base62(big.NewInt(int64(crc32.ChecksumIEEE([]byte(body)))), sumChars)
}

// base62 writes a number with the digits 0-9A-Za-z.
func base62(n *big.Int, chars int) string {
	const digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	out := []byte(strings.Repeat("0", chars))
	base, rest := big.NewInt(int64(len(digits))), new(big.Int)
	n = new(big.Int).Set(n)
	for i := chars - 1; n.Sign() > 0; i-- {
		n.DivMod(n, base, rest)
		out[i] = digits[rest.Int64()]
	}
	return string(out)
}
