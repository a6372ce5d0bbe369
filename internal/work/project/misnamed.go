package project

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode"

	"github.com/golem-forge/golem/internal/work/strictyaml"
)

// The names of files with limits, as fold returns them. golem reads none but the right one,
// and stops at the others: their limits must not be missing in silence.
var (
	projectNames = []string{"golemforgeconfig", "golemforgeconfiguration"}
	shortNames   = []string{"golemforge"} // only with an ending: a program may have this name
	policyNames  = []string{"policy", "policies", "golempolicy", "golemforgepolicy"}
	configNames  = []string{"config", "configuration", "golemconfig", "golemforgeconfig"}
	limitNames   = slices.Concat(policyNames, configNames)
	// otherNames belong to other programs as well, which are also called golem.
	otherNames = []string{"golem", "golemconfig"}
)

// fold returns a file name in lower case without separators, invisible characters and endings of
// configuration files, and whether it had such an ending. Names of backups, of examples and
// of an editor's own files have other endings, and keep them.
func fold(name string) (folded string, hasEnding bool) {
	name = strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) || !unicode.IsGraphic(r) {
			return -1
		}
		return unicode.ToLower(r)
	}, name)
	name = strings.TrimLeft(name, ".")
	for {
		ending := filepath.Ext(name)
		if !slices.Contains([]string{".yaml", ".json", ".jsonc", ".json5", ".toml", ".conf", ".cfg", ".ini", ".txt"}, ending) && !isTypo(ending, ".yaml") {
			return strings.NewReplacer("-", "", "_", "", ".", "").Replace(name), hasEnding
		}
		name, hasEnding = strings.TrimSuffix(name, ending), hasEnding || ending != ".txt"
	}
}

// isTypo reports whether two words differ in one letter, or in the order of two.
func isTypo(a, b string) bool {
	for len(a) > 0 && len(b) > 0 && a[0] == b[0] {
		a, b = a[1:], b[1:]
	}
	for len(a) > 0 && len(b) > 0 && a[len(a)-1] == b[len(b)-1] {
		a, b = a[:len(a)-1], b[:len(b)-1]
	}
	return len(a)+len(b) > 0 && (len(a) < 2 && len(b) < 2 || len(a) == 2 && len(b) == 2 && a[0] == b[1] && a[1] == b[0])
}

// isNear reports whether a folded name is one of a list, or a typo of one.
func isNear(folded string, names []string) bool {
	return slices.ContainsFunc(names, func(n string) bool { return n == folded || isTypo(n, folded) })
}

// isOfEditor reports whether a name is that of a backup or a lock of an editor.
func isOfEditor(name string) bool { return strings.ContainsAny(name, "~#") }

// findMisnamed returns the name of a file in a directory that is nearly called like the
// project file, "" if there is none.
func findMisnamed(dir string) string {
	for _, name := range namesIn(dir) {
		if lower := strings.ToLower(name); !strings.Contains(lower, "golem") && !strings.Contains(lower, "forge") {
			continue // a typo is in one of the two words; a directory may have many names
		}
		folded, hasEnding := fold(name)
		isCandidate := isNear(folded, projectNames) || hasEnding && (isNear(folded, shortNames) || isNear(folded, otherNames) && hasSandbox(dir, name))
		if isCandidate && !isOfEditor(name) && isMisnamed(dir, name, File, FileShort) && !isDir(filepath.Join(dir, name)) {
			return name
		}
	}
	return ""
}

// namesIn returns the names in a directory. For one above the program that golem may not
// list, it returns the most likely wrong names.
func namesIn(dir string) []string {
	f, err := os.Open(dir)
	if err != nil {
		return []string{"golem-forge.yaml", "golem-forge.yml", "golem-forge.json", "golem-forge.config.json", "golem-forge-config.yaml", "." + File}
	}
	defer f.Close()
	names, _ := f.Readdirnames(-1)
	return names
}

var sandboxLine = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?m)^[\s{]*["'\[]?sandbox["'\]]?\s*[:=\n]`)
})

// hasSandbox reports whether a file has the key that says what workers see.
func hasSandbox(dir, name string) bool {
	data, err := readProjectFile(dir, name)
	return err == nil && sandboxLine().Match(data)
}

func isDir(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.IsDir()
}

// isMisnamed reports whether a directory has a file of a wrong name. If the host ignores
// case, it may be the file of a right name.
func isMisnamed(dir, name string, right ...string) bool {
	info, err := os.Lstat(filepath.Join(dir, name))
	return err == nil && !slices.ContainsFunc(right, func(r string) bool {
		real, err := os.Lstat(filepath.Join(dir, r))
		return err == nil && os.SameFile(info, real)
	})
}

// checkMisnamed returns an error if the directory of a file has another file, or a
// directory, that is called nearly like one with limits, such as policy.yml or config.yaml
// beside policy.yaml: golem does not read its limits.
func checkMisnamed(file string) error {
	dir, right := filepath.Split(file)
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrPermission) {
		return newProblem(dir, "the directory cannot be read", "a file with limits could be in it; check its permissions")
	}
	for _, e := range entries {
		folded, _ := fold(strings.TrimSuffix(e.Name(), ".d"))
		if !isNear(folded, limitNames) || isOfEditor(e.Name()) || !isMisnamed(dir, e.Name(), right) {
			continue
		}
		hint := "rename it to " + right
		if _, err := os.Lstat(file); err == nil {
			hint = "golem reads " + right + " in the same directory; keep one of the two"
		}
		return newProblem(quoted(filepath.Join(dir, e.Name())), "golem does not read this file", hint)
	}
	return nil
}

// checkMisplaced returns an error if there is such a file beside the directory of the right
// one, as /etc/golem.yaml, or in a directory there with nearly the same name, as /etc/Golem.
// Other programs may have such names, so only the keys tell, except for a policy.
func checkMisplaced(file string) error {
	right := filepath.Dir(file)
	above := filepath.Dir(right)
	misplaced := func(name string) error {
		return newProblem(name, "golem does not read this file", "golem reads "+file+"; move it there")
	}
	entries, _ := os.ReadDir(above) // if golem cannot list /etc, it knows only the right name
	for _, e := range entries {
		name := filepath.Join(above, e.Name())
		folded, hasEnding := fold(e.Name())
		if isNear(folded, []string{"golem", "golemforge"}) && isMisnamed(above, e.Name(), filepath.Base(right)) {
			files, _ := os.ReadDir(name)
			for _, f := range files {
				folded, _ := fold(strings.TrimSuffix(f.Name(), ".d"))
				isLimits := isNear(folded, policyNames) || isNear(folded, configNames) && hasLimits(name, f.Name())
				if isLimits && !isOfEditor(f.Name()) {
					return misplaced(filepath.Join(name, f.Name()))
				}
			}
		}
		if hasEnding && !isOfEditor(e.Name()) && isNear(folded, []string{"golem", "golemforge", "golempolicy", "golemconfig", "golemforgepolicy", "golemforgeconfig"}) && hasLimits(above, e.Name()) {
			return misplaced(name)
		}
	}
	return nil
}

// hasLimits reports whether all keys of a file are those of a policy or a configuration.
func hasLimits(dir, name string) bool {
	data, err := readProjectFile(dir, name)
	if err != nil {
		return false
	}
	tree, _ := strictyaml.Parse(name, data)
	known := ConfigSchema().Keys // it has those of a policy, too
	return len(tree.Fields) > 0 && !slices.ContainsFunc(tree.Fields, func(f strictyaml.Field) bool {
		return !slices.ContainsFunc(known, func(k strictyaml.Key) bool { return k.Name == f.Key.Text })
	})
}
