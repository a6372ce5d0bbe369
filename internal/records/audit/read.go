package audit

import (
	"bytes"
	"cmp"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/records/state"
)

// A Filter chooses records. An empty field chooses all.
type Filter struct {
	Since, Until time.Time // from Since on and before Until
	Worker       string    // somewhere in the chain
	Tool         string
	Path         string // an effect on this file or directory, or below it, or a change of it by a command
	Decision     string
	Session      string
	Kind         string
	Call         string
	Request      string
	Origin       string
}

// Read calls yield for each record that the filter chooses, in order, with the line as it
// is in the file, until yield returns an error, which Read returns. Read checks nothing:
// a record may contain anything. A line that is not a record has the zero Record, and
// only the empty filter chooses it. The line is valid only during the call. Read reports
// damage of the files after it has read all that is there. If there is no journal, Read
// creates nothing. It is an error if there was a journal and it is gone.
func Read(folder *state.Dir, f Filter, yield func(r Record, line []byte) error) error {
	if err := gone(folder); err != nil {
		return err
	}
	log, err := folder.Log(logName, 0)
	if err != nil {
		return err
	}
	defer log.Close()
	choose := f.chooser()
	return log.Read(1, func(_ uint64, line []byte) error {
		if r, ok := choose(line); ok {
			return yield(r, line)
		}
		return nil
	})
}

// Last is Read for the last n records that the filter chooses. It reads from the end, and
// only as far as necessary.
func Last(folder *state.Dir, f Filter, n int, yield func(r Record, line []byte) error) error {
	if err := gone(folder); err != nil {
		return err
	}
	log, err := folder.Log(logName, 0)
	if err != nil {
		return err
	}
	defer log.Close()
	tail, err := log.Tail()
	if err != nil {
		return err
	}
	type chosen struct {
		r    Record
		line []byte
	}
	var all []chosen // in reverse order
	choose := f.chooser()
	var wrong error
	from, to := uint64(1), tail.Count
	part := uint64(max(n, 1000)) // some earlier records may match
	if f == (Filter{}) {
		part = uint64(max(n, 1))
	}
	for ; to > 0 && len(all) < n; part, to = max(part, 8*part), from-1 {
		from = to - min(part, to) + 1
		var last []chosen
		err := log.Read(from, func(number uint64, line []byte) error {
			if number > to {
				return errStop
			}
			if r, ok := choose(line); ok {
				last = append(last, chosen{r, bytes.Clone(line)})
			}
			if len(last) > 2*n {
				last = slices.Delete(last, 0, len(last)-n)
			}
			return nil
		})
		if err != errStop {
			wrong = cmp.Or(wrong, err)
		}
		slices.Reverse(last)
		all = append(all, last...)
	}
	for _, c := range slices.Backward(all[:max(0, min(len(all), n))]) {
		if err := yield(c.r, c.line); err != nil {
			return err
		}
	}
	return wrong
}

// chooser returns a function that parses a line and reports whether the filter chooses
// it.
func (f Filter) chooser() func(line []byte) (Record, bool) {
	needles := f.needles()
	all, timed := f == Filter{}, !f.Since.IsZero() || !f.Until.IsZero()
	return func(line []byte) (Record, bool) {
		for _, n := range needles {
			if !bytes.Contains(line, n) {
				return Record{}, false
			}
		}
		if timed {
			if t, ok := timeOf(line); ok && !f.during(t) {
				return Record{}, false
			}
		}
		var r Record
		if json.Unmarshal(line, &r) != nil {
			r = Record{}
		}
		return r, all || f.chooses(r)
	}
}

// needles returns bytes that every chosen line contains, to skip most lines without
// parsing them.
func (f Filter) needles() (needles [][]byte) {
	for _, text := range []string{f.Worker, f.Tool, f.Decision, f.Session, f.Kind, f.Call, f.Request, f.Origin} {
		if text != "" {
			needles = append(needles, quoted(text))
		}
	}
	if f.Path != "" {
		q := quoted(strings.TrimSuffix(f.Path, "/"))
		needles = append(needles, q[1:min(len(q)-1, maxText/2)]) // the middle of a long path is cut
	}
	return needles
}

func quoted(text string) []byte {
	q, _ := encode(text) // a string can always be encoded
	return q
}

// during reports whether the filter chooses a time.
func (f Filter) during(t time.Time) bool {
	return (f.Since.IsZero() || !t.Before(f.Since)) && (f.Until.IsZero() || t.Before(f.Until))
}

func (f Filter) chooses(r Record) bool {
	is := func(want, got string) bool { return want == "" || want == got }
	return r.Kind != "" &&
		f.during(r.Time) &&
		(f.Worker == "" || slices.Contains(r.Workers, f.Worker)) &&
		is(f.Tool, r.Tool) && is(f.Decision, r.Decision) && is(f.Session, r.Session) && is(f.Kind, string(r.Kind)) &&
		is(f.Call, r.Call) && is(f.Request, r.Request) && is(f.Origin, r.Origin) &&
		(f.Path == "" || slices.ContainsFunc(r.Effects, f.onPath) || f.changes(r))
}

// changes reports whether a record names a changed file at the filter's path or below it.
func (f Filter) changes(r Record) bool {
	_, ok := r.Files.Find(f.Path)
	return ok
}

// onPath reports whether an effect is on the filter's path or below it. Effects on other
// things than files never match.
func (f Filter) onPath(effect string) bool {
	verb, target, _ := strings.Cut(effect, " ")
	switch verb {
	case policy.Read.String(), policy.Write.String(), policy.Delete.String(), policy.Attach.String():
		rest, ok := strings.CutPrefix(target, strings.TrimSuffix(f.Path, "/"))
		return ok && (rest == "" || rest[0] == '/')
	}
	return false
}

// IsJournal reports whether a state directory has a journal.
func IsJournal(dir string) bool {
	_, err := os.Lstat(filepath.Join(dir, keyName))
	return err == nil
}
