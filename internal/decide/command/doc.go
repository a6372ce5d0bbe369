// Package command judges a bash command line without running it. [Parse] splits the line
// into the commands that it runs, each with its words. [Rules] check these commands one
// by one against the rules of a grant. The line is allowed only if each command is.
//
// A rule matches whole words, never a prefix of the text. For a program that only runs
// another one (env, timeout, xargs, sh -c, find -exec), the rules apply to the command it
// runs. If the package does not understand a command, it reports why. Then only a rule
// for all commands can allow it.
//
// With it golem asks the user less often. It does not confine anything: an allowed program can do
// whatever the jail allows.
//
// The package is pure. It reads no files and starts no programs.
package command
