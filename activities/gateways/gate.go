package gateways

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"fairlead.dev/fairlead/activities/folder"
	"fairlead.dev/fairlead/activities/internal/kit"
	"fairlead.dev/fairlead/activities/site"
	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/internal/audit"
	"fairlead.dev/fairlead/internal/egress"
	"fairlead.dev/fairlead/internal/gateway"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/seeds"
)

const (
	// rotateEvery is how long a token is used. overlap is how long the one before it stays
	// valid: codex runs the command again after five seconds, when it asks next.
	rotateEvery = 10 * time.Minute
	overlap     = time.Minute
	// rewrite is the pause after a token that could not be written.
	rewrite = 5 * time.Second
	// writeWait bounds one attempt to write a token to the host.
	writeWait = 30 * time.Second
	// lingerFor is how long a Gate stays open after its pump, while codex waits for the
	// model.
	lingerFor = 15 * time.Minute
	// egressStays is how long a Gate stays open at least after a pump that ended within a turn, if
	// programs of the session may reach something by it: the next pump usually comes at once.
	egressStays = 20 * time.Second
	lingerLook  = 250 * time.Millisecond
	// countWait bounds how long a pump waits at its end until the store says what the session has
	// spent.
	countWait = 20 * time.Second
)

// An Opening says for whom a Gate is opened.
type Opening struct {
	Claim   protocol.Claim
	Layout  protocol.Layout
	Seed    *protocol.SeedRef
	Attempt int32
	Hide    site.Secrets // gets each token
	Tenant  string       // empty means the default one
	// Account is the name under which the use of the session is counted. If it is empty, nothing is
	// counted. Money bounds what the session may spend; 0 means no bound.
	Account string
	Money   protocol.Money
	// Tokens is the most tokens that the session may use; 0 means no bound. Used is the number that
	// codex reported before this pump.
	Tokens, Used int64
	// Egress are the rules of what programs of the session may reach.
	Egress []string
	// Lost is called once if the port is closed for good while the Gate is open.
	Lost func(error)
}

// ErrLost is the error that Lost gets.
var ErrLost = errors.New("the port of the model gateway is closed")

// A Gate is the open model gateway of a session. It is safe for concurrent use.
type Gate struct {
	site    *site.Site
	host    hostexec.Host
	key     lingering
	seed    string
	tenant  string
	forward *hostexec.Forward
	gateway *gateway.Gateway
	tokens  *gateway.Tokens
	meter   *meter        // nil if this worker counts nothing
	egress  *egress.Proxy // nil if the session asks for no way out
	keeping chan struct{} // has an element for each body on its way to the store
	// strangers are those without a token, outsiders those who are refused the way out.
	strangers, outsiders strangers

	end    context.CancelFunc // ends rotate
	again  chan struct{}      // the forward was established again
	joined sync.WaitGroup

	mu      sync.Mutex
	file    string         // guarded by mu, like all below: of the token
	fence   hostexec.Fence // of the pump that uses the Gate
	hide    site.Secrets
	lost    func(error)
	use     protocol.ModelUse
	out     protocol.EgressUse
	token   string        // the newest
	stopped chan struct{} // closed to end lingering; nil while a pump uses the Gate
}

// lingering tells the Gates of a worker apart.
type lingering struct {
	session, host, blob string
	generation          int64
	port                int
}

