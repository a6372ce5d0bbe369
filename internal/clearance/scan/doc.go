// Package scan says what is wrong with content, before it is trusted: a file
// that is not what its name says, data that hides in text, metadata that tells
// too much or does something, secrets, malware.
//
// A [Scanner] looks at one content and returns what it found. A [Set] runs
// scanners with limits, lets them look at what is inside of archives, documents
// and encodings too, and keeps verdicts by the hash of the content. What cannot
// be looked at is held back: an error, a panic, the end of the time and a limit
// are findings that hold, never silence.
//
// A new scanner is one file and one line in New.
package scan
