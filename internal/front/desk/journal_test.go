package desk

import (
	"html"
	"net/http/httptest"
	"net/url"
	"regexp"
	"testing"

	"github.com/golem-forge/golem/internal/records/audit"
)

// TestExportLinks checks that the links to the exports of a journal keep its filters.
func TestExportLinks(t *testing.T) {
	s, _ := start(t)
	want := audit.Filter{Session: "abc", Worker: `a&b"><script>`, Tool: "shell+x", Decision: "yes"}
	w := httptest.NewRecorder()
	s.render(w, 200, "journal", view{Data: journalView{Records: []journalRow{{}}, Query: encodeFilter("shop-1", want)}})
	links := regexp.MustCompile(`href="([^"]*/export/[^"]*)"`).FindAllStringSubmatch(w.Body.String(), -1)
	if len(links) != 2 {
		t.Fatalf("got %d links, want 2:\n%s", len(links), w.Body)
	}
	for _, link := range links {
		address, err := url.Parse(html.UnescapeString(link[1]))
		if err != nil {
			t.Fatal(err)
		}
		if key, got := journalFilter(address.Query()); key != "shop-1" || got != want {
			t.Errorf("%s: got %q and %+v, want shop-1 and %+v", link[1], key, got, want)
		}
	}
}
