// Package git runs git. No other package of golem does, and this one runs only git's
// plumbing commands.
//
// An [ObjectStore] is a private bare repository. Staging writes objects into it with one git
// fast-import. Reviews read these objects, never a work tree. A [Target] is a repository
// of the user's. A worker may be able to write to it, so git never opens it as a
// repository: git reads only its objects, its references and, for a push into a work
// tree, its index, through a directory of the store that has a configuration of our own.
// So nothing in such a tree (configuration, hooks, attributes, filters, replaced objects,
// submodules) makes git run a program. A [Remote] is an address that git reaches over the
// network.
//
// Every git process gets an environment that this package makes. It inherits nothing, and
// git reads the user's or the system's configuration only for a remote that may use the
// user's credentials, and for the user's name and address. This package checks names of
// files, branches and objects first, and never puts them where git would read them as
// options.
package git
