package visible

import "syscall/js"

// decompose returns a character in normal form NFKC, such as "K" for the Kelvin sign. The
// browser has the tables for it: those of package norm would make the program too large.
func decompose(r rune) string {
	return js.Global().Get("String").Get("prototype").Get("normalize").Call("call", string(r), "NFKC").String()
}
