package scriptedmodel

// TB is the part of testing.TB that Serve needs.
type TB interface {
	Helper()
	Cleanup(func())
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// Serve runs a server with a script, given as text, on a loopback port until
// the test ends. The test fails if the script is invalid or if any request was
// a surprise.
func Serve(t TB, script string) *Server {
	t.Helper()
	parsed, err := Parse([]byte(script))
	if err != nil {
		t.Fatalf("scripted model: %v", err)
	}
	s, err := New(parsed, nil)
	if err != nil {
		t.Fatalf("scripted model: %v", err)
	}
	if err := s.Start("127.0.0.1:0"); err != nil {
		t.Fatalf("%v", err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close scripted model: %v", err)
		}
		for _, sur := range s.Surprises() {
			t.Errorf("scripted model: surprise in conversation %s after %q: %s", sur.Conversation, excerpt(sur.LastUser), sur.Problem)
		}
	})
	return s
}
