package payload

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"google.golang.org/protobuf/proto"
)

func key(t testing.TB) Key {
	t.Helper()
	k, err := GenerateKey(filepath.Join(t.TempDir(), "key"))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func plain(t testing.TB, v any) *commonpb.Payload {
	t.Helper()
	p, err := converter.GetDefaultDataConverter().ToPayload(v)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func encode(t testing.TB, c *Codec, p *commonpb.Payload) *commonpb.Payload {
	t.Helper()
	out, err := c.Encode([]*commonpb.Payload{p})
	if err != nil || len(out) != 1 {
		t.Fatalf("%d payloads, %v", len(out), err)
	}
	return out[0]
}

func decode(c *Codec, p *commonpb.Payload) (*commonpb.Payload, error) {
	out, err := c.Decode([]*commonpb.Payload{p})
	if err != nil {
		return nil, err
	}
	return out[0], nil
}

// These are the test vectors of c2sp.org/XAES-256-GCM.
func TestTheCipherIsXAES256GCM(t *testing.T) {
	for _, v := range []struct {
		key         byte
		bound, want string
	}{
		{1, "", "ce546ef63c9cc60765923609b33a9a1974e96e52daf2fcf7075e2271"},
		{3, "c2sp.org/XAES-256-GCM", "986ec1832593df5443a179437fd083bf3fdb41abd740a21f71eb769d"},
	} {
		x, err := newXAES(bytes.Repeat([]byte{v.key}, keySize))
		if err != nil {
			t.Fatal(err)
		}
		nonce := "ABCDEFGHIJKLMNOPQRSTUVWX"
		sealed, err := x.seal([]byte(nonce+"XAES-256-GCM"), []byte(v.bound))
		if err != nil {
			t.Fatal(err)
		}
		if got := hex.EncodeToString(sealed[nonceSize:]); string(sealed[:nonceSize]) != nonce || got != v.want {
			t.Errorf("key %d: %s, want %s", v.key, got, v.want)
		}
	}
}

func TestEveryPayloadComesBackAndNothingOfItIsSeen(t *testing.T) {
	c := NewCodec("default", key(t))
	for _, v := range []any{"marked-prompt", map[string]string{"marked-name": "marked-value"}, []byte("marked-bytes"), nil, ""} {
		p := plain(t, v)
		sealed := encode(t, c, p)
		raw, err := proto.Marshal(sealed)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(raw, []byte("marked")) || bytes.Contains(raw, []byte("json/plain")) {
			t.Errorf("%v can be read: %q", v, raw)
		}
		if string(sealed.Metadata["encoding"]) != "binary/encrypted" || string(sealed.Metadata["encryption-key-id"]) != c.sealers()[0].id+"/2" {
			t.Errorf("metadata %q", sealed.Metadata)
		}
		if again := encode(t, c, p); bytes.Equal(again.Data, sealed.Data) {
			t.Errorf("%v looks the same twice", v)
		}
		got, err := decode(c, sealed)
		if err != nil || !proto.Equal(got, p) {
			t.Errorf("came back as %v, %v; was %v", got, err, p)
		}
	}
}

func TestWithoutAKeyNothingIsEncryptedAndNothingEncryptedIsTaken(t *testing.T) {
	none, some := NewCodec("default"), NewCodec("default", key(t))
	p := plain(t, "hello")
	if got := encode(t, none, p); !proto.Equal(got, p) {
		t.Errorf("encoded without a key: %v", got)
	}
	if got, err := decode(some, p); err != nil || !proto.Equal(got, p) {
		t.Errorf("a plain payload of another program: %v, %v", got, err)
	}
	_, err := decode(none, encode(t, some, p))
	var e *Error
	if !errors.Is(err, ErrNoKey) || !errors.As(err, &e) || e.KeyID != some.sealers()[0].id {
		t.Errorf("without the key: %v", err)
	}
	for _, want := range []string{some.sealers()[0].id, "temporal.payload_key", "this program has none"} {
		if !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("the error does not say %q: %v", want, err)
		}
	}
	var text string
	if err := none.DataConverter().FromPayload(encode(t, some, p), &text); !errors.Is(err, ErrNoKey) || text != "" {
		t.Errorf("value %q, %v", text, err)
	}
}

func TestOldKeysDecryptAndTheFirstEncrypts(t *testing.T) {
	old, fresh := key(t), key(t)
	before, during, after := NewCodec("default", old, fresh), NewCodec("default", fresh, old), NewCodec("default", fresh)
	p := plain(t, "hello")
	for _, step := range []struct {
		from, to *Codec
		err      error
	}{{before, during, nil}, {during, before, nil}, {during, after, nil}, {before, after, ErrNoKey}} {
		got, err := decode(step.to, encode(t, step.from, p))
		if !errors.Is(err, step.err) || err == nil && !proto.Equal(got, p) {
			t.Errorf("%v, %v; want error %v", got, err, step.err)
		}
	}
}

func TestAChangedPayloadIsTorn(t *testing.T) {
	k := key(t)
	c := NewCodec("default", k)
	p := plain(t, "hello")
	sealed := encode(t, c, p)
	for i := range sealed.Data {
		bad := proto.Clone(sealed).(*commonpb.Payload)
		bad.Data[i] ^= 1
		if got, err := decode(c, bad); !errors.Is(err, ErrTorn) || got != nil {
			t.Fatalf("byte %d changed: %v, %v", i, got, err)
		}
	}
	for n := range sealed.Data {
		bad := proto.Clone(sealed).(*commonpb.Payload)
		bad.Data = bad.Data[:n]
		if _, err := decode(c, bad); !errors.Is(err, ErrTorn) {
			t.Fatalf("cut to %d bytes: %v", n, err)
		}
	}
	if _, err := decode(NewCodec("other", k), sealed); !errors.Is(err, ErrTorn) {
		t.Errorf("in another namespace: %v", err)
	}
	// If another key has the id of this key, the error is the same as for a torn payload.
	liar := key(t)
	liar.id = k.id
	if _, err := decode(NewCodec("default", liar), sealed); !errors.Is(err, ErrTorn) {
		t.Errorf("with another key: %v", err)
	}
	foreign := &commonpb.Payload{Metadata: map[string][]byte{"encoding": []byte("binary/encrypted"), "encryption-key-id": []byte("test\nkey")}, Data: sealed.Data}
	if _, err := decode(c, foreign); !errors.Is(err, ErrNoKey) || strings.Contains(err.Error(), "\n") {
		t.Errorf("of another program: %v", err)
	}
}

func TestTheTextOfErrorsIsEncryptedAndTheirTypesAreNot(t *testing.T) {
	k := key(t)
	c := NewCodec("default", k)
	in := temporal.NewNonRetryableApplicationError("marked message", "refused", errors.New("marked cause"), "marked detail")
	f := c.FailureConverter().ErrorToFailure(in)
	raw, err := proto.Marshal(f)
	if err != nil || bytes.Contains(raw, []byte("marked")) {
		t.Errorf("can be read: %q, %v", raw, err)
	}
	if c.Message(f) != "marked message" {
		t.Errorf("the message is %q", c.Message(f))
	}
	var app *temporal.ApplicationError
	out := c.FailureConverter().FailureToError(proto.CloneOf(f))
	var detail string
	if !errors.As(out, &app) || app.Type() != "refused" || app.Message() != "marked message" || app.Details(&detail) != nil || detail != "marked detail" {
		t.Errorf("came back as %v", out)
	}
	if cause := errors.Unwrap(app); cause == nil || !strings.Contains(cause.Error(), "marked cause") {
		t.Errorf("the cause came back as %v", cause)
	}
	other := NewCodec("default", key(t))
	out = other.FailureConverter().FailureToError(proto.CloneOf(f))
	if !errors.As(out, &app) || app.Type() != "refused" || !strings.Contains(out.Error(), k.ID()) || strings.Contains(out.Error(), "marked") {
		t.Errorf("without the key: %v", out)
	}
	if !strings.Contains(other.Message(f), k.ID()) {
		t.Errorf("without the key: %s", other.Message(f))
	}
}

func TestAKeyFileIsOursAloneAndNeverOverwritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "deep", "payload.key")
	k, err := GenerateKey(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := GenerateKey(path); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a second time: %v", err)
	}
	keys, err := LoadKeys(path)
	if err != nil || len(keys) != 1 || keys[0] != k {
		t.Fatalf("read %v, %v", keys, err)
	}
	for _, text := range []string{fmt.Sprint(k), fmt.Sprintf("%v %+v %#v %s", keys, keys, keys, k)} {
		if !strings.Contains(text, k.ID()) || strings.Contains(text, "secret") {
			t.Errorf("prints as %s", text)
		}
	}
	if err := os.Chmod(path, 0o640); err != nil {
		t.Fatal(err)
	}
	if _, err := LoadKeys(path); err == nil || !strings.Contains(err.Error(), "chmod 600") {
		t.Errorf("a file that others may read: %v", err)
	}
	if keys, err := LoadKeys(""); err != nil || len(keys) != 0 {
		t.Errorf("no file named: %v, %v", keys, err)
	}
}

