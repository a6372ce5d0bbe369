// Command benchpage keeps the results of make bench and writes the pages that show them.
//
//	benchpage add PART <OUTPUT    replaces the results of a part by the tables that it printed
//	benchpage write               fills the markers of the docs and draws the pictures
//	benchpage check               fails if the docs differ from the results
//
// It works in the directory with docs/. The results are in docs/benchmarks.json. A marker
// is a comment in a page below docs/ or in README.md:
//
//	<!-- bench PART -->…<!-- end -->                      all tables of a part, with a picture
//	<!-- bench PART | WORK | PEER | COLUMN -->…<!-- end -->  one cell of a table
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

const (
	resultsFile = "docs/benchmarks.json"
	mainPage    = "docs/benchmarks.md"
	pictures    = "docs/bench"
)

func main() {
	if err := run(os.Args[1:], os.Stdin); err != nil {
		fmt.Fprintln(os.Stderr, "benchpage:", err)
		os.Exit(1)
	}
}

func run(args []string, in io.Reader) error {
	if len(args) == 0 {
		return errors.New("type benchpage add PART, benchpage write or benchpage check")
	}
	r, err := readResults(resultsFile)
	if err != nil {
		return err
	}
	switch args[0] {
	case "add":
		p := part{}
		flags := flag.NewFlagSet("add", flag.ContinueOnError)
		flags.StringVar(&p.Date, "date", "", "the day of the measurement; today without it")
		flags.StringVar(&p.Commit, "commit", "", "the commit that was measured")
		flags.StringVar(&p.Machine, "machine", "", "the machine; this one without it")
		flags.StringVar(&p.With, "with", "", "the versions of the peers")
		flags.StringVar(&p.Note, "note", "", "what else a reader must know about this run")
		if err := flags.Parse(args[1:]); err != nil {
			return err
		}
		if flags.NArg() != 1 {
			return errors.New("type benchpage add PART, with the output of the part as input")
		}
		p.Name = flags.Arg(0)
		text, err := io.ReadAll(in)
		if err != nil {
			return err
		}
		if p.Tables = parseTables(string(text)); len(p.Tables) == 0 {
			return fmt.Errorf("%s printed no table; the old results stay", p.Name)
		}
		p.complete()
		r.put(p)
		return os.WriteFile(resultsFile, []byte(r.text()), 0o666)
	case "write", "check":
		files, err := r.render()
		if err != nil {
			return err
		}
		if err := compare(files, args[0] == "write"); err != nil {
			return err
		}
		return r.explained()
	}
	return fmt.Errorf("unknown command %s; type benchpage add PART, benchpage write or benchpage check", args[0])
}

// compare compares files with their new content, and writes those that differ if write is
// set. Without it, a difference is an error.
func compare(files map[string]string, write bool) error {
	for name, text := range files {
		old, err := os.ReadFile(name)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		switch {
		case string(old) == text && err == nil:
		case !write:
			return fmt.Errorf("%s differs from %s; run (cd tools && go build -o ../bin/ ./benchpage) && bin/benchpage write", name, resultsFile)
		default:
			if err := os.MkdirAll(filepath.Dir(name), 0o777); err != nil {
				return err
			}
			if err := os.WriteFile(name, []byte(text), 0o666); err != nil {
				return err
			}
		}
	}
	drawn, err := filepath.Glob(pictures + "/*.svg")
	if err != nil {
		return err
	}
	for _, name := range drawn {
		if _, ok := files[filepath.ToSlash(name)]; ok {
			continue
		}
		if !write {
			return fmt.Errorf("%s shows no results; remove it", name)
		}
		if err := os.Remove(name); err != nil {
			return err
		}
	}
	return nil
}

// marker matches a marker with its content.
var marker = regexp.MustCompile(`(?s)<!-- bench ([^>]*?) -->(.*?)<!-- end -->`)

// figure matches a measured figure.
var figure = regexp.MustCompile(`\d ?(?:ns|µs|ms|s|MB|GB|MB/s|GB/s|KB/s|×|%)(?:[^\pL\d]|$)|\d×`)

// render returns the new content of all pages and pictures.
func (r *results) render() (map[string]string, error) {
	names, err := filepath.Glob("docs/*.md")
	if err != nil {
		return nil, err
	}
	files := map[string]string{resultsFile: r.text()}
	for _, name := range append(names, "README.md") {
		data, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		var failed error
		text := marker.ReplaceAllStringFunc(string(data), func(m string) string {
			what := marker.FindStringSubmatch(m)[1]
			content, err := r.content(what)
			if err != nil {
				failed = fmt.Errorf("%s: %w", name, err)
			}
			return "<!-- bench " + what + " -->" + content + "<!-- end -->"
		})
		if failed != nil {
			return nil, failed
		}
		if name = filepath.ToSlash(name); name == mainPage {
			if found := figure.FindString(marker.ReplaceAllString(text, "")); found != "" {
				return nil, fmt.Errorf("%s has a figure outside of the markers, %q; results are only in %s", name, found, resultsFile)
			}
			for _, p := range r.Parts {
				if !strings.Contains(text, "<!-- bench "+p.Name+" -->") {
					return nil, fmt.Errorf("%s has no marker for the part %s; add <!-- bench %s --><!-- end -->", name, p.Name, p.Name)
				}
			}
		}
		if marker.MatchString(text) {
			files[name] = text
		}
	}
	for _, p := range r.Parts {
		if groups := p.groups(); len(groups) > 0 {
			files[pictures+"/"+p.Name+".svg"] = draw(p.Name, groups)
		}
	}
	return files, nil
}

// content returns what a marker shows.
func (r *results) content(what string) (string, error) {
	fields := strings.Split(what, " | ")
	p := r.find(fields[0])
	switch {
	case p == nil && len(fields) == 1:
		return fmt.Sprintf("\nNot measured yet. `scripts/bench %s` measures it.\n", what), nil
	case p == nil:
		return "", fmt.Errorf("the marker %q names no part of %s", what, resultsFile)
	case len(fields) == 1:
		return "\n" + p.markdown(r.Reasons), nil
	case len(fields) == 4:
		return p.cell(fields[1], fields[2], fields[3])
	}
	return "", fmt.Errorf("the marker %q needs PART or PART | WORK | PEER | COLUMN", what)
}
