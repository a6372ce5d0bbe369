package desk

import (
	"crypto/rand"
	"slices"
	"sync"
	"time"

	"github.com/golem-forge/golem/sandbox"
)

// maxPages is how many open pages the desk remembers.
const maxPages = 500

// A page is one rendering of a call. A decision names it, and counts for what it showed.
type page struct {
	nonce                 string
	program, id           string
	digest, call, session string
	made                  time.Time
	sent                  map[string]bool // the items that the browser got completely
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
	if p.all = append(p.all, one); len(p.all) > maxPages {
		p.all = slices.Delete(p.all, 0, len(p.all)-maxPages)
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
		return nil, &sandbox.Error{Op: "decide", Path: id, Code: sandbox.ErrConflict, Hint: "this page was used already, or is too old; look at the call again and decide there"}
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
