package models_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/golem-forge/golem/internal/work/model/models"
	"github.com/golem-forge/golem/internal/work/model/scripted"
)

// TestGuide: the scripts in the guide can be read, and it names every vendor.
func TestGuide(t *testing.T) {
	text, err := os.ReadFile("../../../../docs/models.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(string(text), -1)
	if len(blocks) < 2 {
		t.Fatalf("found %d scripts", len(blocks))
	}
	for _, b := range blocks {
		if _, err := scripted.New("docs/models.md", []byte(b[1])); err != nil {
			t.Error(err)
		}
	}
	for _, name := range models.Names() {
		if !strings.Contains(string(text), "| `"+name+":") {
			t.Errorf("the guide lacks %s", name)
		}
	}
}
