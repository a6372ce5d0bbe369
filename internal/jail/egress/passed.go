package egress

import (
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/golem-forge/golem/internal/decide/policy"
)

// passed are the different requests of a connection that the host answered, as requestName
// writes them. After maxPassed of them it has only their methods.
type passed struct {
	mu   sync.Mutex
	list []string
}

// maxPassed is how many requests a record names.
const maxPassed = 32

// longestPassed is the length of the longest request that a record names.
const longestPassed = 300

func (p *passed) add(request string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	method, _, _ := strings.Cut(request, " ")
	switch {
	case slices.Contains(p.list, request), slices.Contains(p.list, method+anyPath), slices.Contains(p.list, anyMethod+anyPath):
		return
	case len(p.list) >= 2*maxPassed: // somebody invents methods
		p.list = []string{anyMethod + anyPath}
		return
	case len(p.list) >= maxPassed || len(request) > longestPassed:
		p.list = slices.DeleteFunc(p.list, func(one string) bool { return strings.HasPrefix(one, method+" ") })
		request = method + anyPath
	}
	p.list = append(p.list, request)
}

func (p *passed) all() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.list)
}

// A request whose path or method no rule can limit stands for all of them.
const (
	anyMethod = "*"
	anyPath   = " *"
)

// requestName returns the method and the path of a request, without the query: GET /a. Either is a
// star if a rule that limits it would refuse the request.
func requestName(r *http.Request) string {
	method, path := r.Method, " "+r.URL.Path
	limited := policy.HostRule{Host: "localhost", Paths: []string{r.URL.Path}}
	if whyAmbiguous(r.URL) != "" || limited.Validate() != nil {
		path = anyPath
	}
	limited = policy.HostRule{Host: "localhost", Methods: []string{method}}
	if hasMethodParameter(r.URL) || r.Header.Get("Upgrade") != "" || limited.Validate() != nil {
		method = anyMethod
	}
	return method + path
}
