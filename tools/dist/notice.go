package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"sort"
	"strings"
)

// A module is a module that a binary contains, or Go itself, with the texts of its licences.
type module struct {
	path, version string
	licences      string // as SPDX writes them: MIT AND Apache-2.0
	texts         []string
}

// readModules reads lines of a module's path, version and directory.
func readModules(r io.Reader) ([]module, error) {
	var list []module
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		if len(words) != 3 {
			return nil, fmt.Errorf("modules: %q is not a path, a version and a directory", lines.Text())
		}
		m, err := readLicences(words[0], words[1], words[2])
		if err != nil {
			return nil, err
		}
		list = append(list, m)
	}
	sort.Slice(list, func(i, j int) bool { return list[i].path < list[j].path })
	return list, lines.Err()
}

var licenceFile = regexp.MustCompile(`(?i)^(licen[sc]e|copying|notice|patents)([-.].*)?$`)

// readLicences reads the texts at the top of a module's directory. It is an error if there is
// none, or none that it knows: nobody may pass on such a module without a look at it.
func readLicences(path, version, dir string) (module, error) {
	m := module{path: path, version: version}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return m, err
	}
	names := make(map[string]bool)
	for _, e := range entries {
		if !licenceFile.MatchString(e.Name()) || e.IsDir() || strings.HasSuffix(e.Name(), ".go") {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return m, err
		}
		m.texts = append(m.texts, strings.TrimSpace(string(text)))
		for _, name := range identify(string(text)) {
			names[name] = true
		}
	}
	var sorted []string
	for name := range names {
		sorted = append(sorted, name)
	}
	sort.Strings(sorted)
	if m.licences = strings.Join(sorted, " AND "); m.licences == "" {
		return m, fmt.Errorf("modules: %s %s has no licence that dist knows; look at %s", path, version, dir)
	}
	return m, nil
}

// identify returns the names that SPDX has for the licences in a text.
func identify(text string) (names []string) {
	text = strings.Join(strings.Fields(text), " ")
	has := func(part string) bool { return strings.Contains(text, part) }
	if has("Apache License") && has("Version 2.0") {
		names = append(names, "Apache-2.0")
	}
	if has("Permission is hereby granted, free of charge") {
		names = append(names, "MIT")
	}
	if has("Permission to use, copy, modify, and/or distribute") || has("Permission to use, copy, modify, and distribute") {
		names = append(names, "ISC")
	}
	if has("Mozilla Public License Version 2.0") {
		names = append(names, "MPL-2.0")
	}
	if has("Redistribution and use in source and binary forms") {
		if has("endorse or promote products") {
			names = append(names, "BSD-3-Clause")
		} else {
			names = append(names, "BSD-2-Clause")
		}
	}
	return names
}

// writeNotice writes the licence texts of all modules. Modules with the same texts share them.
func writeNotice(w io.Writer, modules []module) error {
	var b strings.Builder
	b.WriteString("The binaries golem and golem-hub contain the modules below. Their licences follow.\n\n")
	users := make(map[string][]string)
	var order []string
	for _, m := range modules {
		fmt.Fprintf(&b, "  %s %s: %s\n", m.path, m.version, m.licences)
		for _, text := range m.texts {
			if users[text] == nil {
				order = append(order, text)
			}
			users[text] = append(users[text], m.path)
		}
	}
	for _, text := range order {
		fmt.Fprintf(&b, "\n%s\n%s\n\n%s\n", strings.Repeat("=", 78), strings.Join(users[text], "\n"), text)
	}
	_, err := io.WriteString(w, b.String())
	return err
}
