// Package workerfile says which files golem reads as workers.
package workerfile

import (
	"path"
	"regexp"
	"strings"
	"sync"
)

// Suffix is the ending of worker files. A YAML file is one only if it has a key of workers.
const Suffix = ".worker"

// Stem returns the name of a worker file without its ending, "" for the name of any other
// file.
func Stem(name string) string {
	for _, ending := range []string{Suffix, ".yaml", ".yml"} {
		if stem, ok := strings.CutSuffix(name, ending); ok {
			return stem
		}
	}
	return ""
}

// IsWorker reports whether golem reads a file with this name and content as a worker, if it
// is at a place where golem looks for workers. It ignores case, as some hosts do.
func IsWorker(name string, content []byte) bool {
	name = strings.ToLower(name)
	return strings.HasSuffix(name, Suffix) || Stem(name) != "" && HasKey(content)
}

// ownKeys are the keys that only worker files have.
const ownKeys = "instructions|prompt|toolsets|tool_rules|allow_workers"

// HasKey reports whether a YAML file has a key that only worker files have, in any of the
// forms in which YAML writes keys. A file that is not YAML has it at the beginning of a line.
func HasKey(content []byte) bool {
	if !LikelyHasKey(content) { // the others need no parser
		return false
	}
	if workerKey().Match(content) {
		return true
	}
	return parsesWithKey(content)
}

var workerKey = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?m)^\x{feff}?["']?(` + ownKeys + `)["']?[ \t]*:`)
})

// LikelyHasKey reports whether such a key is anywhere in the content, in any form of YAML and
// in any case.
func LikelyHasKey(content []byte) bool { return likelyKey().Match(content) }

var likelyKey = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?i)\b(` + ownKeys + `)["']?\s*:`)
})

// Places returns patterns of the YAML files that golem reads as workers, if they have a key
// of workers. The directories are those for workers, relative to the program's directory. The
// names of files with the ending Suffix say enough.
func Places(dirs []string) []string {
	list := []string{"main.y*ml"}
	for _, dir := range dirs {
		list = append(list, path.Join(dir, "*.y*ml"), path.Join(dir, "*/worker.y*ml"))
	}
	return list
}
