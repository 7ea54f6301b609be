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

// A FolderOwner says whose a session's folder is.
type FolderOwner string

const (
	OwnerRuns  FolderOwner = "runs"  // the session cleans up by itself
	OwnerEnded FolderOwner = "ended" // of a session of ours that ended

	// Not known to be ours:

	OwnerNobody   FolderOwner = "no session of that name is known"
	OwnerAnother  FolderOwner = "the session of that name was another one"
	OwnerUnmarked FolderOwner = "the folder does not say whose it is"
)

// Known says that the folder is of this namespace.
func (o FolderOwner) Known() bool { return o == OwnerRuns || o == OwnerEnded }

// generationSlack is how many seconds a generation's number may exceed its start, because
// each is above the last.
const generationSlack = 60

// AskFolderOwner asks Temporal whose a generation's folder is. A generation is the Unix
// time of its start. If no session of the name ran then, the folder is another
// installation's, or older than the database. An error means that the owner is not known
// now.
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
	// It may be of an earlier run or session.
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

func beganIn(run *workflowpb.WorkflowExecutionInfo, generation int64) bool {
	began, ended := run.GetStartTime().AsTime().Unix(), run.GetCloseTime().AsTime().Unix()
	return began <= generation && generation <= ended+generationSlack
}

// GenerationTime returns when a generation began; zero if that is no time.
func GenerationTime(generation int64) time.Time {
	if generation < 1_500_000_000 || generation > 1<<33 {
		return time.Time{}
	}
	return time.Unix(generation, 0).UTC()
}

// Over reports whether a workflow has ended.
func Over(status enums.WorkflowExecutionStatus) bool {
	switch status {
	case enums.WORKFLOW_EXECUTION_STATUS_COMPLETED, enums.WORKFLOW_EXECUTION_STATUS_FAILED, enums.WORKFLOW_EXECUTION_STATUS_CANCELED,
		enums.WORKFLOW_EXECUTION_STATUS_TERMINATED, enums.WORKFLOW_EXECUTION_STATUS_TIMED_OUT:
		return true
	}
	return false // also paused, or continued as new: the next run goes on
}
