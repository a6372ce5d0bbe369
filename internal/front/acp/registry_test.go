package acp

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/golem-forge/golem/internal/records/version"
)

// TestRegistryEntry checks that the entry for the registry of agents names the archives of this
// version, and the command that serves an editor.
func TestRegistryEntry(t *testing.T) {
	data, err := os.ReadFile("../../../packaging/acp-agent.json")
	if err != nil {
		t.Fatal(err)
	}
	var entry struct {
		ID, Name, Version, Description, License string
		Authors                                 []string
		Distribution                            struct {
			Binary map[string]struct {
				Archive, Cmd string
				Args         []string
			}
		}
	}
	if err := json.Unmarshal(data, &entry); err != nil || entry.ID == "" || entry.Name == "" || entry.Description == "" || entry.License == "" || len(entry.Authors) == 0 {
		t.Errorf("%v: %+v", err, entry)
	}
	if entry.Version != version.Release {
		t.Errorf("the entry is of version %s, and golem is %s", entry.Version, version.Release)
	}
	for system, arch := range map[string]string{"linux-x86_64": "amd64", "linux-aarch64": "arm64"} {
		name := "golem_" + version.Release + "_linux_" + arch
		b := entry.Distribution.Binary[system]
		if !strings.HasSuffix(b.Archive, "/v"+version.Release+"/"+name+".tar.gz") || b.Cmd != "./"+name+"/bin/golem" || strings.Join(b.Args, " ") != "acp" {
			t.Errorf("%s: %+v", system, b)
		}
	}
}
