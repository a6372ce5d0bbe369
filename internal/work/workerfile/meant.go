package workerfile

import (
	"path"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/golem-forge/golem/sandbox"
)

// Meant returns the name of the worker that a file was probably meant to hold, and whether the
// name of the file says that it holds one. It ignores case, white space and invisible
// characters at both ends, dots there, and what editors and people append.
func Meant(name string) (worker string, isWorker bool) {
	plain := plainName(name)
	ending := path.Ext(plain)
	stem := strings.Trim(strings.TrimSuffix(plain, ending), "-.")
	if stem == "worker" && path.Dir(name) != "." {
		stem = plainName(path.Dir(name))
	}
	if first, _, _ := strings.Cut(stem, "-"); first == mainStem {
		stem = mainStem // as main-old or main (1)
	}
	return stem, slices.Contains([]string{Suffix, Suffix + "s"}, ending) || stem == mainStem && isTypo(ending)
}

// IsNearMain reports whether a file was probably meant as the main.worker of its directory, and
// has another name.
func IsNearMain(name string) bool {
	worker, isWorker := Meant(name)
	return isWorker && worker == mainStem && name != mainStem+Suffix
}

// Shown returns a name for an error. It quotes a name with a space at an end, which nobody sees.
func Shown(name string) string {
	if base := path.Base(name); strings.TrimSpace(base) != base {
		return strconv.QuoteToASCII(name)
	}
	return sandbox.Shown(name)
}

const mainStem = "main"

// plainName returns the last part of a name in lower case, without what can follow the name of
// a worker file, and with a hyphen for each character that separates words.
func plainName(name string) string {
	plain := strings.Map(func(r rune) rune {
		switch {
		case r == '.' || r == '-' || unicode.IsLetter(r) || unicode.IsDigit(r):
			return unicode.ToLower(r)
		}
		return '-'
	}, path.Base(name))
	plain = strings.Trim(plain, "-.")
	for stem := plain; path.Ext(stem) != ""; stem = strings.Trim(strings.TrimSuffix(stem, path.Ext(stem)), "-.") {
		ending := path.Ext(stem)
		if strings.HasPrefix(ending, Suffix+"-") { // main.worker-old
			stem, ending = strings.TrimSuffix(stem, ending)+Suffix, Suffix
		}
		if ending == Suffix {
			return stem
		}
		if !slices.Contains(appended, ending) && !strings.HasPrefix(stem, mainStem+Suffix+".") || slices.Contains(programs, ending) {
			break
		}
	}
	return plain
}

// appended are the endings that people and editors append to any file, and programs those of
// source files: main.worker.js is a worker of a browser.
var (
	appended = []string{".md", ".markdown", ".txt", ".json", ".yaml", ".yml", ".bak", ".old", ".orig"}
	programs = []string{".js", ".mjs", ".cjs", ".jsx", ".ts", ".mts", ".cts", ".tsx", ".map", ".go", ".py", ".rb", ".rs", ".java", ".php", ".cs", ".ex", ".exs"}
)

// isTypo reports whether an ending has the letters of the right one in another order, or all
// but one of them.
func isTypo(ending string) bool {
	sorted := func(text string) string {
		letters := []byte(text)
		slices.Sort(letters)
		return string(letters)
	}
	if sorted(ending) == sorted(Suffix) {
		return true
	}
	for i := 1; i < len(Suffix); i++ {
		if ending == Suffix[:i]+Suffix[i+1:] {
			return true
		}
	}
	return false
}
