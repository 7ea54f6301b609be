package core

import (
	"os"
	"path/filepath"
	"testing"
)

// A cloned repository must not be able to redirect ctl.
func TestAConfigFileOfTheCurrentFolderIsNotRead(t *testing.T) {
	home, here := t.TempDir(), t.TempDir()
	t.Chdir(here)
	t.Setenv("XDG_CONFIG_HOME", home)
	t.Setenv("FAIRLEAD_CONFIG", "")
	for _, name := range []string{"fairlead.yaml", "config.yaml"} {
		if err := os.WriteFile(name, []byte("api: {address: evil}\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var a App
	if path, explicit := a.ConfigPath(); path != "" || explicit {
		t.Errorf("ctl would read %s", path)
	}
	own := filepath.Join(home, "fairlead", "config.yaml")
	if err := os.MkdirAll(filepath.Dir(own), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(own, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if path, explicit := a.ConfigPath(); path != own || explicit {
		t.Errorf("ctl would read %q, not the user's own %s", path, own)
	}
	t.Setenv("FAIRLEAD_CONFIG", "fairlead.yaml")
	if path, explicit := a.ConfigPath(); path != "fairlead.yaml" || !explicit {
		t.Errorf("the file that is named is not read, but %q", path)
	}
}