func TestABadKeyFileIsRefusedWithItsLineAndNotItsContent(t *testing.T) {
	good := keyPrefix + strings.Repeat("A", 43)
	for text, want := range map[string]string{
		"":                          "no key",
		"# only words\n":            "no key",
		good + "\nmarked-secret\n":  "line 2",
		good + "\n\n" + good + "\n": "line 3 repeats",
		keyPrefix + "AAAA\n":        "line 1",
		good + "A\n":                "line 1",
		keyPrefix + strings.Repeat("A", 42) + "B\n": "line 1", // unused bits that are not zero
		strings.Repeat("x", 70000):                  "too long",
	} {
		_, err := parseKeys([]byte(text))
		if !errors.Is(err, ErrKeyFile) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "marked") {
			t.Errorf("%.60q: %v; want %q", text, err, want)
		}
	}
	keys, err := parseKeys([]byte("# two\r\n" + good + " # the newest\r\n" + keyPrefix + strings.Repeat("B", 42) + "E\r\n"))
	if err != nil || len(keys) != 2 {
		t.Errorf("two keys: %v, %v", keys, err)
	}
}

func BenchmarkCodec(b *testing.B) {
	c := NewCodec("default", key(b))
	for _, size := range []int{200, 2 << 10, 32 << 10} {
		p := plain(b, strings.Repeat("x", size))
		sealed := encode(b, c, p)
		b.Run(fmt.Sprintf("encode/%d", size), func(b *testing.B) {
			b.ReportAllocs()
			b.ReportMetric(float64(proto.Size(sealed)-proto.Size(p)), "B-more")
			for b.Loop() {
				encode(b, c, p)
			}
		})
		b.Run(fmt.Sprintf("decode/%d", size), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := decode(c, sealed); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func TestALongPayloadTakesLessAndComesBack(t *testing.T) {
	var hosts []map[string]string
	for i := range 10_000 {
		hosts = append(hosts, map[string]string{"name": fmt.Sprint("web-", i), "address": "192.0.2.1", "state": "ready", "label": "os=linux"})
	}
	long := plain(t, hosts)
	for name, c := range map[string]*Codec{"with a key": NewCodec("default", key(t)), "without": NewCodec("default")} {
		kept := encode(t, c, long)
		if n := len(kept.GetData()); n > len(long.GetData())/5 {
			t.Errorf("%s: %d bytes are %d in Temporal", name, len(long.GetData()), n)
		}
		if back, err := decode(c, kept); err != nil || !proto.Equal(back, long) {
			t.Errorf("%s: another payload comes back (%v)", name, err)
		}
	}
	c := NewCodec("default")
	noise := make([]byte, 1<<20)
	rand.Read(noise)
	for name, p := range map[string]*commonpb.Payload{"short": plain(t, "hello"), "of noise": plain(t, noise)} {
		if kept := encode(t, c, p); len(kept.GetData()) > len(p.GetData()) || name == "short" && !proto.Equal(kept, p) {
			t.Errorf("one that is %s is kept as %d bytes, not %d", name, len(kept.GetData()), len(p.GetData()))
		} else if back, err := decode(c, kept); err != nil || !proto.Equal(back, p) {
			t.Errorf("one that is %s does not come back: %v", name, err)
		}
	}
}

func TestATornPackedPayloadIsSaidToBe(t *testing.T) {
	c := NewCodec("default")
	kept := encode(t, c, plain(t, strings.Repeat("all work and no play ", 20_000)))
	bomb := proto.Clone(kept).(*commonpb.Payload)
	bomb.Data = packer().EncodeAll(make([]byte, maxUnpacked+1), nil)
	cut := proto.Clone(kept).(*commonpb.Payload)
	cut.Data = cut.Data[:len(cut.Data)/2]
	for name, p := range map[string]*commonpb.Payload{"cut": cut, "too large": bomb} {
		if _, err := decode(c, p); !errors.Is(err, ErrTorn) {
			t.Errorf("one that is %s: %v", name, err)
		}
	}
}
