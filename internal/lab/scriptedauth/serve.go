package scriptedauth

// TB is the part of testing.TB that Serve needs.
type TB interface {
	Helper()
	Cleanup(func())
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// Serve runs an issuer on a loopback port until the test ends. The test fails
// if there was a request that codex would never send.
func Serve(t TB) *Server {
	t.Helper()
	s := New(nil)
	if err := s.Start("127.0.0.1:0"); err != nil {
		t.Fatalf("%v", err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close scripted auth: %v", err)
		}
		for _, text := range s.Surprises() {
			t.Errorf("scripted auth: surprise: %s", text)
		}
	})
	return s
}
