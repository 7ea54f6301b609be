package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	enums "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflowservice/v1"

	"fairlead.dev/fairlead/internal/lab"
)

// judge reads the history of each workflow. A task that failed because of a history that does
// not fit the code is an error. Tasks that failed otherwise are counted. An older worker leaves
// the novel workflows to newer ones in this way; there must be such failures.
func judge(ctx context.Context, l *lab.Lab) error {
	c, err := l.Temporal(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	histories, causes, left, bad := 0, map[string]int{}, map[string]int{}, []string{}
	var page []byte
	for {
		list, err := c.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{PageSize: 100, NextPageToken: page})
		if err != nil {
			return fmt.Errorf("list workflows: %w", err)
		}
		for _, w := range list.Executions {
			histories++
			history := c.GetWorkflowHistory(ctx, w.Execution.WorkflowId, w.Execution.RunId, false, enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
			for history.HasNext() {
				e, err := history.Next()
				if err != nil {
					return fmt.Errorf("read the history of %s: %w", w.Execution.WorkflowId, err)
				}
				failed := e.GetWorkflowTaskFailedEventAttributes()
				if failed == nil {
					continue
				}
				if cause := failed.Cause; cause == enums.WORKFLOW_TASK_FAILED_CAUSE_WORKFLOW_WORKER_UNHANDLED_FAILURE && slices.Contains(novels, w.Execution.WorkflowId) {
					left[w.Execution.WorkflowId]++
					continue
				}
				causes[failed.Cause.String()]++
				if failed.Cause == enums.WORKFLOW_TASK_FAILED_CAUSE_NON_DETERMINISTIC_ERROR {
					bad = append(bad, w.Execution.WorkflowId+": "+failed.GetFailure().GetMessage())
				}
			}
		}
		if page = list.NextPageToken; len(page) == 0 {
			break
		}
	}
	fmt.Printf("upgrade: %d histories; failed workflow tasks by cause: ", histories)
	if len(causes) == 0 {
		fmt.Print("none")
	}
	for _, cause := range slices.Sorted(maps.Keys(causes)) {
		fmt.Printf("%s %d ", cause, causes[cause])
	}
	fmt.Println()
	for _, id := range novels {
		if left[id] == 0 {
			return fmt.Errorf("no task of %s failed: an older worker did not leave it", id)
		}
		fmt.Printf("upgrade: N left tasks of %s to N+1\n", id)
	}
	logs, err := filepath.Glob(filepath.Join(l.State, "logs", "worker*.log"))
	if err != nil || len(logs) < workers {
		return fmt.Errorf("the logs of workers are %q, and not one for each worker: %v", logs, err)
	}
	for _, name := range logs {
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		// The SDK's name for it.
		if n := strings.Count(string(text), "TMPRL1100"); n > 0 {
			bad = append(bad, fmt.Sprintf("%s says so %d times", name, n))
		}
	}
	if len(bad) > 0 {
		return fmt.Errorf("%d workflow tasks failed since a history does not fit the code: %v", len(bad), bad)
	}
	return nil
}
