package hostexec_test

import (
	"testing"

	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/hostexec/hosttest"
)

// Bytes are counted once, over a line and also on loopback, where this machine both sends
// and receives each packet.
func TestAWireMeterCountsEachByteOnce(t *testing.T) {
	for name, opts := range map[string]hosttest.Options{"loopback": {}, "line": {Behind: newLine(t)}} {
		sshd := hosttest.StartSSHD(t, opts)
		pool := hostexec.NewPool(hostexec.PoolOptions{})
		t.Cleanup(func() { pool.Close() })
		h, err := pool.Host(sshd.Spec())
		if err != nil {
			t.Fatal(err)
		}
		meter, err := hosttest.MeterPort(t.Context(), sshd.Spec().Port)
		if err != nil {
			t.Fatal(err)
		}
		before, err := meter.Bytes(t.Context())
		// The last packets of the check whether sshd listens may come after the meter was
		// started.
		if err != nil || before > 1000 {
			t.Errorf("%s: %d bytes before anything was said (%v)", name, before, err)
		}
		const size = 3_000_000
		if _, err := h.Run(t.Context(), hostexec.Command{Script: `head -c "$1" /dev/urandom | od -An -v -tx1 | head -c "$1"`, Args: []string{"3000000"}}); err != nil {
			t.Fatal(err)
		}
		if n, err := meter.Bytes(t.Context()); err != nil || n-before < size || n-before > size*3/2 {
			t.Errorf("%s: %d bytes went over the wire for %d (%v)", name, n, size, err)
		}
		if err := meter.Close(); err != nil {
			t.Error(err)
		}
	}
}
