package activities

import (
	"testing"

	"fairlead.dev/fairlead/activities/folder"
)

func TestSessionsOfOneIDInTwoFoldersAreToldApart(t *testing.T) {
	a, b := folder.LayoutOf("/home/a/.fairlead", "night-1"), folder.LayoutOf("/home/b/.fairlead", "night-1")
	if folder.Mark("night-1", a) == folder.Mark("night-1", b) {
		t.Error("closing one would end the other's processes")
	}
	if folder.Mark("night-1", a) != folder.Mark("night-1", folder.LayoutOf("/home/a/.fairlead", "night-1")) {
		t.Error("a session's mark changes")
	}
}
