// Package git is the only one that runs git, and runs its plumbing alone.
//
// A [Store] is a private bare repository. What is staged becomes objects of it
// by one git fast-import; what is shown is read from these objects, never from a
// work tree. A [Target] is a repository of the user's, which may lie where a
// worker can write: git never sees it as a repository, only its objects, its
// references and, where asked for, its index, through a directory of the store with
// a configuration of our own. So nothing that is written in such a tree
// (configuration, hooks, attributes, filters, replaced objects, submodules) makes
// git run a program. A [Remote] is an address that git reaches over the network.
//
// Every process gets an environment that is made here and inherits nothing, and
// configuration of the system or the user only where their credentials are asked
// for by name. Names of files, branches and objects are checked here first, and
// never stand where git would take them for options.
package git
