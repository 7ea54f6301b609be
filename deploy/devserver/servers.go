package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"go.temporal.io/server/common/authorization"
	"go.temporal.io/server/common/config"
	"go.temporal.io/server/common/log"
	"go.temporal.io/server/common/membership/static"
	"go.temporal.io/server/common/primitives"
	"go.temporal.io/server/temporal"
)

// servers are the Temporal servers of this process. The first one has all services. Each other
// one is a further frontend; then a balancer listens where clients connect.
type servers struct {
	each      []temporal.Server
	frontends []string // their addresses
	started   int
	balancer  *balancer
}

func newServers(o *options, store config.Persistence, logger log.Logger) (*servers, error) {
	ports := []int{o.port}
	if o.frontends > 1 {
		ports = nil
		for range o.frontends {
			port, err := freePort(o.ip)
			if err != nil {
				return nil, err
			}
			ports = append(ports, port)
		}
	}
	s := new(servers)
	for _, port := range ports {
		s.frontends = append(s.frontends, hostPort(o.ip, port))
	}
	first, err := serverConfig(o, store, ports[0])
	if err != nil {
		return nil, err
	}
	for n := range ports {
		c, here := first, services
		if n > 0 {
			other := *first
			other.Services = maps.Clone(first.Services)
			front := other.Services[string(primitives.FrontendService)]
			front.RPC.GRPCPort = ports[n]
			other.Services[string(primitives.FrontendService)] = front
			c, here = &other, []primitives.ServiceName{primitives.FrontendService}
		}
		server, err := newServer(o, c, here, s.hosts(first, n), logger)
		if err != nil {
			return nil, err
		}
		s.each = append(s.each, server)
	}
	return s, nil
}

// hosts replaces gossip between the services. n is the number of the frontend of the server
// that they are for.
func (s *servers) hosts(c *config.Config, n int) map[primitives.ServiceName]static.Hosts {
	hosts := make(map[primitives.ServiceName]static.Hosts)
	for _, name := range services {
		rpc := c.Services[string(name)].RPC
		hosts[name] = static.SingleLocalHost(hostPort(rpc.BindOnIP, rpc.GRPCPort))
	}
	hosts[primitives.FrontendService] = static.Hosts{All: slices.Clone(s.frontends), Self: s.frontends[n]}
	return hosts
}

func newServer(o *options, c *config.Config, here []primitives.ServiceName, hosts map[primitives.ServiceName]static.Hosts, logger log.Logger) (temporal.Server, error) {
	if err := c.Validate(); err != nil {
		return nil, fmt.Errorf("configure the Temporal server: %w", err)
	}
	var names []string
	for _, name := range here {
		names = append(names, string(name))
	}
	options := []temporal.ServerOption{
		temporal.WithConfig(c),
		temporal.ForServices(names),
		temporal.WithStaticHosts(hosts),
		temporal.WithLogger(logger),
		temporal.WithAuthorizer(authorization.NewNoopAuthorizer()),
		temporal.WithClaimMapper(func(*config.Config) authorization.ClaimMapper { return authorization.NewNoopClaimMapper() }),
		temporal.WithDynamicConfigClient(dynamicClient(o)),
	}
	provider, err := o.tls.provider(o)
	if err != nil {
		return nil, fmt.Errorf("configure the Temporal server: %w", err)
	}
	if provider != nil {
		options = append(options, temporal.WithTLSConfigFactory(provider))
	}
	server, err := temporal.NewServer(options...)
	if err != nil {
		return nil, fmt.Errorf("configure the Temporal server: %w", err)
	}
	return server, nil
}

// start returns when every frontend answers for every namespace.
func (s *servers) start(ctx context.Context, o *options, logger log.Logger) (err error) {
	if len(s.frontends) > 1 {
		if s.balancer, err = startBalancer(hostPort(o.ip, o.port), s.frontends, logger); err != nil {
			return fmt.Errorf("listen before the frontends: %w", err)
		}
	}
	for _, server := range s.each {
		s.started++ // a server that began to start must be stopped
		if err := server.Start(); err != nil {
			return fmt.Errorf("start the Temporal server: %w", err)
		}
	}
	if o.postgres.on() {
		if err := register(ctx, s.frontends[0], o); err != nil {
			return err
		}
	}
	for _, address := range s.frontends {
		if err := awaitFrontend(ctx, address, o.tls, o.namespaces); err != nil {
			return err
		}
	}
	return nil
}

// stop ends further frontends first.
func (s *servers) stop() error {
	s.balancer.stop()
	var errs []error
	for _, server := range slices.Backward(s.each[:s.started]) {
		errs = append(errs, stopServer(server))
	}
	return errors.Join(errs...)
}
