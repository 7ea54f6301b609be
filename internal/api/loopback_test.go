package api

import (
	"context"
	"fmt"
	"testing"
	"time"

	"fairlead.dev/fairlead/hostexec"
)

// A slackBook gives codes.
type slackBook struct{}

func (slackBook) NewCode(context.Context, string) (string, time.Time, error) {
	return "code", time.Now(), nil
}
func (slackBook) Accounts(context.Context, string) ([]SlackAccount, error) { return nil, nil }
func (slackBook) Unlink(context.Context, string, string) (bool, error)     { return false, nil }

// Everybody on a machine reaches a loopback address, and a token sent there without TLS shows itself to
// whoever listens there first.
func TestWithoutAuthorityALoopbackAddressGivesNoTunnelAndNoCodeForSlack(t *testing.T) {
	port := greeter(t)
	for _, listen := range []string{"127.0.0.1:0", ""} {
		for _, token := range []string{"", "0123456789abcdef"} {
			t.Run(fmt.Sprintf("listen %q token %q", listen, token), func(t *testing.T) {
				pool := hostexec.NewPool(hostexec.PoolOptions{})
				t.Cleanup(func() { pool.Close() })
				b := serve(t, func(o *Options) {
					o.Hosts, o.Slack, o.Token = hereHosts{pool}, slackBook{}, token
					if listen != "" {
						o.Listen = listen
					}
				})
				c, err := NewClient(b.server.Address(), ClientOptions{Token: token})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { c.Close() })
				want := ""
				if listen != "" {
					want = ErrForbidden
				}
				if _, err := c.SlackCode(t.Context()); errorKind(err) != want {
					t.Errorf("a code: %v", err)
				}
				conn, err := c.OpenTunnel(t.Context(), "", "h1", port)
				if errorKind(err) != want {
					t.Errorf("a tunnel: %v", err)
				}
				if err == nil {
					conn.Close()
				}
				if _, err := c.Status(t.Context()); err != nil {
					t.Errorf("the status: %v", err)
				}
			})
		}
	}
}
