// Command older fills the database of an older Temporal server with what
// TestNewerServerKeepsOlderFile expects. How testdata/server-1.29.1.db.gz was
// made, with the Temporal CLI 1.5.1 (which holds server 1.29.1):
//
//	temporal server start-dev --headless --db-filename old.db \
//	    --search-attribute CustomerState=Keyword --search-attribute FairleadState=Keyword &
//	go run ./testdata/older 127.0.0.1:7233
//	kill -9 %1
//	sqlite3 old.db VACUUM && gzip -9 -c old.db > testdata/server-1.29.1.db.gz
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"slices"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"

	"fairlead.dev/fairlead/deploy/devserver/internal/parked"
)

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: older HOST:PORT")
	}
	if err := fill(os.Args[1]); err != nil {
		log.Fatal(err)
	}
}

// fill leaves twenty Notes with one to three notes each, an Errand whose
// activity nobody has taken yet, and Notes that no worker has seen, with a note
// waiting.
func fill(address string) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c, err := client.Dial(client.Options{HostPort: address})
	if err != nil {
		return err
	}
	defer c.Close()
	w := worker.New(c, parked.Queue, worker.Options{LocalActivityWorkerOnly: true})
	parked.Register(w)
	if err := w.Start(); err != nil {
		return err
	}
	if err := start(ctx, c, "errand", parked.Errand); err != nil {
		w.Stop()
		return err
	}
	for i := range 20 {
		if err := startNotes(ctx, c, fmt.Sprintf("notes-%d", i), i%3+1); err != nil {
			w.Stop()
			return err
		}
	}
	for i := range 20 {
		if err := await(ctx, c, fmt.Sprintf("notes-%d", i), i%3+1); err != nil {
			w.Stop()
			return err
		}
	}
	w.Stop()
	return startNotes(ctx, c, "unseen", 1)
}

func start(ctx context.Context, c client.Client, id string, workflow any) error {
	_, err := c.ExecuteWorkflow(ctx, client.StartWorkflowOptions{ID: id, TaskQueue: parked.Queue}, workflow)
	return err
}

func startNotes(ctx context.Context, c client.Client, id string, notes int) error {
	if err := start(ctx, c, id, parked.Notes); err != nil {
		return err
	}
	for n := range notes {
		if err := c.SignalWorkflow(ctx, id, "", "note", fmt.Sprintf("%s/%d", id, n)); err != nil {
			return err
		}
	}
	return nil
}

// await returns when the workflow has taken its notes in.
func await(ctx context.Context, c client.Client, id string, notes int) error {
	for {
		v, err := c.QueryWorkflow(ctx, id, "", "notes")
		if err != nil {
			return err
		}
		var got []string
		if err := v.Get(&got); err != nil {
			return err
		}
		if len(got) == notes && slices.IsSorted(got) {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
}
