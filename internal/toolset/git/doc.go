// Package git has the tools by which a worker hands results over, and by which the
// user looks at them and lets them in. What is staged is read through the sandbox,
// and kept by internal/clearance; to push is the user's alone.
package git
