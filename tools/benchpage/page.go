package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// shown are the heads that the page uses for those that make bench prints.
var shown = map[string]string{"ours": "golem", "target": "goal", "ok?": "met"}

// markdown returns the tables of a part, why goals are missed, and its picture.
func (p *part) markdown(reasons []reason) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n%s", p.Date)
	if p.Commit != "" {
		fmt.Fprintf(&b, ", commit %s", p.Commit)
	}
	fmt.Fprintf(&b, ". %s.", p.Machine)
	if p.With != "" {
		fmt.Fprintf(&b, " With %s.", p.With)
	}
	if p.Note != "" {
		fmt.Fprintf(&b, " %s", p.Note)
	}
	b.WriteString("\n")
	var order []string
	works := map[string][]string{}
	for _, t := range p.Tables {
		t = t.withoutEmptyColumns()
		heads := slices.Clone(t.Columns)
		for i, head := range heads {
			if name := shown[head]; name != "" {
				heads[i] = name
			}
		}
		fmt.Fprintf(&b, "\n| %s |\n|%s\n", strings.Join(heads, " | "), strings.Repeat("---|", len(heads)))
		for _, row := range t.Rows {
			cells := slices.Clone(row)
			if i := slices.Index(t.Columns, "ok?"); i >= 0 {
				cells[i] = strings.ToLower(cells[i])
			}
			fmt.Fprintf(&b, "| %s |\n", strings.Join(cells, " | "))
			if !t.missed(row) {
				continue
			}
			why := whyMissed(p.Name, t, row, reasons)
			if works[why] == nil {
				order = append(order, why)
			}
			name := t.get(row, "work")
			if _, peer := splitPeer(t.get(row, "peer")); peer != "" {
				name += " (" + peer + ")"
			}
			works[why] = append(works[why], name)
		}
	}
	if len(order) > 0 {
		b.WriteString("\nGoals that are missed, and why:\n\n")
		for _, why := range order {
			rows := strings.Join(works[why], "; ")
			if n := len(works[why]); n > 4 {
				rows = fmt.Sprintf("%s; and %d more rows of this kind", works[why][0], n-1)
			}
			fmt.Fprintf(&b, "- *%s*: %s\n", rows, why)
		}
	}
	if groups := p.groups(); len(groups) > 0 {
		fmt.Fprintf(&b, "\n![Bars: golem beside its peers, with the ratios of this table](bench/%s.svg)\n", p.Name)
	}
	return b.String()
}

// withoutEmptyColumns leaves out columns without content.
func (t table) withoutEmptyColumns() table {
	var keep []int
	for i := range t.Columns {
		if slices.ContainsFunc(t.Rows, func(row []string) bool { return row[i] != "" }) {
			keep = append(keep, i)
		}
	}
	pick := func(row []string) (cells []string) {
		for _, i := range keep {
			cells = append(cells, row[i])
		}
		return cells
	}
	lesser := table{Columns: pick(t.Columns)}
	for _, row := range t.Rows {
		lesser.Rows = append(lesser.Rows, pick(row))
	}
	return lesser
}

// cell returns one cell. The column peer is only the figure of the peer.
func (p *part) cell(work, peer, column string) (string, error) {
	for _, t := range p.Tables {
		for _, row := range t.Rows {
			value, name := splitPeer(t.get(row, "peer"))
			if t.get(row, "work") != work || name != peer {
				continue
			}
			if column == "peer" {
				return value, nil
			}
			if text := t.get(row, column); text != "" {
				return text, nil
			}
		}
	}
	return "", fmt.Errorf("part %s has no row %q with the peer %q and the column %s", p.Name, work, peer, column)
}

// splitPeer divides a cell such as "8.63 µs os.ReadFile" into the figure and the name.
func splitPeer(cell string) (figure, name string) {
	words := strings.SplitN(cell, " ", 3)
	if len(words) == 3 && strings.Trim(words[0], "+.,0123456789") == "" {
		return words[0] + " " + strings.TrimSuffix(words[1], ","), words[2]
	}
	return cell, ""
}

// A group is one kind of work in the picture: golem and its peers.
type group struct {
	work string
	bars []bar
	rate bool // a longer bar is faster
}

type bar struct {
	name, label string
	length      float64 // relative to the other bars of the group
	ours        bool
}

// groups returns the rows with a ratio, those of the same work together. The lengths are
// from the ratios, because the times are of other moments.
func (p *part) groups() []group {
	var all []group
	for _, t := range p.Tables {
		for _, row := range t.Rows {
			ratio, err := strconv.ParseFloat(strings.TrimSuffix(t.get(row, "ratio"), "×"), 64)
			if err != nil {
				continue
			}
			ratio = max(ratio, 0.0005) // printed as 0
			figure, peer := splitPeer(t.get(row, "peer"))
			work, ours := t.get(row, "work"), t.get(row, "ours")
			g := group{work: work, rate: strings.HasSuffix(ours, "/s")}
			length := 1 / ratio
			if i := slices.IndexFunc(all, func(g group) bool { return g.work == work }); i >= 0 {
				all[i].bars = append(all[i].bars, bar{name: peer, label: figure + " (" + t.get(row, "ratio") + ")", length: length})
				continue
			}
			g.bars = []bar{{name: "golem", label: ours, length: 1, ours: true}, {name: peer, label: figure + " (" + t.get(row, "ratio") + ")", length: length}}
			all = append(all, g)
		}
	}
	return all
}
