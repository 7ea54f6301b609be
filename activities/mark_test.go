package activities

import "testing"

func TestSessionsOfOneIDInTwoFoldersAreToldApart(t *testing.T) {
	a, b := layoutOf("/home/a/.fairlead", "night-1"), layoutOf("/home/b/.fairlead", "night-1")
	if Mark("night-1", a) == Mark("night-1", b) {
		t.Error("closing one would end the other's processes")
	}
	if Mark("night-1", a) != Mark("night-1", layoutOf("/home/a/.fairlead", "night-1")) {
		t.Error("a session's mark changes")
	}
}
