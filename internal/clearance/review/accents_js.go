package review

import "syscall/js"

// compose returns a text in normal form NFC. The browser has the tables for it: those of
// package norm would make the program for browsers too large.
func compose(text string) string { return normalize(text, "NFC") }

// decompose returns a text in normal form NFD.
func decompose(text string) string { return normalize(text, "NFD") }

func normalize(text, form string) string {
	return js.Global().Get("String").Get("prototype").Get("normalize").Call("call", text, form).String()
}
