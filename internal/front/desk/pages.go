package desk

import (
	"crypto/rand"
	"slices"
	"sync"
	"time"

	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/sandbox"
)

// maxPages is how many open pages the desk remembers.
const maxPages = 500

// maxPageFiles is how many changed files all open pages of sessions name together.
const maxPageFiles = 100_000

// A page is one rendering of a call, a session or a staged commit. A decision names it, and counts for what
// it showed.
type page struct {
	nonce                 string
	program, id           string // which page it is
	version               string // of a call: changes with everything that a decision covers
	digest, call, session string
	made                  time.Time
	sent                  map[string]bool // the items that the browser got completely
	before                []string        // the items of a call that another page showed

	files   []string       // the names of the files that a session has changed
	digests map[int]string // of the files that the browser got, by their index in files

	changes []tool.Change // of a staged commit
	held    []string      // its files that scanners hold back
}

// pages remembers the pages that browsers have open. Each can decide once.
type pages struct {
	now func() time.Time

	mu  sync.Mutex
	all []*page // the oldest first
}

// add remembers a page, and gives it a nonce.
func (p *pages) add(one *page) {
	p.mu.Lock()
	defer p.mu.Unlock()
	one.nonce, one.made = rand.Text(), p.now()
	p.all = append(p.all, one)
	files := 0
	for _, other := range p.all {
		files += len(other.files)
	}
	for len(p.all) > 1 && (len(p.all) > maxPages || files > maxPageFiles) {
		files -= len(p.all[0].files)
		p.all = slices.Delete(p.all, 0, 1)
	}
}

func (p *pages) find(nonce, program, id string) int {
	return slices.IndexFunc(p.all, func(one *page) bool { return equal(one.nonce, nonce) && one.program == program && one.id == id })
}

// use returns a page for its decision and forgets it.
func (p *pages) use(nonce, program, id string) (*page, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := p.find(nonce, program, id)
	if i < 0 {
		return nil, &sandbox.Error{Op: "decide", Path: id, Code: sandbox.ErrConflict, Hint: "this page was used already, or is too old; open it again and decide there"}
	}
	one := p.all[i]
	p.all = slices.Delete(p.all, i, i+1)
	return one, nil
}

// addSent records that a browser got items of a page. It reports whether the page is open
// and shows the content with a digest.
func (p *pages) addSent(nonce, program, id, digest string, items ...string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := p.find(nonce, program, id)
	if i < 0 || p.all[i].digest != digest {
		return false
	}
	for _, item := range items {
		p.all[i].sent[item] = true
	}
	return true
}

// isVersion reports whether a page shows a version of a call. A page that is not open any more
// shows every version.
func (p *pages) isVersion(nonce, program, id, version string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := p.find(nonce, program, id)
	return i < 0 || p.all[i].version == version
}

// file returns the name of a file on the page of a session.
func (p *pages) file(nonce, program, id string, index int) (name string, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := p.find(nonce, program, id)
	if i < 0 || index < 0 || index >= len(p.all[i].files) {
		return "", false
	}
	return p.all[i].files[index], true
}

// addFile records that a browser got a file of a session with its items.
func (p *pages) addFile(nonce, program, id string, index int, digest string, items []string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := p.find(nonce, program, id)
	if i < 0 {
		return false
	}
	p.all[i].addFile(index, digest, items)
	return true
}

func (p *page) addFile(index int, digest string, items []string) {
	if old, ok := p.digests[index]; ok && old != digest { // the browser has both versions now
		digest = ""
	}
	p.digests[index] = digest
	for _, item := range items {
		p.sent[item] = true
	}
}

// digestOf returns the digest of a page that is open.
func (p *pages) digestOf(nonce, program, id string) (digest string, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := p.find(nonce, program, id)
	if i < 0 {
		return "", false
	}
	return p.all[i].digest, true
}

// change returns a change on the page of a commit.
func (p *pages) change(nonce, program, id string, index int) (c tool.Change, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := p.find(nonce, program, id)
	if i < 0 || index < 0 || index >= len(p.all[i].changes) {
		return c, false
	}
	return p.all[i].changes[index], true
}
