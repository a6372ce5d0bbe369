// Dist makes the files of a release from binaries, deterministically: the same input gives the
// same bytes.
//
//	dist WORK OUT VERSION SECONDS
//	dist notice WORK >NOTICE
//
// WORK has a directory GOOS_GOARCH with the binaries of each system, and the directory share with
// everything else that archives contain. The file modules in it has a line for each module
// that a binary contains: its path, its version and its directory. dist notice writes their
// licences. OUT gets the archives, an SBOM for each binary,
// OCI images, a Homebrew formula, and SHA256SUMS of them and of the packages that are there
// already. SECONDS is the time of all files, in Unix time.
package main

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"time"
)

// A release is what is made.
type release struct {
	work, out, version string
	when               time.Time
	modules            []module
}

// A file is a file or, if its name ends in a slash, a directory of an archive.
type file struct {
	name string
	data []byte
	mode int64
}

func main() {
	err := run(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "dist:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	notice := len(args) == 2 && args[0] == "notice"
	if !notice && len(args) != 4 {
		return errors.New("usage: dist WORK OUT VERSION SECONDS, or dist notice WORK")
	}
	work := args[0]
	if notice {
		work = args[1]
	}
	list, err := os.Open(filepath.Join(work, "modules"))
	if err != nil {
		return err
	}
	defer list.Close()
	modules, err := readModules(list)
	if err != nil || notice {
		return errors.Join(err, writeNotice(os.Stdout, modules))
	}
	seconds, err := strconv.ParseInt(args[3], 10, 64)
	if err != nil {
		return err
	}
	return release{work: work, out: args[1], version: args[2], when: time.Unix(seconds, 0).UTC(), modules: modules}.make()
}

func (r release) make() error {
	systems, err := filepath.Glob(filepath.Join(r.work, "*_*"))
	if err != nil {
		return err
	}
	for _, dir := range systems {
		if err := r.makeSystem(dir); err != nil {
			return fmt.Errorf("%s: %w", filepath.Base(dir), err)
		}
	}
	if err := r.makeFormula(); err != nil {
		return err
	}
	return r.makeSums()
}

// makeSystem makes the archive, the SBOMs and, for Linux, the images of one system.
func (r release) makeSystem(dir string) error {
	goos, goarch, _ := strings.Cut(filepath.Base(dir), "_")
	binaries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	var files []file
	for _, b := range binaries {
		data, err := os.ReadFile(filepath.Join(dir, b.Name()))
		if err != nil {
			return err
		}
		files = append(files, file{"bin/" + b.Name(), data, 0o755})
		name := fmt.Sprintf("%s_%s_%s_%s.spdx.json", strings.TrimSuffix(b.Name(), ".exe"), r.version, goos, goarch)
		if err := r.makeSBOM(filepath.Join(dir, b.Name()), name, data); err != nil {
			return err
		}
		if goos == "linux" {
			if err := r.makeImage(b.Name(), goarch, data); err != nil {
				return err
			}
		}
	}
	shared, err := readTree(filepath.Join(r.work, "share"))
	if err != nil {
		return err
	}
	top := fmt.Sprintf("golem_%s_%s_%s", r.version, goos, goarch)
	for i, f := range shared {
		shared[i].name = "share/" + f.name
	}
	for _, f := range shared {
		if name, ok := strings.CutPrefix(f.name, "share/doc/golem/"); ok { // at the top too, for a reader
			files = append(files, file{name, f.data, 0o644})
		}
	}
	files = append(files, shared...)
	for i := range files {
		files[i].name = top + "/" + files[i].name
	}
	if goos == "windows" {
		return r.writeZip(top+".zip", files)
	}
	return r.writeTarGz(top+".tar.gz", files)
}

// readTree returns the files below a directory, sorted.
func readTree(dir string) (files []file, err error) {
	err = filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(dir, name)
		files = append(files, file{filepath.ToSlash(relative), data, 0o644})
		return err
	})
	return files, err
}

// makeFormula writes the Homebrew formula with the hashes of the archives, if all of them are there.
func (r release) makeFormula() error {
	data, err := os.ReadFile("packaging/golem.rb")
	if err != nil {
		return err
	}
	text := strings.ReplaceAll(string(data), "@VERSION@", r.version)
	for _, system := range []string{"darwin_amd64", "darwin_arm64", "linux_amd64", "linux_arm64"} {
		sum, err := r.sum("golem_" + r.version + "_" + system + ".tar.gz")
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		text = strings.ReplaceAll(text, "@SHA256_"+strings.ToUpper(system)+"@", sum)
	}
	return os.WriteFile(filepath.Join(r.out, "golem.rb"), []byte(text), 0o644)
}

func (r release) sum(name string) (string, error) {
	data, err := os.ReadFile(filepath.Join(r.out, name))
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:]), err
}

// makeSums writes the hashes of all files in the form of sha256sum.
func (r release) makeSums() error {
	const name = "SHA256SUMS"
	entries, err := os.ReadDir(r.out)
	if err != nil {
		return err
	}
	var lines []string
	for _, e := range entries {
		if e.Name() == name || strings.HasPrefix(e.Name(), name+".") {
			continue
		}
		sum, err := r.sum(e.Name())
		if err != nil {
			return err
		}
		lines = append(lines, sum+"  "+e.Name()+"\n")
	}
	sort.Slice(lines, func(i, j int) bool { return lines[i][64:] < lines[j][64:] })
	return os.WriteFile(filepath.Join(r.out, name), []byte(strings.Join(lines, "")), 0o644)
}

// parents returns the directories above the files, each once, as entries of an archive.
func parents(files []file) []file {
	known := make(map[string]bool)
	var list []file
	for _, f := range files {
		var dirs []string
		for dir := path.Dir(strings.TrimSuffix(f.name, "/")); dir != "." && dir != "/"; dir = path.Dir(dir) {
			dirs = append(dirs, dir)
		}
		for i := len(dirs) - 1; i >= 0; i-- {
			if !known[dirs[i]] {
				known[dirs[i]] = true
				list = append(list, file{name: dirs[i] + "/", mode: 0o755})
			}
		}
		list = append(list, f)
	}
	return list
}
