package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	uiversion "github.com/temporalio/ui-server/v2/server/version"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/server/common/config"
	"go.temporal.io/server/common/headers"
	"go.temporal.io/server/common/log"
	"go.temporal.io/server/common/log/tag"
	"go.temporal.io/server/temporal"
	"google.golang.org/grpc"
)

const (
	serverVersion = headers.ServerVersion
	uiVersion     = uiversion.UIVersion
)

// readyWithin bounds the time from the start of the services to their answers.
const readyWithin = 60 * time.Second

// stopWithin bounds the stop of the server's parts, which takes one to three seconds. Their
// own limits are five minutes.
const stopWithin = 10 * time.Second

type ready struct {
	Address   string `json:"address"`
	Namespace string `json:"namespace"`
	UI        string `json:"ui"`
	PID       int    `json:"pid"`
	DB        string `json:"db"`
	Version   string `json:"version"`
}

// serve runs a server until ctx ends. It writes the ready line to out.
func serve(ctx context.Context, o *options, out io.Writer) (err error) {
	logger, quiet := newLogger(o.logLevel, o.logFormat)
	defer context.AfterFunc(ctx, func() {
		logger.Info("stopping")
		quiet()
	})()
	// What has begun is finished even if ctx ends.
	whole := context.WithoutCancel(ctx)
	if err := o.tls.check(); err != nil {
		return err
	}
	if err := choosePorts(o); err != nil {
		return err
	}
	if !o.tls.on() && !net.ParseIP(o.ip).IsLoopback() || !o.headless && !net.ParseIP(o.uiIP).IsLoopback() {
		logger.Warn("listening beyond this machine, and nobody is asked who they are",
			tag.NewStringTag("ip", o.ip), tag.NewStringTag("ui-ip", o.uiIP))
	}
	var db *database
	if o.db != "" && !o.postgres.on() {
		if db, err = openDatabase(ctx, o.db, serverVersion, logger); err != nil {
			return unlessStopped(ctx, err)
		}
		o.db = db.path
	}
	defer func() { err = errors.Join(err, db.close(whole)) }()

	store, err := prepare(ctx, o, logger)
	if err != nil {
		return unlessStopped(ctx, err)
	}
	servers, err := newServers(o, store, logger)
	if err != nil {
		return err
	}
	// The UI first, so that it answers as soon as the frontend does.
	ui, err := startUI(o, logger)
	if err != nil {
		return err
	}
	defer ui.stop()
	defer func() { err = errors.Join(err, servers.stop()) }()
	if err := servers.start(ctx, o, logger); err != nil {
		return unlessStopped(ctx, err)
	}
	address := hostPort(o.ip, o.port)
	line := ready{address, o.namespaces[0], ui.address(), os.Getpid(), o.database(), serverVersion}
	if err := json.NewEncoder(out).Encode(line); err != nil {
		return fmt.Errorf("say that the server is ready: %w", err)
	}
	logger.Info("ready", tag.NewStringTag("address", address), tag.NewStringTag("ui", ui.address()), tag.NewStringTag("database", line.DB))
	<-ctx.Done()
	return nil
}

// stopServer gives up after stopWithin; the database survives the end of the process.
func stopServer(server temporal.Server) error {
	stopped := make(chan error, 1)
	go func() { stopped <- server.Stop() }()
	select {
	case err := <-stopped:
		return err
	case <-time.After(stopWithin):
		return nil
	}
}

// unlessStopped drops an error that may only come from the end of ctx.
func unlessStopped(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// prepare makes what is in the database ready for a server, before one runs, and says where it is.
func prepare(ctx context.Context, o *options, logger log.Logger) (config.Persistence, error) {
	if o.postgres.on() {
		return o.postgres.persistence(), o.postgres.upgrade(ctx, logger)
	}
	store := sqlConfig(o.db, o.pragmas)
	return sqlPersistence(store), ensureNamespaces(ctx, store, o.namespaces, o.retention, o.attributes)
}

// database says where everything is kept.
func (o *options) database() string {
	if o.postgres.on() {
		return "postgres://" + o.postgres.address + "/" + o.postgres.database
	}
	return o.db
}

func awaitFrontend(ctx context.Context, address string, files tlsFiles, namespaces []string) error {
	ctx, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	creds, err := files.dialing(address)
	if err != nil {
		return fmt.Errorf("reach the frontend at %s: %w", address, err)
	}
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(creds))
	if err != nil {
		return fmt.Errorf("reach the frontend at %s: %w", address, err)
	}
	defer conn.Close()
	client := workflowservice.NewWorkflowServiceClient(conn)
	for _, name := range namespaces {
		for {
			_, err := client.DescribeNamespace(ctx, &workflowservice.DescribeNamespaceRequest{Namespace: name}, grpc.WaitForReady(true))
			if err == nil {
				break
			}
			select {
			case <-ctx.Done():
				return fmt.Errorf("the frontend at %s does not answer for namespace %s: %w", address, name, err)
			case <-time.After(10 * time.Millisecond):
			}
		}
	}
	return nil
}
