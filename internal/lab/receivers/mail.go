package receivers

import (
	"io"
	"net"
	"sync"

	"github.com/emersion/go-smtp"
)

// Mail is an SMTP server.
type Mail struct {
	faults
	Address string
	server  *smtp.Server
	mu      sync.Mutex
	got     []Letter
}

// A Letter is a mail that was taken.
type Letter struct {
	From string
	To   []string
	Data string
}

// NewMail starts an SMTP server.
func NewMail() (*Mail, error) {
	m := &Mail{}
	m.server = smtp.NewServer(m)
	m.server.Domain, m.server.AllowInsecureAuth = "localhost", true
	m.server.ErrorLog = silent{}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	m.Address = l.Addr().String()
	go func() { _ = m.server.Serve(l) }()
	return m, nil
}

// Close stops it.
func (m *Mail) Close() error { return m.server.Close() }

// Got returns the mails that were taken.
func (m *Mail) Got() []Letter {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]Letter(nil), m.got...)
}

// NewSession implements smtp.Backend.
func (m *Mail) NewSession(c *smtp.Conn) (smtp.Session, error) { return &talk{m: m, conn: c}, nil }

type talk struct {
	m    *Mail
	conn *smtp.Conn
	l    Letter
}

func (t *talk) Mail(from string, _ *smtp.MailOptions) error { t.l.From = from; return nil }
func (t *talk) Rcpt(to string, _ *smtp.RcptOptions) error   { t.l.To = append(t.l.To, to); return nil }
func (t *talk) Reset()                                      { t.l = Letter{} }
func (t *talk) Logout() error                               { return nil }

// Data takes a mail, or fails after it has read all of it.
func (t *talk) Data(r io.Reader) error {
	data, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	x := t.m.next("")
	if x.Status != 0 {
		return &smtp.SMTPError{Code: x.Status, EnhancedCode: smtp.EnhancedCode{x.Status / 100, 3, 0}, Message: "not now"}
	}
	t.l.Data = string(data)
	t.m.mu.Lock()
	t.m.got = append(t.m.got, t.l)
	t.m.mu.Unlock()
	x.wait()
	if x.Cut {
		_ = t.conn.Conn().Close()
	}
	return nil
}

type silent struct{}

func (silent) Printf(string, ...any) {}
func (silent) Println(...any)        {}
