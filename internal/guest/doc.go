// Package guest lets programs of the user's own be run inside a jail: where on the host
// one is found and what it is made of, and the little of the user's home and variables
// that a profile gives it.
package guest
