package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

// results is the content of docs/benchmarks.json.
type results struct {
	Parts   []part   `json:"parts"`
	Reasons []reason `json:"reasons"` // why goals are missed; people write these
}

// A part holds what one part of scripts/bench printed, and where it ran.
type part struct {
	Name    string  `json:"name"`
	Date    string  `json:"date"`
	Commit  string  `json:"commit,omitempty"`
	Machine string  `json:"machine"`
	With    string  `json:"with,omitempty"`
	Note    string  `json:"note,omitempty"`
	Tables  []table `json:"tables"`
}

type table struct {
	Columns []string   `json:"columns"`
	Rows    [][]string `json:"rows"`
}

// A reason explains missed goals of a part: those whose work starts with Work and whose
// peer contains Peer.
type reason struct {
	Part string `json:"part"`
	Work string `json:"work"`
	Peer string `json:"peer,omitempty"`
	Why  string `json:"why"`
}

func readResults(name string) (*results, error) {
	data, err := os.ReadFile(name)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("%s is missing; run benchpage in the directory of the repository", name)
	}
	if err != nil {
		return nil, err
	}
	var r results
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&r); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	for _, p := range r.Parts {
		for _, t := range p.Tables {
			for _, row := range t.Rows {
				if len(row) != len(t.Columns) {
					return nil, fmt.Errorf("%s: part %s: the row %q needs %d cells", name, p.Name, row, len(t.Columns))
				}
			}
		}
	}
	return &r, nil
}

// text returns the content of the file, easy to compare: one row per line.
func (r *results) text() string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(r); err != nil {
		panic(err) // strings always encode
	}
	// A list of strings fits into one line.
	list := regexp.MustCompile(`\[\n\s+("(?:[^"\\]|\\.)*"(?:,\n\s+"(?:[^"\\]|\\.)*")*)\n\s+\]`)
	between := regexp.MustCompile(`,\n\s+`)
	return list.ReplaceAllStringFunc(b.String(), func(m string) string {
		return "[" + between.ReplaceAllString(list.FindStringSubmatch(m)[1], ", ") + "]"
	})
}

func (r *results) find(name string) *part {
	for i := range r.Parts {
		if r.Parts[i].Name == name {
			return &r.Parts[i]
		}
	}
	return nil
}

func (r *results) put(p part) {
	if old := r.find(p.Name); old != nil {
		*old = p
	} else {
		r.Parts = append(r.Parts, p)
	}
}

// explained returns an error if a goal is missed without a reason.
func (r *results) explained() error {
	var missing []string
	for _, p := range r.Parts {
		for _, t := range p.Tables {
			for _, row := range t.Rows {
				if t.missed(row) && whyMissed(p.Name, t, row, r.Reasons) == "" {
					missing = append(missing, fmt.Sprintf("%s: %s, %s", p.Name, t.get(row, "work"), t.get(row, "peer")))
				}
			}
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("these rows miss their goal without a reason; add one to reasons in %s:\n  %s", resultsFile, strings.Join(missing, "\n  "))
	}
	return nil
}

func whyMissed(part string, t table, row []string, reasons []reason) string {
	for _, w := range reasons {
		if w.Part == part && strings.HasPrefix(t.get(row, "work"), w.Work) && strings.Contains(t.get(row, "peer"), w.Peer) {
			return w.Why
		}
	}
	return ""
}

// get returns a cell, or nothing if there is no such column.
func (t table) get(row []string, column string) string {
	if i := slices.Index(t.Columns, column); i >= 0 {
		return row[i]
	}
	return ""
}

func (t table) missed(row []string) bool { return t.get(row, "ok?") == "NO" }

// parseTables returns the tables of a text, as package benchtable and Markdown write them.
func parseTables(text string) []table {
	var all []table
	inside := false
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "|") || !strings.HasSuffix(line, "|") {
			inside = false
			continue
		}
		var cells []string
		for cell := range strings.SplitSeq(strings.Trim(line, "|"), "|") {
			cells = append(cells, strings.TrimSpace(cell))
		}
		switch {
		case !inside:
			all, inside = append(all, table{Columns: cells}), true
		case strings.Trim(strings.Join(cells, ""), "-:") != "":
			t := &all[len(all)-1]
			for len(cells) < len(t.Columns) {
				cells = append(cells, "")
			}
			t.Rows = append(t.Rows, cells[:len(t.Columns)])
		}
	}
	return slices.DeleteFunc(all, func(t table) bool { return len(t.Rows) == 0 })
}

// complete fills in what the caller did not say: this machine, today, this commit.
func (p *part) complete() {
	if p.Date == "" {
		p.Date = time.Now().UTC().Format(time.DateOnly)
	}
	if p.Machine != "" {
		return
	}
	p.Machine = thisMachine()
	if p.Commit == "" {
		p.Commit = output("git", "rev-parse", "--short=12", "HEAD")
		if p.Commit != "" && output("git", "status", "--porcelain", "--untracked-files=no", "--", "*.go") != "" {
			p.Commit += ", changed"
		}
	}
}

// thisMachine describes the machine in one line.
func thisMachine() string {
	words := []string{fmt.Sprintf("%d cores", runtime.NumCPU())}
	read := func(file, key string) string {
		data, _ := os.ReadFile(file)
		for line := range strings.Lines(string(data)) {
			if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == key {
				return strings.TrimSpace(value)
			}
		}
		return ""
	}
	if cpu := read("/proc/cpuinfo", "model name"); cpu != "" {
		words[0] += " of " + strings.NewReplacer("(R)", "", "(TM)", "").Replace(cpu)
	}
	if kib, err := strconv.Atoi(strings.TrimSuffix(read("/proc/meminfo", "MemTotal"), " kB")); err == nil {
		words = append(words, fmt.Sprintf("%d GB of memory", (kib+1<<19)>>20))
	}
	words = append(words, output("uname", "-sr"))
	if fs := strings.Fields(output("df", "--output=fstype", os.TempDir())); len(fs) == 2 {
		words = append(words, fs[1])
	}
	words = append(words, "Go "+strings.TrimPrefix(runtime.Version(), "go"))
	if data, err := os.ReadFile("/proc/loadavg"); err == nil {
		words = append(words, "load "+strings.Fields(string(data))[0]+" at the end")
	}
	return strings.Join(words, ", ")
}

// output returns what a program prints, or nothing if it fails.
func output(name string, args ...string) string {
	out, err := exec.Command(name, args...).Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(out))
}
