// Package lint finds mistakes in the files of a program that do not keep golem from reading
// them: old spellings of keys, directories that do not exist, unknown vendors.
package lint
