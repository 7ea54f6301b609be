package hostexec_test

import (
	"testing"

	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/hostexec/hosttest"
)

func TestFirst(t *testing.T) {
	s := hosttest.StartSSHD(t, hosttest.Options{NewUser: true, Shell: "/usr/bin/fish", RC: map[string]string{".config/fish/config.fish": "echo hello\n"}})
	p := hostexec.NewPool(hostexec.PoolOptions{})
	defer p.Close()
	h, err := p.Host(s.Spec())
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		r, err := h.Run(t.Context(), hostexec.Command{Script: `id; echo "$1"; cat; echo oops >&2`, Args: []string{"a b\nc"}, Stdin: []byte("in\x00put")})
		t.Logf("%q %q %v", r.Stdout, r.Stderr, err)
	}
	st, err := h.Start(t.Context(), hostexec.Command{Script: `cat; exit 3`})
	if err != nil {
		t.Fatal(err)
	}
	st.Write([]byte("hi"))
	st.CloseWrite()
	b := make([]byte, 100)
	n, err := st.Read(b)
	t.Logf("%q %v", b[:n], err)
	n, err = st.Read(b)
	t.Logf("%q %v", b[:n], err)
	t.Log(st.Wait())
}
