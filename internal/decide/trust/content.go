package trust

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path"
	"slices"

	"github.com/golem-forge/golem/internal/jail/profile"
	"github.com/golem-forge/golem/internal/work/worker"
)

// Content is the files of a program that decide what it may do.
type Content struct {
	Hash  string // "" if there are no files
	Files map[string]string
}

// MaxContent is the largest content in bytes: a copy of it is stored for later diffs.
const MaxContent = 16 << 20

// NewContent returns the content of a program: its project file, unless file is "", its
// workers, the files of its foreign tools, and its profiles.
func NewContent(file string, data []byte, workers []*worker.Worker, tools ToolFiles, profiles profile.Repository) Content {
	c := Content{Files: map[string]string{}}
	full := tools.holdsTexts()
	for name, data := range tools {
		c.Files["./"+name] = recordedText(data, full) // no other file has a name with this prefix
	}
	for name, data := range profiles {
		c.Files[name] = string(data)
	}
	if file != "" {
		c.Files[file] = string(data)
	}
	for _, w := range workers {
		c.Files[w.File] = string(w.Content)
	}
	if len(c.Files) > 0 {
		h := sha256.New()
		for _, name := range c.names() {
			fmt.Fprintf(h, "%d %s %d %s", len(name), name, len(c.Files[name]), c.Files[name])
		}
		c.Hash = hex.EncodeToString(h.Sum(nil))
	}
	return c
}

// Size returns the size of all files in bytes.
func (c Content) Size() int {
	sum := 0
	for _, text := range c.Files {
		sum += len(text)
	}
	return sum
}

// Others returns the files of the content that are not among the names.
func (c Content) Others(names []string) []string {
	return slices.DeleteFunc(c.names(), func(name string) bool { return slices.Contains(names, path.Clean(name)) })
}

func (c Content) names() []string {
	names := make([]string, 0, len(c.Files))
	for name := range c.Files {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
