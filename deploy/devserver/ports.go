package main

import (
	"fmt"
	"net"
	"strconv"
)

// freePort returns a port of ip that is free now and that the operating system
// hands to nobody else for about a minute, although nothing listens on it yet:
// the server wants port numbers, not listeners. A connection closed from the
// listening side leaves the port in TIME_WAIT, which keeps it out of the
// automatic choice while an explicit bind still gets it.
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

// checkPort reports why port cannot be listened on.
func checkPort(ip string, port int) error {
	l, err := net.Listen("tcp", net.JoinHostPort(ip, strconv.Itoa(port)))
	if err != nil {
		return err
	}
	return l.Close()
}

// choosePorts settles the frontend's and the UI's port, so that from here on
// both are known and free.
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
