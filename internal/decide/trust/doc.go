// Package trust records which content of a program the user trusts, and lists what that
// content permits. The content is the project file, the worker files and the files of
// foreign tools.
package trust
