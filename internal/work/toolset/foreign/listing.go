package foreign

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/sandbox"
)

// Limits of the tools that a server may list.
const (
	maxTools       = 128
	maxPages       = 32
	maxDescription = 16 << 10 // bytes; golem shows maxShown characters to a model
	maxShown       = 2000
	maxSchema      = 64 << 10
	maxListing     = 1 << 20 // bytes in all
	maxDiffers     = 300     // characters to show of each side of a difference
	maxAlike       = 40      // equal bytes to show before a difference
)

// A Listing is the tools of a server, as the server describes them. golem stores it and
// compares it with later lists of the server.
type Listing []Described

// A Described is everything that a server says about a tool. golem never uses it to
// decide how harmless the tool is.
type Described struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Schema      json.RawMessage `json:"schema"`
	// More has the other fields of the tool: title, annotations, output schema, icons,
	// _meta. It is nil if there are none.
	More json.RawMessage `json:"more,omitempty"`
}

// otherFields returns the fields of a tool that a Described does not name, as JSON.
func otherFields(t *mcp.Tool) (json.RawMessage, error) {
	rest := *t
	rest.Name, rest.Description, rest.InputSchema = "", "", nil
	text, err := json.Marshal(rest)
	if err != nil {
		return nil, err
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(text, &fields); err != nil {
		return nil, err
	}
	delete(fields, "name")
	delete(fields, "inputSchema")
	if len(fields) == 0 {
		return nil, nil
	}
	return json.Marshal(fields)
}

// Hash returns a hash of the whole listing.
func (l Listing) Hash() string {
	h := sha256.New()
	for _, d := range l {
		fmt.Fprintf(h, "%d %s %d %s %d %s %d %s\n", len(d.Name), d.Name, len(d.Description), d.Description, len(d.Schema), d.Schema, len(d.More), d.More)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// Diff describes each difference from old in a line. With whole it shows the full text
// of each, for a user who decides whether to accept it. Otherwise it shortens the text.
func (l Listing) Diff(old Listing, whole bool) []string {
	most := maxDiffers
	if whole {
		most = math.MaxInt
	}
	var lines []string
	for _, was := range old {
		i := slices.IndexFunc(l, func(d Described) bool { return d.Name == was.Name })
		switch {
		case i < 0:
			lines = append(lines, "gone: "+visible.Name(was.Name))
		case l[i].Description != was.Description:
			says, said := cutCommon(l[i].Description, was.Description, most)
			lines = append(lines, visible.Name(was.Name)+" says: "+says+"  it said: "+said)
		}
		if i >= 0 && string(l[i].Schema) != string(was.Schema) {
			takes, took := cutCommon(string(l[i].Schema), string(was.Schema), most)
			lines = append(lines, visible.Name(was.Name)+" takes: "+takes+"  it took: "+took)
		}
		if i >= 0 && string(l[i].More) != string(was.More) {
			declares, declared := cutCommon(orNothing(l[i].More), orNothing(was.More), most)
			lines = append(lines, visible.Name(was.Name)+" declares: "+declares+"  it declared: "+declared)
		}
	}
	for _, d := range l {
		if slices.ContainsFunc(old, func(was Described) bool { return d.Name == was.Name }) {
			continue
		}
		lines = append(lines, "new: "+visible.Name(d.Name)+": "+visible.Line(d.Description, most))
		if whole {
			lines = append(lines, visible.Name(d.Name)+" takes: "+visible.Line(string(d.Schema), most))
		}
		if whole && d.More != nil {
			lines = append(lines, visible.Name(d.Name)+" declares: "+visible.Line(string(d.More), most))
		}
	}
	return lines
}

// orNothing returns JSON as text, "nothing" if there is none.
func orNothing(text json.RawMessage) string { return cmp.Or(string(text), "nothing") }

// cutCommon returns two different texts for display. If one is too long, it cuts most of the
// part that both begin with, so that the difference is visible.
func cutCommon(now, was string, most int) (string, string) {
	from := 0
	if len(now) > most || len(was) > most {
		for from < min(len(now), len(was)) && now[from] == was[from] {
			from++
		}
		from = max(0, from-maxAlike)
		for from > 0 && from < len(now) && !utf8.RuneStart(now[from]) {
			from--
		}
	}
	before := ""
	if from > 0 {
		before = "…"
	}
	return before + visible.Line(now[from:], most), before + visible.Line(was[from:], most)
}

// list asks a server for its tools. It returns all tools, or only the named ones.
func list(ctx context.Context, session *mcp.ClientSession, only []string) (Listing, error) {
	var all Listing
	refuse := func(format string, args ...any) error {
		return &sandbox.Error{Code: sandbox.ErrLimit, Hint: fmt.Sprintf(format, args...)}
	}
	cursor, size := "", 0
	for page := 0; page == 0 || cursor != ""; page++ {
		if page == maxPages {
			return nil, refuse("its tools have more than %d pages", maxPages)
		}
		got, err := session.ListTools(ctx, &mcp.ListToolsParams{Cursor: cursor})
		if err != nil {
			return nil, err
		}
		for _, t := range got.Tools {
			if len(only) > 0 && !slices.Contains(only, t.Name) {
				continue
			}
			schema, err := json.Marshal(t.InputSchema)
			if err != nil {
				return nil, err
			}
			others, err := otherFields(t)
			if err != nil {
				return nil, err
			}
			name := visible.Line(t.Name, 60)
			size += len(t.Name) + len(t.Description) + len(schema) + len(others)
			switch {
			case len(all) == maxTools:
				return nil, refuse("it has more than %d tools; name those that you want with tools: […] in the worker file", maxTools)
			case len(t.Description) > maxDescription:
				return nil, refuse("the description of %s has more than %d bytes", name, maxDescription)
			case len(schema) > maxSchema:
				return nil, refuse("the schema of %s has more than %d bytes", name, maxSchema)
			case len(others) > maxSchema:
				return nil, refuse("the title, annotations, icons and other fields of %s have more than %d bytes", name, maxSchema)
			case size > maxListing:
				return nil, refuse("its list of tools has more than %d bytes", maxListing)
			case slices.ContainsFunc(all, func(d Described) bool { return d.Name == t.Name }):
				return nil, refuse("it has two tools named %s", name)
			}
			all = append(all, Described{t.Name, t.Description, schema, others})
		}
		cursor = got.NextCursor
	}
	for _, name := range only {
		if !slices.ContainsFunc(all, func(d Described) bool { return d.Name == name }) {
			return nil, &sandbox.Error{Code: sandbox.ErrNotFound, Hint: "it has no tool " + sandbox.Shown(name) + ", which tools: in the worker file names"}
		}
	}
	slices.SortFunc(all, func(a, b Described) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}

// isName reports whether a name is valid for a tool.
func isName(name string) bool {
	return 0 < len(name) && len(name) <= 64 && !strings.ContainsFunc(name, func(r rune) bool {
		return r > unicode.MaxASCII || r != '_' && r != '-' && !unicode.IsLetter(r) && !unicode.IsDigit(r)
	})
}

// plainSchema returns a schema for a model. It escapes and shortens descriptions, and removes
// titles, examples and comments. Invisible characters in any other part are an error.
func plainSchema(schema json.RawMessage) (json.RawMessage, error) {
	var value any
	if err := json.Unmarshal(schema, &value); err != nil {
		return nil, err
	}
	if err := makePlain(value, false); err != nil {
		return nil, err
	}
	return json.Marshal(value)
}

// makePlain does the work of plain for a value. With named, the keys of the value are names
// and not keywords of the schema.
func makePlain(value any, named bool) error {
	switch v := value.(type) {
	case string:
		if visible.Text(v) != v {
			return fmt.Errorf("its schema has invisible characters: %s", visible.Line(v, 60))
		}
	case []any:
		for _, item := range v {
			if err := makePlain(item, false); err != nil {
				return err
			}
		}
	case map[string]any:
		for key, item := range v {
			text, isText := item.(string)
			switch {
			case visible.Line(key, 1000) != key:
				return fmt.Errorf("its schema has invisible characters: %s", visible.Line(key, 60))
			case !named && key == "description" && isText:
				v[key] = visible.Cut(visible.Text(text), maxShown)
				continue
			case !named && (key == "title" || key == "examples" || key == "$comment"):
				delete(v, key)
				continue
			}
			names := !named && (key == "properties" || key == "$defs" || key == "definitions" || key == "patternProperties")
			if err := makePlain(item, names); err != nil {
				return err
			}
		}
	}
	return nil
}
