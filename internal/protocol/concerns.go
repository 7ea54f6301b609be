package protocol

// LoginPrefix begins the ids of commands that log in for a seed.
const LoginPrefix = "login-"

// Concerns returns the host that a command is about, for conditions of the access file.
func (h HostTaskInput) Concerns() (host, seed string) { return h.Host.Name, "" }

// Concerns is as that of HostTaskInput.
func (e ExecInput) Concerns() (host, seed string) { return e.Host.Name, "" }

// Concerns is as that of HostTaskInput.
func (s ScanHostKeysInput) Concerns() (host, seed string) { return s.Host.Name, "" }

// Concerns is as that of HostTaskInput.
func (p PutHost) Concerns() (host, seed string) { return p.Spec.Name, "" }

// Concerns is as that of HostTaskInput.
func (r RemoveHost) Concerns() (host, seed string) { return r.Name, "" }

// Concerns is as that of HostTaskInput.
func (s SetHost) Concerns() (host, seed string) { return s.Name, "" }

// Concerns is as that of HostTaskInput, for a seed.
func (p PutSeed) Concerns() (host, seed string) { return "", p.Name }
