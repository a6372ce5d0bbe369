// Package scan finds problems in content before it is trusted: a file that does not match
// its name, data hidden in text, metadata that reveals too much or runs something,
// secrets, and malware.
//
// A [Scanner] examines one content and returns findings. A [Set] runs scanners with
// limits, also on the contents of archives, documents and encodings, and caches verdicts
// by the hash of the content. Content that cannot be examined is held back: an error, a
// panic, a timeout and a limit are findings that hold.
//
// A new scanner is one file and one line in New.
package scan
