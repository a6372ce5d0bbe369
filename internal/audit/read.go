package audit

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/golem-forge/golem/internal/policy"
	"github.com/golem-forge/golem/internal/state"
)

// A Filter chooses records. An empty member chooses all.
type Filter struct {
	Since, Until time.Time // from Since on, and before Until
	Worker       string    // somewhere in the chain
	Tool         string
	Path         string // an effect on the file or folder of this name, or below it
	Decision     string
	Session      string
	Kind         string
	Call         string
	Request      string
	Origin       string
}

// Read calls yield for each record that the filter chooses, in their order,
// with the line as it is in the file, until yield returns an error, which it
// passes on. Nothing is checked: a line that is no record has the zero Record
// and is chosen by the empty filter alone. The line is yield's only for the time
// of the call. Where there is no journal nothing is made.
func Read(folder *state.Folder, f Filter, yield func(r Record, line []byte) error) error {
	log, err := folder.Log(logName, 0)
	if err != nil {
		return err
	}
	defer log.Close()
	needles := f.needles()
	all := f == Filter{}
	return log.Read(1, func(_ uint64, line []byte) error {
		for _, n := range needles {
			if !bytes.Contains(line, n) {
				return nil
			}
		}
		var r Record
		if json.Unmarshal(line, &r) != nil {
			r = Record{}
		}
		if !all && !f.chooses(r) {
			return nil
		}
		return yield(r, line)
	})
}

// needles are what each line that is chosen contains, to pass over most lines
// without reading them.
func (f Filter) needles() (needles [][]byte) {
	for _, text := range []string{f.Worker, f.Tool, f.Decision, f.Session, f.Kind, f.Call, f.Request, f.Origin} {
		if text != "" {
			needles = append(needles, quoted(text))
		}
	}
	if f.Path != "" {
		q := quoted(" " + strings.TrimSuffix(f.Path, "/"))
		needles = append(needles, q[1:len(q)-1])
	}
	return needles
}

func quoted(text string) []byte {
	q, _ := encode(text) // a string always has a JSON form
	return q
}

func (f Filter) chooses(r Record) bool {
	is := func(want, got string) bool { return want == "" || want == got }
	return r.Kind != "" &&
		(f.Since.IsZero() || !r.Time.Before(f.Since)) &&
		(f.Until.IsZero() || r.Time.Before(f.Until)) &&
		(f.Worker == "" || slices.Contains(r.Workers, f.Worker)) &&
		is(f.Tool, r.Tool) && is(f.Decision, r.Decision) && is(f.Session, r.Session) && is(f.Kind, string(r.Kind)) &&
		is(f.Call, r.Call) && is(f.Request, r.Request) && is(f.Origin, r.Origin) &&
		(f.Path == "" || slices.ContainsFunc(r.Effects, f.onPath))
}

// onPath reports whether an effect is on the filter's name or below it. What is
// done to something else than a file is not, whatever that is called.
func (f Filter) onPath(effect string) bool {
	verb, target, _ := strings.Cut(effect, " ")
	switch verb {
	case policy.Read.String(), policy.Write.String(), policy.Delete.String(), policy.Attach.String():
		rest, ok := strings.CutPrefix(target, strings.TrimSuffix(f.Path, "/"))
		return ok && (rest == "" || rest[0] == '/')
	}
	return false
}