// Open opens the gateway of a session, or goes on with the one that still is open here. When
// it returns, the host has a token that is valid. Leave or Close must be called.
func Open(ctx context.Context, s *site.Site, h hostexec.Host, in Opening) (*Gate, error) {
	if in.Layout.ModelPort == 0 {
		return nil, kit.BadInput("session %s has no port for the model gateway", in.Claim.Session)
	}
	key := lingering{session: in.Claim.Session, host: h.Name(), blob: in.Seed.Blob, generation: in.Claim.Generation, port: in.Layout.ModelPort}
	fence := folder.FenceOf(in.Claim, in.Layout.Dir, in.Attempt)
	if g := takeUp(s, key); g != nil {
		if err := g.goOn(ctx, fence, in); err == nil {
			return g, nil
		}
		g.Close()
	}
	bundle, err := s.Bundle(ctx, in.Seed)
	if err != nil {
		return nil, err
	}
	upstreams, back, err := upstreamsOf(bundle)
	if err != nil {
		return nil, kit.BadInput("seed %s: %w", in.Seed.Name, err)
	}
	g := &Gate{site: s, host: h, key: key, seed: in.Seed.Name, tenant: cmp.Or(in.Tenant, protocol.DefaultTenant), tokens: &gateway.Tokens{}, again: make(chan struct{}, 1),
		file: seeds.TokenFile(in.Layout.CodexHome), fence: fence, hide: in.Hide, lost: in.Lost, meter: newMeter(s, in), keeping: make(chan struct{}, mostKeeping)}
	g.strangers, g.outsiders = strangersOf(h.Name())
	var meter gateway.Meter
	if g.meter != nil {
		meter = g.meter
	}
	if g.egress, err = g.newEgress(in.Egress, in.Layout.Dir); err != nil {
		return nil, err
	}
	var proxy http.Handler
	if g.egress != nil {
		proxy = g.egress
	}
	var keep func(gateway.Outcome, gateway.Bodies)
	if s.Bodies.Keep > 0 {
		keep = g.keepBodies
	}
	g.gateway, err = gateway.New(gateway.Options{
		Proxy: proxy,
		Keep:  keep, KeepBytes: int(s.Bodies.Bytes) + mostSecret,
		Meter:     meter,
		Upstreams: upstreams, FallBack: back, Standing: standingOf(s, in.Seed),
		Tokens: g.tokens, Record: g.record, Logger: s.Logger.With("session", in.Claim.Session),
	})
	if err != nil {
		g.egress.Close()
		return nil, kit.BadInput("seed %s: %w", in.Seed.Name, err)
	}
	conns := modelConns
	if g.egress != nil {
		conns += egressConns
	}
	g.forward, err = open(ctx, s, h, hostexec.ForwardSpec{Name: folder.ModelForward, Port: key.port, Fence: fence, MaxConns: conns, OnChange: g.changed})
	if err != nil {
		g.egress.Close()
		return nil, opening(err)
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		if err := g.gateway.Serve(g.forward); err != nil && !errors.Is(err, http.ErrServerClosed) {
			s.Logger.Debug("a model gateway ended", "session", in.Claim.Session, "error", err)
		}
	}()
	g.joined.Go(func() { <-served })
	if err := g.renew(ctx, 0); err != nil {
		g.lose(nil)
		g.forward.Close()
		g.egress.Close()
		g.joined.Wait()
		return nil, err
	}
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	g.end = end
	g.joined.Go(func() { g.rotate(life) })
	return g, nil
}

// changed is told of each change of the forward.
func (g *Gate) changed(now hostexec.ForwardState) {
	switch {
	case now.Up && now.Times > 1:
		// Meanwhile another program may have listened at the port and received a token.
		select {
		case g.again <- struct{}{}:
		default:
		}
	case now.Over && !errors.Is(now.Err, net.ErrClosed):
		g.mu.Lock()
		lost := g.lost
		g.mu.Unlock()
		if lost != nil {
			lost(fmt.Errorf("%w: %w", ErrLost, now.Err))
		}
	}
}

// rotate replaces the token until ctx ends.
func (g *Gate) rotate(ctx context.Context) {
	t := time.NewTimer(rotateEvery)
	defer t.Stop()
	for {
		keep := overlap
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		case <-g.again:
			keep = 0
		}
		next := rotateEvery
		if err := g.renew(ctx, keep); err != nil && ctx.Err() == nil {
			g.site.Logger.Warn("the token for the model gateway was not replaced on the host", "session", g.key.session, "error", err)
			next = rewrite
		}
		t.Reset(next)
	}
}

// tokenScript overwrites the token in place, since a file that is renamed onto the name would
// be seen by commands that run. The token comes by standard input: nobody sees it in a list of
// processes.
const tokenScript = `[ -f "$1" ] && [ ! -h "$1" ] || { echo "$1 is no file" >&2; exit 1; }
IFS= read -r t && printf '%s' "$t" 1<>"$1"`

