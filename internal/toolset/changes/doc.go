// Package changes holds the tools by which the user brings in, or takes back, what
// was changed: the changes of a session, and those of the last transaction.
package changes
