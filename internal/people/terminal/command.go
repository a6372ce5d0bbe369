package terminal

import (
	"bytes"
	"slices"
	"strings"
)

type certainty uint8

const (
	no certainty = iota
	unknown
	yes
)

// reaches reports whether an OSC sequence reaches the clipboard, the desktop or the
// program that shows the terminal. Value is the start of the sequence; end is true if it
// may be complete.
func reaches(value []byte, end bool) certainty {
	value = bytes.TrimLeft(value, " +")
	digits := 0
	for digits < len(value) && value[digits] >= '0' && value[digits] <= '9' {
		digits++
	}
	what, rest := numeral(value[:digits]), value[digits:]
	switch {
	case len(what) > mostDigits:
		return yes
	case len(rest) == 0 && !end:
		return unknown
	case slices.Contains(reaching, what):
		return yes
	case digits == 0 && len(rest) > 0 && rest[0] != 'P' && rest[0] != 'R': // the Linux console has these for its colours
		return yes
	case what == "8":
		return opensFile(rest, end)
	case what == "9":
		return runs(rest, end)
	case what == "11":
		return namesFile(rest, end)
	case what != "1337":
		return no
	}
	return reachesItem(rest, end)
}

// reaching are the OSC sequences that affect more than the screen.
var reaching = []string{"3", "7", "20", "46", "50", "51", "52", "55", "72", "440", "633", "5113", "5522", "7773"}

// opensFile is reaches for the text after OSC 8, which makes the text that follows a link.
// Other links than those of the web open files, or start programs.
func opensFile(rest []byte, end bool) certainty {
	body, isLink := bytes.CutPrefix(rest, []byte(";"))
	_, address, hasAddress := bytes.Cut(body, []byte(";"))
	scheme, _, hasScheme := bytes.Cut(address, []byte(":"))
	switch {
	case !isLink:
		return no
	case !hasAddress && !end, !hasScheme && !end && len(scheme) <= len("mailto"):
		return unknown
	case hasAddress && len(address) == 0, hasScheme && slices.Contains([]string{"http", "https", "mailto"}, strings.ToLower(string(scheme))):
		return no
	}
	return yes
}

// runs is reaches for the text after OSC 9. ConEmu uses it to run macros and programs, to
// print variables and to set the directory of the next shell. Other terminals use it, with any other text, to notify the user.
func runs(rest []byte, end bool) certainty {
	body, ok := bytes.CutPrefix(rest, []byte(";"))
	if !ok {
		return no
	}
	digits := 0
	for digits < len(body) && body[digits] >= '0' && body[digits] <= '9' {
		digits++
	}
	switch what := numeral(body[:digits]); {
	case digits == len(body) && !end:
		return unknown
	case digits < len(body) && body[digits] != ';':
		return no
	case what == "6", what == "7", what == "8", what == "9":
		return yes
	}
	return no
}

// namesFile is reaches for the text after OSC 11. If a certain sign precedes a name,
// mintty loads that file as a background.
func namesFile(rest []byte, end bool) certainty {
	body, ok := bytes.CutPrefix(rest, []byte(";"))
	switch {
	case !ok:
		return no
	case len(body) == 0 && !end:
		return unknown
	case len(body) > 0 && bytes.IndexByte([]byte("*_%+"), body[0]) >= 0:
		return yes
	}
	return no
}

// harmless are the keys of OSC 1337 that affect only the screen.
var harmless = []string{"setmark", "cursorshape", "clear", "clearscrollback", "highlightcursorline", "setuservar", "reportcellsize",
	"shellintegrationversion", "unicodeversion", "requestattention", "addannotation", "addhiddenannotation", "setbadgeformat", "capabilities", "filepart", "fileend"}

// reachesItem is reaches for the text after OSC 1337.
func reachesItem(rest []byte, end bool) certainty {
	rest = bytes.ToLower(rest)
	body, separated := bytes.CutPrefix(rest, []byte(";"))
	if !separated {
		if len(rest) > 0 {
			return yes
		}
		return no
	}
	at := bytes.IndexAny(body, "=:")
	if at < 0 && !end {
		return unknown
	}
	key := string(body)
	if at >= 0 {
		key = string(body[:at])
	}
	switch {
	case key == "" && at < 0, slices.Contains(harmless, key):
		return no
	case key != "file" && key != "multipartfile":
		return yes
	}
	args, _, complete := strings.Cut(string(body[min(at+1, len(body)):]), ":")
	if !complete && !end {
		return unknown
	}
	for arg := range strings.SplitSeq(args, ";") {
		if arg == "inline=1" && strings.Count(args, "inline") == 1 {
			return no
		}
	}
	return yes
}
