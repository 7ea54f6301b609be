package notify

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"strconv"
	"strings"

	"github.com/wneessen/go-mail"
)

// mail sends a message by SMTP. Its Message-ID is the same for each attempt. If the connection
// is lost while the server may have taken it, it is not sent again.
func (s *Sender) mail(ctx context.Context, r *Rules, c channel, p person, m Message) Outcome {
	to := c.To
	if p.Name != "" {
		to = p.Mail
	}
	if to == "" {
		return failed("the rules do not say to which address it goes")
	}
	host, port, _ := net.SplitHostPort(c.Server)
	n, err := strconv.Atoi(port)
	if err != nil {
		return failed("the server's port is not a number")
	}
	conf := &tls.Config{ServerName: host, MinVersion: tls.VersionTLS12}
	if c.CAFile != "" {
		pem, err := r.public(c.CAFile)
		if err != nil {
			return unsent(err)
		}
		conf.RootCAs = x509.NewCertPool()
		if !conf.RootCAs.AppendCertsFromPEM(pem) {
			return unsent(errors.New("ca_file has no certificate"))
		}
	}
	dialer := r.dialer()
	opts := []mail.Option{mail.WithPort(n), mail.WithTLSConfig(conf), mail.WithTimeout(sendTimeout), mail.WithHELO("fairlead.invalid")}
	switch c.TLS {
	case "none":
		opts = append(opts, mail.WithTLSPolicy(mail.NoTLS), mail.WithDialContextFunc(dialer.DialContext))
	case "implicit":
		over := &tls.Dialer{NetDialer: dialer, Config: conf}
		opts = append(opts, mail.WithSSL(), mail.WithDialContextFunc(over.DialContext))
	default:
		opts = append(opts, mail.WithTLSPolicy(mail.TLSMandatory), mail.WithDialContextFunc(dialer.DialContext))
	}
	if c.User != "" {
		password, err := r.secret(c.PasswordFile)
		if err != nil {
			return unsent(err)
		}
		opts = append(opts, mail.WithSMTPAuth(mail.SMTPAuthAutoDiscover), mail.WithUsername(c.User), mail.WithPassword(password))
	}
	client, err := mail.NewClient(host, opts...)
	if err != nil {
		return failed("the mail server's settings cannot be used: %v", err)
	}
	msg := mail.NewMsg()
	if err := errors.Join(msg.From(c.From), msg.To(to)); err != nil {
		return failed("an address cannot be used")
	}
	msg.Subject("Fairlead: " + m.Subject())
	msg.SetMessageIDWithValue(m.ID + "@fairlead.invalid")
	msg.SetDateWithValue(m.At)
	msg.SetGenHeader("Auto-Submitted", "auto-generated")
	msg.SetBodyString(mail.TypeTextPlain, m.Text(r.Inbox()))
	return mailed(client.DialAndSendWithContext(ctx, msg), msg.IsDelivered())
}

func mailed(err error, delivered bool) Outcome {
	var send *mail.SendError
	switch {
	case delivered || err == nil: // what fails after that is the goodbye
		return Outcome{Result: Sent}
	case errors.Is(err, errPrivate):
		return failed("%v", errPrivate)
	case !errors.As(err, &send):
		return Outcome{Result: Retry, Reason: "the mail server cannot be reached, or refuses us (" + cause(err) + ")"}
	}
	code := send.ErrorCode()
	switch {
	case code >= 500:
		return failed("the mail server refused it with code %d %s", code, send.EnhancedStatusCode())
	case code >= 400:
		return Outcome{Result: Retry, Reason: strings.TrimSpace("the mail server refused it for now with code " + strconv.Itoa(code) + " " + send.EnhancedStatusCode())}
	case send.Reason == mail.ErrSMTPDataClose:
		return Outcome{Result: Unknown, Reason: "the connection was lost before the mail server said whether it took the message"}
	}
	return Outcome{Result: Retry, Reason: "the connection to the mail server was lost: " + send.Reason.String()}
}
