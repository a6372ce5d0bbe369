// Package continuing chooses the session that a command continues in.
package continuing

import (
	"cmp"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/golem-forge/golem/internal/work/session"
)

// Newest returns the last used session that has changes or commits and shows the directories
// of the program, nil if there is none. It prefers sessions whose changes are not all in commits
// that the user has taken. If there is none, other is the newest session that holds files and
// shows other directories.
func Newest(s session.Sessions) (one, other *session.Session, err error) {
	list, err := s.List()
	for _, each := range list {
		switch {
		case !slices.EqualFunc(each.Mounts, s.Given, isSameMount):
			if other == nil && hasFiles(s, each) {
				other = each
			}
		case !s.HasWork(each):
		case s.HasOnlyTaken(each):
			one = cmp.Or(one, each)
		default:
			return each, nil, err
		}
	}
	return one, other, err
}

// maxRecent is how many sessions Recent looks at.
const maxRecent = 5

// Recent is Newest for a hint: it looks only at the sessions that were used last, so it is quick
// however many there are.
func Recent(s session.Sessions) *session.Session {
	looked := 0
	for one := range s.Recent() {
		if slices.EqualFunc(one.Mounts, s.Given, isSameMount) && s.HasWork(one) && !s.HasOnlyTaken(one) {
			return one
		}
		if looked++; looked == maxRecent {
			break
		}
	}
	return nil
}

// hasFiles reports whether a session holds files, whatever directories it shows.
func hasFiles(s session.Sessions, one *session.Session) bool {
	k, err := s.Open(one)
	if err != nil {
		return false
	}
	defer k.Close()
	files, _ := k.Usage()
	return files > 0
}

// isSameMount reports whether two mounts show the same directory at the same place.
func isSameMount(a, b session.Mount) bool {
	return a.Target == b.Target && a.Mode == b.Mode && realPath(a.Source) == realPath(b.Source)
}

// realPath returns a path without symlinks, or the path itself if that fails.
func realPath(name string) string {
	if real, err := filepath.EvalSymlinks(name); err == nil {
		return real
	}
	return name
}

// Damaged returns the directories of sessions that golem cannot read because their files are
// damaged.
func Damaged(s session.Sessions) (dirs []string) {
	files, _ := filepath.Glob(filepath.Join(s.State, "sessions", "*", "session.json"))
	for _, file := range files {
		dir := filepath.Dir(file)
		var one session.Session
		data, err := os.ReadFile(file)
		if !strings.HasPrefix(filepath.Base(dir), ".") && err == nil && (json.Unmarshal(data, &one) != nil || one.ID != filepath.Base(dir)) {
			dirs = append(dirs, dir)
		}
	}
	return dirs
}