// renew issues a token and writes it to the host.
func (g *Gate) renew(ctx context.Context, keep time.Duration) error {
	token := g.tokens.Issue(g.site.Now(), keep)
	if token == "" {
		return errors.New("the model gateway is closed")
	}
	if len(token) != seeds.TokenLength {
		return fmt.Errorf("a token has %d bytes, expected %d: this is a bug in Fairlead", len(token), seeds.TokenLength)
	}
	g.mu.Lock()
	file, fence, hide := g.file, g.fence, g.hide
	g.token = token
	g.mu.Unlock()
	hide.AddText(token)
	ctx, cancel := context.WithTimeout(ctx, writeWait)
	defer cancel()
	if _, err := g.host.Run(ctx, hostexec.Command{Script: tokenScript, Args: []string{file}, Stdin: []byte(token + "\n"), Fence: &fence}); err != nil {
		return fmt.Errorf("write the token for the model gateway to %s: %w", g.host.Name(), err)
	}
	return nil
}

func (g *Gate) lose(f func(error)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.lost = f
}

// Close ends the gateway: its token is worthless, and its port is closed.
func (g *Gate) Close() {
	if g == nil {
		return
	}
	g.lose(nil)
	g.tokens.End()
	g.end()
	g.egress.Close() // before the forward, whose end would look like a lost connection
	g.forward.Close()
	g.joined.Wait()
	g.unreported()
	for _, s := range []*strangers{&g.strangers, &g.outsiders} {
		if r, due := s.rest(g.key.session, g.site.Now()); due && g.site.Stranger != nil {
			g.site.Stranger(r)
		}
	}
}

// tell puts requests of strangers on record. It does not block.
func (g *Gate) tell(r audit.Record) {
	if g.site.Stranger != nil {
		go g.site.Stranger(r) // it may wait for the store
	}
}

// record counts a request.
func (g *Gate) record(o gateway.Outcome) {
	var money protocol.Money
	if n := o.Usage; n != nil {
		price, _ := g.site.Tariff().Prices.Of(o.Asked)
		money = price.Of(n.Input, n.Cached, n.Output)
	}
	g.mu.Lock()
	add(&g.use, o)
	g.use.Money += money
	g.mu.Unlock()
	if o.Kind == gateway.KindRefused {
		if r, due := g.strangers.refused(g.key.session, o.From, g.site.Now()); due {
			g.site.Logger.Warn("somebody without a token asked the model gateway of a session", "session", g.key.session, "host", g.host.Name(), "from", o.From, "why", r.Reason)
			g.tell(r)
		}
	}
	if g.site.Asked != nil {
		g.site.Asked(site.ModelRequest{Outcome: o, Seed: g.seed, Tenant: g.tenant, Money: money})
	}
}

// Told records the number of tokens that codex reports for the session.
func (g *Gate) Told(tokens int64) {
	if g != nil {
		g.meter.told(tokens)
	}
}

// Used returns what the gateway did since the last call of Used.
func (g *Gate) Used(ctx context.Context) *protocol.ModelUse {
	if g == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, countWait)
	defer cancel()
	spent, err := g.meter.spent(ctx)
	if err != nil {
		g.site.Logger.Warn("what a session has spent is not known", "session", g.key.session, "error", err)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.use == (protocol.ModelUse{}) && spent == 0 {
		return nil
	}
	use := g.use
	use.Spent = spent
	g.use = protocol.ModelUse{}
	return &use
}

func add(u *protocol.ModelUse, o gateway.Outcome) {
	if o.Kind == gateway.KindRefused {
		u.Refused++
		return
	}
	if o.Path == "/v1/models" {
		return
	}
	u.Requests++
	u.Retries += int64(max(0, o.Attempts-1))
	if o.Rebuilt != "" {
		u.Rebuilt++
		u.LastRebuilt = o.Rebuilt
	}
	if n := o.Usage; n != nil {
		u.Input, u.Cached, u.Output = u.Input+n.Input, u.Cached+n.Cached, u.Output+n.Output
		if n.Estimated {
			u.Estimated++
		}
	}
	u.FirstByte, u.Total = u.FirstByte+o.FirstByte, u.Total+o.Total
	if o.FellBack != "" {
		u.FellBack, u.LastFellBack = u.FellBack+1, o.FellBack
	}
	switch o.Kind {
	case gateway.KindCompleted, gateway.KindIncomplete:
		u.Upstream, u.Model = o.Upstream, o.Asked
	}
	switch o.Kind {
	case gateway.KindCompleted, gateway.KindIncomplete, gateway.KindGone:
	default:
		u.Failed++
		u.LastKind, u.LastError = string(o.Kind), o.Message
	}
}
