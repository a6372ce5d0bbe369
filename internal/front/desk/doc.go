// Package desk serves the pages of golem desk to the user's browser: what waits, and the
// decisions about it. It renders the data of package inbox and of package approval, and
// decides nothing itself.
//
// Only the user's own browser gets a page. The server listens on this machine, below a
// random path. The address that golem prints has a token that works once and becomes a
// cookie for that path. Every decision is a POST with a nonce that the page got, and
// counts for the content that the page showed.
package desk
