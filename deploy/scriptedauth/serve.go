package scriptedauth

// TB is the part of testing.TB that Serve needs.
type TB interface {
	Helper()
	Cleanup(func())
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// Serve starts an issuer on a loopback port for the length of a test. The test
// fails at its end if anything was asked that no codex asks.
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
