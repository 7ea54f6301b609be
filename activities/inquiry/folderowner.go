package inquiry

import (
	"context"
	"errors"
	"fmt"
	"time"

	enums "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"fairlead.dev/fairlead/internal/protocol"
)

// A FolderOwner says who owns a session's folder on a host, as far as Temporal knows.
type FolderOwner string

const (
	OwnerRuns  FolderOwner = "runs"  // its session runs, and cleans up by itself
	OwnerEnded FolderOwner = "ended" // it belongs to a session of ours that has ended

	// The folders of all others are not known to be ours.

	OwnerNobody   FolderOwner = "no session of that name is known"
	OwnerAnother  FolderOwner = "the session of that name was another one"
	OwnerUnmarked FolderOwner = "the folder does not say whose it is"
)

// Known says that the folder is, or was, of a session of this namespace.
func (o FolderOwner) Known() bool { return o == OwnerRuns || o == OwnerEnded }

// generationSlack is how many seconds a generation's number may be above the Unix time
// of its start. The number may be higher, because each one is above the last.
const generationSlack = 60

// AskFolderOwner asks Temporal who owns the folder of a session's generation. The
// generation's number is the Unix time at which it began. If no session of that name ran
// then, the folder is of another installation that shares the host, or from before the
// database was lost. An error means that the owner cannot be known now.
func AskFolderOwner(ctx context.Context, c client.Client, session string, generation int64) (FolderOwner, error) {
	ctx, cancel := context.WithTimeout(ctx, AskTimeout)
	defer cancel()
	fail := func(err error) (FolderOwner, error) {
		return "", fmt.Errorf("ask whether session %s has ended: %w", session, err)
	}
	id := protocol.SessionID(session)
	d, err := c.DescribeWorkflowExecution(ctx, id, "")
	var none *serviceerror.NotFound
	switch {
	case errors.As(err, &none):
		return OwnerNobody, nil
	case err != nil:
		return fail(err)
	case !Over(d.GetWorkflowExecutionInfo().GetStatus()):
		return OwnerRuns, nil
	case generation == 0:
		return OwnerUnmarked, nil
	case beganIn(d.GetWorkflowExecutionInfo(), generation):
		return OwnerEnded, nil
	}
	// The folder may be of an earlier run of that session, or of an earlier session of
	// that name.
	var page []byte
	for {
		r, err := c.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{
			Query: fmt.Sprintf("WorkflowId = '%s'", id), PageSize: 200, NextPageToken: page})
		if err != nil {
			return fail(err)
		}
		for _, run := range r.GetExecutions() {
			if run.GetCloseTime() != nil && beganIn(run, generation) {
				return OwnerEnded, nil
			}
		}
		if page = r.GetNextPageToken(); len(page) == 0 {
			return OwnerAnother, nil
		}
	}
}

// beganIn reports whether a generation can have begun in a run that has ended.
func beganIn(run *workflowpb.WorkflowExecutionInfo, generation int64) bool {
	began, ended := run.GetStartTime().AsTime().Unix(), run.GetCloseTime().AsTime().Unix()
	return began <= generation && generation <= ended+generationSlack
}

// GenerationTime returns when a generation began; zero if it cannot be a time.
func GenerationTime(generation int64) time.Time {
	if generation < 1_500_000_000 || generation > 1<<33 {
		return time.Time{}
	}
	return time.Unix(generation, 0).UTC()
}

// Over reports whether a workflow has ended. A paused workflow has not.
func Over(status enums.WorkflowExecutionStatus) bool {
	switch status {
	case enums.WORKFLOW_EXECUTION_STATUS_COMPLETED, enums.WORKFLOW_EXECUTION_STATUS_FAILED, enums.WORKFLOW_EXECUTION_STATUS_CANCELED,
		enums.WORKFLOW_EXECUTION_STATUS_TERMINATED, enums.WORKFLOW_EXECUTION_STATUS_TIMED_OUT:
		return true
	}
	return false // also continued as new: the next run goes on
}
