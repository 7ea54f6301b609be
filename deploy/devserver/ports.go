package main

import (
	"fmt"
	"net"
	"strconv"
)

// freePort returns a free port of ip that the operating system gives to nobody else for
// about a minute. A connection closed from the listening side leaves the port in TIME_WAIT,
// which excludes it from the automatic choice but not from an explicit bind.
func freePort(ip string) (int, error) {
	l, err := net.Listen("tcp", net.JoinHostPort(ip, "0"))
	if err != nil {
		return 0, fmt.Errorf("find a free port on %s: %w", ip, err)
	}
	defer l.Close()
	port := l.Addr().(*net.TCPAddr).Port
	c, err := net.Dial("tcp", hostPort(ip, port))
	if err != nil {
		return 0, fmt.Errorf("find a free port on %s: %w", ip, err)
	}
	defer c.Close()
	accepted, err := l.Accept()
	if err != nil {
		return 0, fmt.Errorf("find a free port on %s: %w", ip, err)
	}
	return port, accepted.Close()
}

func checkPort(ip string, port int) error {
	l, err := net.Listen("tcp", net.JoinHostPort(ip, strconv.Itoa(port)))
	if err != nil {
		return err
	}
	return l.Close()
}

func choosePorts(o *options) (err error) {
	if o.port, err = settle("--port", o.ip, o.port); err != nil {
		return err
	}
	if o.headless {
		return nil
	}
	if !o.uiPortSet {
		if next := o.port + 1000; next <= 65535 && checkPort(o.uiIP, next) == nil {
			o.uiPort = next
			return nil
		}
	}
	o.uiPort, err = settle("--ui-port", o.uiIP, o.uiPort)
	return err
}

func settle(name, ip string, port int) (int, error) {
	if port == 0 {
		return freePort(ip)
	}
	if err := checkPort(ip, port); err != nil {
		return 0, fmt.Errorf("cannot listen on %s: %w (stop what uses it, or give another %s; 0 takes any that is free)",
			net.JoinHostPort(ip, strconv.Itoa(port)), err, name)
	}
	return port, nil
}
