package project

import (
	"slices"
	"strings"

	"github.com/golem-forge/golem/internal/work/strictyaml"
	"github.com/golem-forge/golem/sandbox"
)

// Document stands for the path of the document in the command of a converter.
const Document = "{}"

// A Converter is a program of the system that makes text or images of documents.
type Converter struct {
	Name     string
	Suffixes []string // of the documents that it converts, in lower case, with the dot
	Command  []string // one of its words contains Document
	From     strictyaml.Place
}

// ConverterFor returns the converter of documents with a name, nil if there is none. Of several,
// it returns the one with the longest suffix.
func (p *Project) ConverterFor(name string) *Converter {
	var found *Converter
	most := 0
	for i, c := range p.Converters {
		for _, suffix := range c.Suffixes {
			if len(suffix) > most && strings.HasSuffix(strings.ToLower(name), suffix) {
				found, most = &p.Converters[i], len(suffix)
			}
		}
	}
	return found
}

func intakeKey() strictyaml.Key {
	return strictyaml.Key{Name: "intake", Type: strictyaml.Named, Example: `{pdf: {suffixes: [.pdf], command: [pdftotext, -layout, "{}", "-"]}}`,
		Doc: "Converters of documents for `golem intake`, by name. They run in the jail, at the level `container`, without a network and without your files.", Keys: []strictyaml.Key{
			{Name: "suffixes", Type: strictyaml.Texts, Example: "[.pdf]", Doc: "The suffixes of the documents that it converts, in upper or lower case. Required."},
			{Name: "command", Type: strictyaml.Texts, Example: `[pandoc, --to=markdown, "{}"]`,
				Doc: "A program of the system. `{}` is the path of the document. Its standard output is the text, and the files that it makes in its directory are results, too. Required."},
		}}
}

// readConverters reads the converters of golem intake.
func (l clearanceReader) readConverters() {
	list, _ := l.tree.At("intake")
	for _, f := range list.Fields {
		if !l.wrong[list.Place] && l.isValid(f.Key) && l.isValid(f.Value) {
			l.readConverter(f)
		}
	}
	slices.SortFunc(l.project.Converters, func(a, b Converter) int { return strings.Compare(a.Name, b.Name) })
}

func (l clearanceReader) readConverter(f strictyaml.Field) {
	label := "intake." + sandbox.Shown(f.Key.Text)
	if why := checkName(f.Key.Text); why != "" {
		l.problems.Add(f.Key, label+": "+why, "choose another name, such as pdf")
	}
	c := Converter{Name: f.Key.Text, From: f.Key.Place, Command: l.readProgram(f, label, "write command: with the program and its arguments, and {} for the document")}
	if len(c.Command) > 0 && !slices.ContainsFunc(c.Command[1:], func(word string) bool { return strings.Contains(word, Document) }) {
		l.problems.Add(f.Key, label+".command: no argument has the document", `write "{}" where the program takes the path of the document`)
	}
	suffixes, _ := f.Value.At("suffixes")
	if len(suffixes.Items) == 0 {
		l.problems.Add(f.Key, label+" has no suffixes", "write suffixes: with those of the documents, such as [.pdf]")
	}
	for _, item := range suffixes.Items {
		suffix := strings.ToLower(item.Text)
		if !strings.HasPrefix(suffix, ".") || len(suffix) < 2 || strings.ContainsAny(suffix, "/\\") {
			l.problems.Add(item, label+".suffixes: "+sandbox.Shown(item.Text)+" is no suffix", "write one with its dot, such as .pdf")
		}
		c.Suffixes = append(c.Suffixes, suffix)
	}
	l.project.Converters = append(l.project.Converters, c)
}

// readProgram returns the command of a scanner or a converter. It must be a program of the
// system, because workers could change a program in a directory that they may write.
func (l clearanceReader) readProgram(f strictyaml.Field, label, missing string) (words []string) {
	command, _ := f.Value.At("command")
	for _, item := range command.Items {
		words = append(words, item.Text)
	}
	switch {
	case len(words) == 0:
		l.problems.Add(f.Key, label+" has no command", missing)
	case strings.Contains(words[0], "/") && !strings.HasPrefix(words[0], "/usr/"), strings.HasPrefix(words[0], "-"):
		l.problems.Add(command.Items[0], label+".command: "+sandbox.Shown(words[0])+" is no program of the system", "name one without a path, or by its path below /usr")
	}
	return words
}
