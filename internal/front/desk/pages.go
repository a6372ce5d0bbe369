package desk

import (
	"cmp"
	"crypto/rand"
	"net/http"
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
	device                string          // the id of the device that it was sent to, "" for the user's own browser
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

// useForm reads the form of a request, and returns the page that it is from. That page can
// decide only once.
func (p *pages) useForm(r *http.Request, op, program, id string) (*page, error) {
	if err := r.ParseForm(); err != nil {
		return nil, &sandbox.Error{Op: op, Path: cmp.Or(r.PathValue("id"), r.PathValue("job")), Code: sandbox.ErrInvalid, Hint: "golem could not read the form: " + err.Error()}
	}
	return p.use(r.PostForm.Get("nonce"), program, id)
}

// look returns a page that is open, for its fields that never change: all except sent and
// digests.
func (p *pages) look(nonce, program, id string) (one page, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := p.find(nonce, program, id)
	if i < 0 {
		return page{}, false
	}
	return *p.all[i], true
}

// addSent records that a browser got an item of a page. It reports whether the page is open
// and shows the content with a digest.
func (p *pages) addSent(nonce, program, id, digest, item string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := p.find(nonce, program, id)
	if i < 0 || p.all[i].digest != digest {
		return false
	}
	p.all[i].sent[item] = true
	return true
}

// addFile records that a browser got a file of a session with its items.
func (p *pages) addFile(nonce, program, id string, index int, digest string, items []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if i := p.find(nonce, program, id); i >= 0 {
		p.all[i].addFile(index, digest, items)
	}
}

// shownFile returns the name of a file of a session on a page that is open, and the digest of the
// content that the browser got; "" if it got none, or several.
func (p *pages) shownFile(nonce, program, id string, index int) (name, digest string, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := p.find(nonce, program, id)
	if i < 0 || index < 0 || index >= len(p.all[i].files) {
		return "", "", false
	}
	return p.all[i].files[index], p.all[i].digests[index], true
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
