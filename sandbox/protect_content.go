package sandbox

import "io"

// A ContentRule protects files that a program would read as policy, by their names and their
// content. The zero ContentRule protects none.
type ContentRule struct {
	// Name says in messages which rule it is: "the rule for workers".
	Name string
	// Names are patterns from "/" of the files to look at.
	Names []string
	// Links are patterns from "/" of the directories that hold such files. A symlink there
	// is protected, because it would put other files in their place.
	Links []string
	// Matches reports whether a file with this content is protected. It gets at most
	// the first 1,048,577 bytes.
	Matches func(content []byte) bool
}

// maxJudged is how many bytes of a file a ContentRule looks at.
const maxJudged = 1<<20 + 1

// A contentGuard is a ContentRule with compiled patterns.
type contentGuard struct {
	rule         ContentRule
	names, links guard
}

func newContentGuard(r ContentRule) (g contentGuard, why string) {
	g.rule = r
	if g.names, why = newGuard(r.Names); why == "" {
		g.links, why = newGuard(r.Links)
	}
	return g, why
}

// ProtectedContent returns the name of the rule that protects a file with this canonical name
// and the content that open returns, "" if there is none. If open is nil, it is about a symlink
// with this name. It does not look at patterns of names, as Protection does. A file that cannot
// be read is protected.
func (s *Sandbox) ProtectedContent(name string, open func() (io.ReadCloser, error)) string {
	if open == nil && s.content.links.match(name) != "" || open != nil && s.content.check(name, open) != nil {
		return s.content.rule.Name
	}
	return ""
}

// check returns an error if the content for a name is protected. It opens the content only if
// the rule is about the name.
func (g contentGuard) check(name string, open func() (io.ReadCloser, error)) error {
	if g.names.match(name) == "" {
		return nil
	}
	r, err := open()
	if err != nil {
		return err
	}
	defer r.Close()
	content, err := io.ReadAll(io.LimitReader(r, maxJudged))
	if err == nil && g.rule.Matches(content) {
		err = &Error{Code: ErrProtected, Hint: "only clearance can write such content here: " + g.rule.Name + " protects it"}
	}
	return err
}

// checkMoved returns an error if the file at p has content that is protected at the location
// there.
func (g contentGuard) checkMoved(p, there location, e Entry) error {
	if !e.Type.IsRegular() {
		return nil
	}
	return g.check(there.name, func() (io.ReadCloser, error) {
		f, err := p.rule.mount.Backend.Open(p.rel)
		if err != nil {
			return nil, err
		}
		return readCloser{io.NewSectionReader(f, 0, maxJudged), f}, nil
	})
}

// A readCloser reads one thing and closes another.
type readCloser struct {
	io.Reader
	io.Closer
}
